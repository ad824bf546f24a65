"""Every problem of a node has a sentence, and what the sentence names exists."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
import yaml
from role_files import ROLES

from node.check import check as training_node_check
from node.check import problems as training_node_problems
from node.check.paths import STRAYS, readable, within, writable
from node.verdict.finding import NODE_PROBLEMS, REMEDIES

PROBLEMS = training_node_problems.PROBLEMS
MAKEFILE = (ROLES.parent / "Makefile").read_text(encoding="utf-8")
SOURCES = {
    path: path.read_text(encoding="utf-8") for path in sorted((ROLES.parent / "node").rglob("*.py"))
}
# The call `problem("code", ...)`, also over two lines.
CALL = re.compile(r'\bproblem\(\s*"(\w+)"')


def texts(code: str) -> str:
    wording = PROBLEMS[code]
    return f"{wording.sentence} {wording.remedy}"


def test_every_code_in_the_modules_has_a_sentence_and_every_sentence_a_use() -> None:
    used = {code for source in SOURCES.values() for code in CALL.findall(source)}
    assert used | set(NODE_PROBLEMS) == set(PROBLEMS)


def test_every_check_of_a_node_has_a_code() -> None:
    source = next(text for path, text in SOURCES.items() if path.name == "paths.py")
    assert all(f'"{code}"' in source for code in (*NODE_PROBLEMS, *STRAYS, "stray"))


@pytest.mark.parametrize("code", PROBLEMS)
def test_a_sentence_is_filled_in_with_the_values(code: str) -> None:
    kinds = {name: kind or "" for _, name, kind, _ in Formatter().parse(texts(code)) if name}
    values = {name: 1234567 if kind else f"<{name}>" for name, kind in kinds.items()}
    found = training_node_problems.problem(code, **values)
    assert found.asdict() == {"code": code, "values": found.values, "text": found.text}
    assert all(format(value, kinds[name]) in found.text for name, value in values.items())


@pytest.mark.parametrize("code", PROBLEMS)
def test_what_a_sentence_names_exists(code: str) -> None:
    text = texts(code)
    for target in re.findall(r"\bmake ([a-z-]+)\b(?! on)", text):
        if target not in ("room",):
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
    for variable in re.findall(r"\b([A-Z]{3,})(?:=|\b(?= or|,|$))", text):
        assert re.search(rf"\$\({variable}\)|,{variable}[,)]", MAKEFILE), variable
    for role in re.findall(r"\brole (\w+)", text):
        assert (ROLES / role).is_dir()


def test_of_every_remedy_it_is_written_whether_it_was_followed() -> None:
    root = ROLES.parent
    listed = yaml.safe_load((root / "tests/remedies.yml").read_text())
    contact = yaml.safe_load((root / "yard/contact/causes.yml").read_text())
    codes = {
        "contact": [c["name"] for c in contact["causes"]],
        "nodes": PROBLEMS,
        "verdict": REMEDIES,
    }
    assert {name: set(entries) for name, entries in listed.items()} == {
        name: set(known) for name, known in codes.items()
    }
    for code, said in {**listed["contact"], **listed["nodes"], **listed["verdict"]}.items():
        word, _, test = str(said).partition(" ")
        if word not in ("people", "hardware", "machine", "none", "edit"):
            test = word
        is_day = re.fullmatch(r"\d{4}-\d\d-\d\d", test)
        assert not test or is_day or (root / test.partition("::")[0]).is_file(), code


def test_a_check_that_is_not_passed_is_said_as_before() -> None:
    check = training_node_check.at_least(
        "disk",
        0.5,
        1.0,
        "GB free",
        "low_disk",
        subject="/srv",
    )
    found = training_node_problems.failed_check(check)
    assert found.code == "low_disk"
    assert found.values == {"path": "/srv", "value": 0.5, "threshold": 1.0}
    assert found.text == (
        "disk /srv: 0.5 GB free, should be at least 1.0 GB free: "
        "make room on the disk of /srv: du -x tells what takes it"
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account reaches; pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.process
@pytest.mark.parametrize(
    ("path", "said"),
    [("/", ""), ("/none", "No such file or directory"), ("/a\0b", "embedded null byte")],
)
def test_a_look_that_breaks_in_any_way_is_no_success(path: str, said: str) -> None:
    def look() -> None:
        os.stat(path)

    assert within(5, look) == said


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="it looks as another account")
def test_what_the_training_user_may_not_read_or_write_is_told(open_folder: Path) -> None:
    stranger, data = 54321, open_folder / "faces"
    data.mkdir()
    assert readable(str(open_folder), stranger, stranger).ok
    data.chmod(0o700)
    check = readable(str(open_folder), stranger, stranger)
    assert (check.ok, check.code) == (False, "unreadable")
    assert check.value == f"Permission denied: {data}"
    assert writable(str(open_folder), stranger, stranger).ok  # in a folder of that account's own
    missing = writable(str(open_folder / "none"), stranger, stranger)
    assert (missing.code, missing.value) == ("unwritable", "No such file or directory")
