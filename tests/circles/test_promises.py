"""A promise without a test is named, and so is one with two; a mark must name a promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from promises import (
    BEGIN,
    END,
    commands,
    main,
    mistakes,
    of_compact_set,
    read_marks,
    read_promises,
    targets,
)

CHECKOUT = Path(__file__).parents[2]
TEST = "@pytest.mark.promise({names})\n@pytest.mark.process\ndef test_{name}() -> None: ...\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that promises six things, each with what proves it."""
    document = {
        "rows": {1: "users", 2: "shells"},
        "longer": {"row 2": "takes an hour"},
        "unproven": {"make lint": "it is the check"},
    }
    files = {
        "tests/promises.yml": yaml.safe_dump(document),
        "Makefile": "up: $(READY) ## bring it up: NODES=2\n\t@true\nlint: ## check\n\t@true\n",
        "README.md": "```sh\nmake up NODES=3   # three\n```\nAnd `make up`.\n",
        "examples/own/train.py": "",
        "molecule/accounts/molecule.yml": (
            "{provisioner: {inventory: {group_vars: {all: {scenario_promises: [row 1]}}}}}"
        ),
        "molecule/plain/molecule.yml": "---\n# All as usual\n",
        "tests/README.md": f"# Tests\n{BEGIN}old\n{END}\nMore.\n",
        "tests/e2e/test_up.py": TEST.format(name="up", names='"make up", "make up NODES=3"')
        + TEST.format(name="own", names='"examples/own"')
        + TEST.format(name="shells", names='"row 2"'),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_promise_has_its_test_and_the_table_says_which(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], checkout) == 1
    assert "stale" in capsys.readouterr().out
    assert main([], checkout) == 0
    text = (checkout / "tests/README.md").read_text()
    assert "| row 1 | users | `molecule/accounts` |" in text
    assert "| `make up` | bring it up | `e2e/test_up.py::test_up` |" in text
    assert "| row 2 | shells | `e2e/test_up.py::test_shells`, in `make test-all` alone: " in text
    assert "| `make lint` | check | none: it is the check |" in text
    assert text.startswith("# Tests\n")
    assert text.endswith("\nMore.\n")
    assert of_compact_set(read_promises(checkout)) == {
        *("row 1", "make up", "make up NODES=3", "examples/own")
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("tests/e2e/test_up.py", '"examples/own"', '"row 1"', "'examples/own' has no test"),
        ("tests/e2e/test_up.py", '"examples/own"', '"row 1"', "'row 1' has 2 tests: "),
        ("tests/e2e/test_up.py", '"row 2"', '"row 3"', "proves 'row 3', which nobody promises"),
        ("tests/e2e/test_up.py", '"row 2"', '"row 2", "make lint"', "says that it has none"),
        ("molecule/accounts/molecule.yml", "[row 1]", "[]", "'row 1' has no test (users)"),
        ("Makefile", "lint:", "new: ## go\nlint:", "'make new' has no test (go)"),
        ("README.md", "And", "`make up\nNODES=4` and", "'make up NODES=4' has no test"),
    ],
)
def test_what_does_not_fit_is_named(
    file: str, old: str, new: str, said: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (checkout / file).read_text()
    assert old in text
    (checkout / file).write_text(text.replace(old, new))
    assert main([], checkout) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('pytestmark = pytest.mark.promise("row 1")\n', "stands at no test"),
        ("@pytest.mark.promise(NAME)\ndef test_it() -> None: ...\n", "takes names of promises"),
    ],
)
def test_a_mark_that_no_table_could_show_is_refused(text: str, said: str, checkout: Path) -> None:
    (checkout / "tests/test_more.py").write_text(text)
    with pytest.raises(SystemExit, match=said):
        read_marks(checkout)


def test_reasons_are_of_promises(checkout: Path) -> None:
    file = checkout / "tests/promises.yml"
    file.write_text(file.read_text().replace("row 2: takes", "row 9: takes"))
    with pytest.raises(SystemExit, match="no promise 'row 9'"):
        read_promises(checkout)


def test_this_checkout_keeps_its_promises() -> None:
    assert mistakes(read_promises(CHECKOUT), read_marks(CHECKOUT)) == []
    assert "make test" in commands((CHECKOUT / "README.md").read_text())


def helped(*arguments: str) -> str:
    """What make prints, for nobody at a terminal."""
    command = ["make", f"VENV={sys.prefix}", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "\033" not in done.stdout
    return done.stdout


@pytest.mark.process
@pytest.mark.promise("make help")
def test_help_prints_every_target() -> None:
    names = [name.removeprefix("make ") for name in targets((CHECKOUT / "Makefile").read_text())]
    short, whole = helped(), helped("help")
    assert short.count("\n") <= 24
    for name in names:
        assert name in short.split() or name == "help"
        assert f"\n  {name} " in f"\n{whole}"


@pytest.mark.process
@pytest.mark.promise("make train HELP=1")
def test_help_of_a_target_explains_what_it_takes_and_does_nothing() -> None:
    shown = helped("train", "HELP=1")
    assert "GPUS_PER_NODE=N       take N free GPUs of each machine" in shown
    assert "OPTIMIZER=adamw|sgd" in shown
    assert helped("local-down", "HELP=1").startswith("make local-down\ntake the local cluster")


@pytest.mark.parametrize("document", ["faults.md", "own-code.md"])
def test_tests_that_documents_name_are_there(document: str) -> None:
    """Also where a path in them is of several tests."""
    text = (CHECKOUT / "docs" / document).read_text(encoding="utf-8")
    for path, test in re.findall(r"`((?:tests/)?\w+/test_\w+\.py)(?:::(\w+))?`", text):
        file = CHECKOUT / "tests" / path.removeprefix("tests/")
        assert f"def {test}" in file.read_text(encoding="utf-8"), path


def test_commands_in_documents_are_there() -> None:
    """Their targets, and the variables behind them."""
    makefile = (CHECKOUT / "Makefile").read_text()
    takes = dict(re.findall(r"^([a-z0-9-]+):(?:.*?## (.*))?", makefile, re.MULTILINE))
    (everywhere,) = re.findall(r"^EVERYWHERE := (.*)", makefile, re.MULTILINE)
    typed = r"\s([A-Z][A-Z0-9_]*)=(?:'[^']*'|\"[^\"]*\"|[^\s`]*)"
    command = rf"(?:^ {{4}}(?:\$ )?|`)make\s+([a-z0-9-]+)((?:{typed})*)"
    folders = ("docs", "examples", "roles", "tests")
    within = (path for folder in folders for path in (CHECKOUT / folder).rglob("*.md"))
    for document in (CHECKOUT / "README.md", *within):
        text = document.read_text(encoding="utf-8")
        for target, words, _ in re.findall(command, text, re.MULTILINE):
            assert target in takes, f"{document}: {target}"
            for name in re.findall(typed, words):
                known = [*everywhere.split(), *re.findall(r"([A-Z][A-Z0-9_]*)=", takes[target])]
                assert name in known, f"{document}: {target} {name}"
