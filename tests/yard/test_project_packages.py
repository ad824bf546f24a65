"""What a project requires: found, settled by uv and fetched by pip from an index of this test."""

import io
import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from test_schemas import errors
from yard_command import REPOSITORY, Yard

from yard.code import lock as settling
from yard.code.fetch import fetch_wheels
from yard.code.files import find_files
from yard.code.lock import lock, pip_settings, read_held, request_key
from yard.code.requirements import (
    NONE,
    Requirements,
    find_requirements,
    not_read,
    other_python,
)
from yard.code.settings import read_settings
from yard.core.errors import ClusterError, Exit, Interrupted, RequestError
from yard.operations import packages
from yard.plays.inventory import Inventory, parse_inventory

PLATFORM = REPOSITORY / "docker/trainer/pip-platform"
ASK_PIP = settling._pip_config
HELD = {"torch": "2.6.0+debian", "numpy": "2.2.4+image"}
LISTS = REPOSITORY / "docker/trainer/requirements"

# A build backend of the project itself: nothing is fetched to build it.
BACKEND = """
import pathlib, zipfile
NAME, VERSION, TAG = {name!r}, {version!r}, {tag!r}
METADATA = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n"
def build_wheel(folder, settings=None, metadata=None):
    base = f"{{NAME}}-{{VERSION}}"
    with zipfile.ZipFile(pathlib.Path(folder) / f"{{base}}-{{TAG}}.whl", "w") as wheel:
        wheel.writestr(f"{{NAME}}.py", "")
        wheel.writestr(f"{{base}}.dist-info/METADATA", METADATA)
        wheel.writestr(f"{{base}}.dist-info/WHEEL", f"Wheel-Version: 1.0\\nTag: {{TAG}}\\n")
        wheel.writestr(f"{{base}}.dist-info/RECORD", "")
    return f"{{base}}-{{TAG}}.whl"
def prepare_metadata_for_build_wheel(folder, settings=None):
    about = pathlib.Path(folder) / f"{{NAME}}-{{VERSION}}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    return about.name
"""
BUILD = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place packages come from, as pip is told; it has a few."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "tidy", "1.0", ["numpy"])
    wheel(folder, "tidy", "2.0", ["numpy>=2", "helper"])
    wheel(folder, "helper", "3.1")
    wheel(folder, "heavy", "1.0", ["torch==2.9"])
    wheel(folder, "torch", "2.9.0")
    # The same version as the image's, of another build.
    wheel(folder, "numpy", "2.2.4", ["nobody-has-this"])
    wheel(folder, "windows_only", "1.0", tag="cp313-cp313-win_amd64")
    source(folder, "antique", "4.9", "py3-none-any")
    source(folder, "compiled", "1.0", "cp311-cp311-linux_x86_64")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    # uv asks all Pythons of this machine, unless it is told one and finds no other.
    monkeypatch.setenv("UV_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(settling, "_pip_config", said_by_pip)
    return folder


def said_by_pip(environment: Mapping[str, str]) -> str:
    """What `pip config list` says, which starts Python for it each time."""
    settings = {**os.environ, **environment}.items()
    return "\n".join(
        f":env:.{name.removeprefix('PIP_').lower().replace('_', '-')}={value!r}"
        for name, value in settings
        if name.startswith("PIP_")
    )


def wheel(
    folder: Path, name: str, version: str, requires: list[str] | None = None, tag: str = ""
) -> None:
    about = f"{name}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {entry}" for entry in requires or []]
    tag = tag or "py3-none-any"
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        archive.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr(f"{about}/RECORD", "")


def source(
    folder: Path,
    name: str,
    version: str,
    tag: str,
    requires: tuple[str, ...] = (),
    broken: bool = False,
    silent: bool = False,
) -> None:
    """A source whose build makes a wheel of that tag, unless it is broken.

    Args:
        silent: only a build tells what it is, and that fails too.
    """
    base = f"{name}-{version}"
    project = f"[project]\nname = {name!r}\nversion = {version!r}\n"
    backend = BACKEND.format(name=name, version=version, tag=tag)
    if broken:  # as where there is no compiler: it tells what it is, and cannot be built
        backend = backend.replace("metadata=None):", "metadata=None):\n    raise OSError('gcc')", 1)
    form = 1.0 if silent else 2.2
    if silent:
        project, begin = "", "metadata_for_build_wheel(folder, settings=None):\n"
        backend = backend.replace(begin, f"{begin}    import torch_of_nowhere\n")
    files = {
        "pyproject.toml": BUILD.replace("[]", json.dumps(requires), 1) + project,
        "PKG-INFO": f"Metadata-Version: {form}\nName: {name}\nVersion: {version}\n",
        "backend.py": backend,
    }
    with tarfile.open(folder / f"{base}.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def project(tmp_path: Path, **contents: str) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    for name, text in {"train.py": "", **contents}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def required(tmp_path: Path, asked: str | None = None, **contents: str) -> Requirements | None:
    return find_requirements(find_files(project(tmp_path, **contents)), asked)


def settled(tmp_path: Path, *names: str) -> str:
    found = required(tmp_path, **{"requirements.txt": "\n".join(names)})
    assert found is not None
    return lock(found, HELD)


def refused(call: Callable[[], object], kind: type[Exception] = RequestError) -> str:
    with pytest.raises(kind) as told:
        call()
    return str(told.value)


def test_the_usual_files_are_found(tmp_path: Path) -> None:
    assert required(tmp_path) is None
    pyproject = '[project]\nname = "x"\ndependencies = ["tidy>1"]\n[tool.uv]\nno-index = true\n'
    found = required(tmp_path, **{"pyproject.toml": pyproject})
    assert found is not None
    assert (found.path, found.packages) == ("pyproject.toml", ("tidy>1",))
    files = {"requirements.txt": "tidy\n-r more/base.txt\n", "more/base.txt": "helper\n"}
    found = required(tmp_path, **files)
    assert found is not None
    assert (found.path, sorted(found.texts)) == (
        "requirements.txt",
        ["more/base.txt", "requirements.txt"],
    )
    assert required(tmp_path, NONE) is None
    other = required(tmp_path, "more/base.txt")
    assert other is not None
    assert other.texts == {"more/base.txt": "helper\n"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-e .", "requirements.txt:1: -e .: the project's own files travel"),
        ("tidy\n./libs/mine", "requirements.txt:2: ./libs/mine: the project's own"),
        ("x @ file:///srv/x.whl", "names a file of the machine that wrote it"),
        (
            "numpy=1.26.4=py311_0",
            "requirements.txt:1: numpy=1.26.4=py311_0: names a build of conda",
        ),
        ("libs/mine", "requirements.txt:1: libs/mine: the project's own files travel"),
        ("wheels/x-1-py3-none-any.whl", "name the package, and in a line of its own the folder"),
        ("-r ../shared.txt", "requirements.txt:1: ../shared.txt: does not travel"),
        ("-c limits.txt", "limits.txt: does not travel"),
        ("-r/etc/hostname", "requirements.txt:1: /etc/hostname: does not travel"),
        ("git+https://code/x", "requirements.txt:1: git+https://code/x: a repository has no hash"),
        ("x @ git+ssh://code/x", "requirements.txt:1: x @ git+ssh://code/x: a repository"),
        ("-e git+https://code/x", "requirements.txt:1: -e git+https://code/x: a repository"),
        ("--find-links \\\n  wheels\n./x", "requirements.txt:3: ./x: the project's own"),
        ("x\n--no-deps", "requirements.txt:2: --no-deps: an option that is not supported here"),
        ("-fwheels", "requirements.txt:1: -fwheels: an option"),
        ('x --config-settings="a=b"', 'requirements.txt:1: x --config-settings="a=b": an option'),
    ],
)
def test_what_cannot_be_installed_is_refused(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(lambda: required(tmp_path, **{"requirements.txt": text}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[project]\ndynamic = ["dependencies"]', "are dynamic"),
        ("[project\n", "pyproject.toml:"),
        ("[project]\ndependencies = 3", "must be a list"),
        ('[project]\ndependencies = ["x @ git+https://code/x"]', "a repository has no hash"),
        ('[project]\ndependencies = ["x @ file:///srv/x"]', "the project's own files"),
        ('[project]\nname = "me"\ndependencies = ["me[all]"]', "me[all]: the project's own files"),
    ],
)
def test_a_pyproject_that_does_not_tell(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(lambda: required(tmp_path, **{"pyproject.toml": text}))


def test_a_file_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    assert "no such file" in refused(lambda: required(tmp_path, "absent.txt"))
    for name in ("environment.yml", "uv.lock", "setup.py", "Pipfile"):
        with pytest.raises(RequestError, match=r"of the form of requirements\.txt"):
            required(tmp_path, name, **{name: "x"})
    assert required(tmp_path, "requirements-dev.lock", **{"requirements-dev.lock": "x"}) is not None
    empty = {"pyproject.toml": '[project]\nname = "x"\n'}
    assert required(tmp_path, **empty) is None
    assert "no project.dependencies" in refused(lambda: required(tmp_path, "pyproject.toml"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_editors_of_windows_may_have_written_it(encoding: str, tmp_path: Path) -> None:
    folder = project(tmp_path, **{"requirements.txt": ""})
    (folder / "requirements.txt").write_text("-e .\n", encoding=encoding)
    assert "requirements.txt:1: -e .:" in refused(lambda: required(tmp_path))
    (folder / "requirements.txt").write_bytes(b"-e .\0\n")
    assert "has bytes of 0; save it in UTF-8" in refused(lambda: required(tmp_path))
    (folder / "requirements.txt").unlink()
    (folder / "pyproject.toml").write_text('[project]\ndependencies = ["x"]\n', encoding=encoding)
    found = required(tmp_path)
    assert found is not None
    assert found.packages == ("x",)


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"environment.yml": "dependencies: [numpy]\n"}, "environment.yml"),
        ({"setup.py": "setup(install_requires=['x'])\n"}, "setup.py"),
        ({"setup.py": "setup(name='x')\n"}, None),
        ({"requirements-gpu.txt": "x\n"}, "requirements-gpu.txt"),
        ({"poetry.lock": ""}, "poetry.lock"),
        ({"a/requirements.txt": "x\n", "docs/requirements.txt": "x\n"}, "a/requirements.txt"),
        ({"pixi.toml": "", "env.yml": ""}, "env.yml, pixi.toml"),
        ({"envs/environment.yml": "", "requirements.txt": "# see envs\n"}, "envs/environment.yml"),
        (
            {"requirements.txt": "", "pyproject.toml": "[project]\ndependencies = ['y']\n"},
            "pyproject.toml [project.dependencies]",
        ),
        (
            {"pyproject.toml": "[project]\ndependencies = ['y']\n[tool.uv]\nfind-links = ['w']\n"},
            "pyproject.toml [tool.uv.find-links]",
        ),
        ({"Dockerfile": "FROM x\nRUN pip install y\n", "setup.sh": "echo\n"}, "Dockerfile"),
        ({"pyproject.toml": "[project]\ndependencies = ['y']\n", "uv.lock": ""}, "uv.lock"),
        ({"requirements.txt": "y\n", "uv.lock": ""}, None),
        (
            {"train.py": "#!/usr/bin/env python\n# /// script\n# dependencies = ['rich']\n# ///\n"},
            "the head of train.py",
        ),
        ({"requirements-gpu.txt": "x\n", "requirements.txt": "y\n"}, None),
        ({"docker/Dockerfile.gpu": "RUN pip install y\n"}, "docker/Dockerfile.gpu"),
        (
            {"scripts/install_all.sh": "pip install y\n", "x.def": "%post\n"},
            "scripts/install_all.sh",
        ),
        ({"binder/environment.yml": "name: x\ndependencies:\n"}, "binder/environment.yml"),
        ({"configs/environment.yml": "gravity: 9.8\n", "Makefile": "all:\n"}, None),
        ({"deps.txt": "x\n"}, "deps.txt"),
        (
            {"pyproject.toml": "[tool.poetry.dependencies]\npython = '^3.11'\nx = '^1'\n"},
            "pyproject.toml [tool.poetry.dependencies]",
        ),
        ({"pyproject.toml": "[tool.poetry.dependencies]\npython = '^3.11'\n"}, None),
        (
            {
                "pyproject.toml": "[project]\ndependencies = ['y']\n"
                "[project.optional-dependencies]\ntrain = ['x']\n"
            },
            "pyproject.toml [project.optional-dependencies]",
        ),
    ],
)
def test_what_is_not_read_is_named(
    texts: dict[str, str], named: str | None, tmp_path: Path
) -> None:
    files = find_files(project(tmp_path, **texts))
    warnings = not_read(files, None, find_requirements(files, None))
    assert [warning.partition(": not read;")[0] for warning in warnings] == [named] * bool(named)
    assert not_read(files, NONE, None) == []


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (">=3.9", None),
        ("~=3.11", None),
        (">=3.8,<3.12", "is >=3.8,<3.12, and the image has Python 3.13"),
        ("3.x", "'3.x' is no version specifier, and is not compared"),
    ],
)
def test_a_project_for_another_python_is_named(
    wanted: str, told: str | None, tmp_path: Path
) -> None:
    text = f"[project]\nrequires-python = '{wanted}'\n"
    files = find_files(project(tmp_path, **{"pyproject.toml": text}))
    assert other_python(files) == [f"pyproject.toml: requires-python {told}"] * bool(told)


def test_requirements_that_do_not_travel_are_named(tmp_path: Path) -> None:
    files = find_files(project(tmp_path, **{"requirements.txt": "x", ".trainyardignore": "*.txt"}))
    [warning] = not_read(files, None, find_requirements(files, None))
    assert warning.endswith("it does not travel: .trainyardignore (*.txt) leaves it out")


def test_settings_name_the_file(tmp_path: Path) -> None:
    folder = project(tmp_path, **{"trainyard.yml": "requirements: none\n"})
    assert read_settings(folder).requirements == NONE


@pytest.mark.process
def test_versions_fit_what_the_image_has(index: Path, tmp_path: Path) -> None:
    text = settled(tmp_path, "tidy", "torch", "antique")
    # What the image has is left out; numpy of the index, whose own needs nobody has, is not taken.
    assert re.findall("^[a-z=0-9.]+", text, re.M) == ["antique==4.9", "helper==3.1", "tidy==2.0"]
    assert len(re.findall("--hash=sha256:[0-9a-f]{64}", text)) == 3
    assert settled(tmp_path, "numpy", "torch==2.6.0") == ""


@pytest.mark.process
def test_dependencies_of_a_pyproject_are_settled(index: Path, tmp_path: Path) -> None:
    found = required(tmp_path, **{"pyproject.toml": '[project]\ndependencies = ["tidy<2"]\n'})
    assert found is not None
    assert "tidy==1.0" in lock(found, HELD)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("torch>=2.7", ["you require torch>=2.7", "torch==2.6.0+debian"]),
        ("heavy", ["heavy depend on torch==2.9", "torch==2.6.0+debian"]),
        ("numpy<2", ["numpy<2", "numpy==2.2.4+image"]),
        ("absent-package", ["absent-package was not found"]),
    ],
)
def test_a_conflict_names_both_sides(
    name: str, sides: list[str], index: Path, tmp_path: Path
) -> None:
    said = refused(lambda: settled(tmp_path, name)).replace("\n    ", " ")
    assert said.startswith("requirements.txt: ")
    assert "the image has torch 2.6.0+debian, numpy 2.2.4, which" in said
    for side in sides:
        assert side in said, said


@pytest.mark.process
def test_what_cannot_be_read_or_built_is_told_from_a_conflict(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # some shells tell it to all that they start
    said = refused(lambda: settled(tmp_path, "pip install tidy"))
    assert said.startswith("requirements.txt: cannot be read\n")
    assert "pip install tidy" in said
    source(index, "mute", "1.0", "py3-none-any", silent=True)
    said = refused(lambda: settled(tmp_path, "mute"))
    assert said.startswith("requirements.txt: a package has to be built to learn what it")
    assert "ModuleNotFoundError: No module named 'torch_of_nowhere'" in said
    assert "name that by a line --find-links" in said
    assert 'File "' not in said


@pytest.mark.process
def test_an_index_that_does_not_answer_is_no_mistake_of_the_request(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    said = refused(lambda: settled(tmp_path, "tidy"), ClusterError)
    assert "cannot be fetched" in said
    assert "127.0.0.1:9" in said
    assert "pip config list" in said


def test_settings_of_pip_hold() -> None:
    config = """global.index-url='https://a/simple'
global.extra-index-url='https://b/simple https://c/simple'
install.index-url='https://not-for-this'
global.cert='/etc/ca.pem'
global.proxy='http://proxy:3128'
global.trusted-host='b'
global.timeout='60'
:env:.index-url='https://mine/simple'
:env:.no-index='false'
:env:.find-links='/srv/wheels'
"""
    arguments, variables = pip_settings(config)
    assert arguments == [
        *("--allow-insecure-host", "b"),
        *("--find-links", "/srv/wheels"),
        *("--index-strategy", "unsafe-best-match"),
    ]
    # Nothing that may hold a password is among the arguments.
    assert variables == {
        "UV_DEFAULT_INDEX": "https://mine/simple",
        "UV_INDEX": "https://b/simple https://c/simple",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "ALL_PROXY": "http://proxy:3128",
    }


def test_the_same_text_is_settled_once(tmp_path: Path) -> None:
    one = required(tmp_path, **{"requirements.txt": "tidy\n"})
    other = required(tmp_path, **{"requirements.txt": "tidy<2\n"})
    assert one is not None
    assert other is not None
    assert len({request_key(one, HELD), request_key(other, HELD), request_key(one, {})}) == 3
    assert request_key(one, HELD) == request_key(one, dict(HELD))


def fetched(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "lock.txt").write_text(text)
    wheels = tmp_path / "wheels"
    fetch_wheels(PLATFORM, tmp_path / "lock.txt", wheels, lambda line: None, lambda: False)
    return sorted(path.name for path in wheels.iterdir())


@pytest.mark.process
def test_who_forbids_sources_builds_none(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_ONLY_BINARY", ":all:")
    assert "antique" in refused(lambda: settled(tmp_path, "antique"))


@pytest.mark.process
def test_packages_come_from_where_the_site_says(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    site = {"PIP_FIND_LINKS": str(index)}
    assert sorted(ASK_PIP(site).splitlines()) == sorted(said_by_pip(site).splitlines())
    found = required(tmp_path, **{"requirements.txt": "helper\n"})
    assert found is not None
    refused(lambda: lock(found, HELD), RequestError)
    (tmp_path / "lock.txt").write_text(lock(found, HELD, site))
    wheels = tmp_path / "wheels"
    arguments = (PLATFORM, tmp_path / "lock.txt", wheels, lambda line: None, lambda: False)
    with pytest.raises(ClusterError):
        fetch_wheels(*arguments)
    shutil.rmtree(wheels)
    fetch_wheels(*arguments, site)
    assert below(wheels) == ["helper-3.1-py3-none-any.whl"]


def test_an_option_may_go_on_in_another_line(tmp_path: Path) -> None:
    text = "--extra-index-url \\\r\n  https://code/simple  # ours\r\ntidy\n"
    found = required(tmp_path, **{"requirements.txt": text})
    assert found is not None
    assert found.options() == "--extra-index-url https://code/simple\n"


def test_several_options_may_stand_in_a_line(tmp_path: Path) -> None:
    text = "-i https://code/simple --extra-index-url https://mine/x  # ours -- theirs\ntidy\n"
    found = required(tmp_path, **{"requirements.txt": text})
    assert found is not None
    assert found.options() == "-i https://code/simple\n--extra-index-url https://mine/x\n"
    found.write(tmp_path)
    assert (tmp_path / "requirements.txt").read_text() == found.options() + "tidy\n"
    text = "--no-index --no-deps\n"
    said = refused(lambda: required(tmp_path, **{"requirements.txt": text}))
    assert "requirements.txt:1: --no-deps: an option" in said


@pytest.mark.process
def test_options_of_the_file_hold_for_settling_and_fetching(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is relative to the file that names it; an index is passed on as it is."""
    monkeypatch.delenv("PIP_FIND_LINKS")
    files = {
        "requirements.txt": "-r more/own.txt\n--pre\n--only-binary=:all:\n"
        "tidy \\\n  >=1  # --find-links elsewhere\n",
        "more/own.txt": "--find-links \\\n  ../wheels  # ours\n",
    }
    shutil.copytree(index, tmp_path / "project" / "wheels")
    found = required(tmp_path, **files)
    assert found is not None
    assert set(found.options().splitlines()) == {
        "--pre",
        "--only-binary :all:",
        f"--find-links {tmp_path / 'project'}/wheels",
    }
    (tmp_path / "lock.txt").write_text(lock(found, HELD))
    wheels = tmp_path / "fetched"
    arguments = (PLATFORM, tmp_path / "lock.txt", wheels, lambda line: None, lambda: False)
    with pytest.raises(ClusterError):
        fetch_wheels(*arguments)
    shutil.rmtree(wheels)
    fetch_wheels(*arguments, options=found.options())
    assert "tidy-2.0-py3-none-any.whl" in below(wheels)
    assert not (tmp_path / "options.txt").exists()


@pytest.mark.process
def test_a_package_that_was_changed_since_is_refused(index: Path, tmp_path: Path) -> None:
    text = settled(tmp_path, "helper")
    wheel(index, "helper", "3.1", ["tidy"])
    said = refused(lambda: fetched(tmp_path, text), ClusterError)
    assert "pip could not fetch the packages" in said
    assert "DO NOT MATCH THE HASHES" in said


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.process
def test_a_source_for_one_python_is_built_with_the_image(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that cannot be built here: it may want a compiler."""
    # What builds it need not be installed for each step of pip's.
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    source(index, "compiled", "1.0", "cp311-cp311-linux_x86_64", ("helper",))
    source(index, "brittle", "1.0", "cp311-cp311-linux_x86_64", broken=True)
    found = fetched(tmp_path, settled(tmp_path, "tidy", "compiled", "brittle"))
    assert found == ["helper-3.1-py3-none-any.whl", "tidy-2.0-py3-none-any.whl"]
    assert below(tmp_path / "sources") == ["brittle-1.0.tar.gz", "compiled-1.0.tar.gz"]
    assert below(tmp_path / "requires") == ["helper-3.1-py3-none-any.whl"]


@pytest.mark.process
def test_a_package_for_other_machines_is_refused(index: Path, tmp_path: Path) -> None:
    assert "windows" in refused(lambda: settled(tmp_path, "windows-only")).lower()


@pytest.mark.process
def test_fetching_can_be_stopped(index: Path, tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(settled(tmp_path, "tidy"))
    with pytest.raises(Interrupted):
        fetch_wheels(
            PLATFORM,
            tmp_path / "lock.txt",
            tmp_path / "wheels",
            lambda line: None,
            lambda: True,
        )


@pytest.mark.parametrize("target", ["cuda13", "cuda12", "cuda12-legacy"])
def test_each_image_says_what_it_holds(target: str) -> None:
    """Of the images for GPUs, no build here checks it."""
    runtime = read_held(LISTS / "held-runtime.txt")
    cuda = read_held(LISTS / f"held-{target}.txt")
    assert runtime.keys() == cuda.keys() == {"horovod", "mpi4py", "numpy", "torch", "torchvision"}
    assert runtime["torch"].endswith("+debian")
    locked = (LISTS / f"{target}.txt").read_text() + (LISTS / "horovod.txt").read_text()
    for name in cuda.keys() - {"mpi4py"}:
        version = cuda[name].removesuffix("+image")
        assert re.search(rf"^{name}=={re.escape(version)} ", locked, re.M), name
    # All images have Debian's.
    assert cuda["mpi4py"] == runtime["mpi4py"]


def test_the_image_is_that_of_the_inventory() -> None:
    def target(document: dict[str, object]) -> str:
        inventory: Inventory = parse_inventory(document, Path("inventory/lab"))
        return inventory.image_target

    nodes = {"trainers": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": {}}}}
    assert target(nodes) == "runtime"
    assert target({**nodes, "gpu_nodes": {"hosts": ["a"]}}) == "cuda12"
    assert target({**nodes, "amd_nodes": {"hosts": ["a"]}}) == "rocm"
    both = {**nodes, "gpu_nodes": {"hosts": ["a"]}, "amd_nodes": {"hosts": ["b"]}}
    both["trainers"] = {"hosts": ["a", "b", "c"]}
    site = parse_inventory(both, Path("inventory/lab"))
    assert [site.image_of([node]) for node in "abc"] == ["cuda12", "rocm", "cuda12"]
    said = {"a": {"trainer_image_target": "runtime"}}
    site = parse_inventory({**both, "_meta": {"hostvars": said}}, Path("inventory/lab"))
    assert [site.image_of([node]) for node in "abc"] == ["runtime"] * 3
    assert target({**nodes, "gpu_nodes": {"hosts": ["a"]}, "_meta": {"hostvars": said}}) == (
        "runtime"
    )


@pytest.fixture
def offline(ready: Yard, index: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """A checkout that is set up, with a project `mine`, whose inventory names the index."""
    monkeypatch.delenv("PIP_FIND_LINKS")
    told = {"PIP_FIND_LINKS": str(index)}
    monkeypatch.setattr(packages, "ask_environment", lambda *_: told)
    ready.environment = {
        name: value
        for name, value in ready.environment.items()
        if not name.startswith(("PIP_", "UV_"))
    } | {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_"))}
    return with_requirements(ready)


def with_requirements(ready: Yard) -> Yard:
    held = ready.root / "docker/trainer/requirements"
    held.mkdir(parents=True)
    shutil.copy(LISTS / "held-runtime.txt", held)
    shutil.copy(PLATFORM, held.parent)
    trained(ready, "setup")
    (ready.root / "mine").mkdir()
    (ready.root / "mine/train.py").touch()
    (ready.root / "mine/requirements.txt").write_text("tidy\ntorch\n")
    return ready


@pytest.fixture
def settled_at_once(ready: Yard, monkeypatch: pytest.MonkeyPatch) -> Yard:
    """The same without uv and pip: one package, which is there."""

    def fetch(platform: Path, locked: Path, folder: Path, *_: object) -> None:
        folder.mkdir()
        wheel(folder, "tidy", "2.0")

    monkeypatch.setattr(packages, "ask_environment", lambda *_: {})
    monkeypatch.setattr(packages, "lock", lambda *_: "tidy==2.0\n")
    monkeypatch.setattr(packages, "fetch_wheels", fetch)
    return with_requirements(ready)


def deliveries(yard: Yard) -> int:
    return len((yard.root / "nodes/node1/deliveries").read_text().splitlines())


def runs_of(yard: Yard) -> list[Path]:
    return sorted(yard.root.glob("runs/2*"))


def trained(yard: Yard, *arguments: str) -> str:
    done = yard(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_a_project_has_what_it_requires(offline: Yard, index: Path) -> None:
    train = ("train", "--code", "mine", "--nodes", "2")
    (offline.root / "mine/train.py").write_text("import helper, tqdm, tidy\n")
    said = trained(offline, *train)
    assert "may fail: train.py:1: imports tqdm, which is neither" in said
    assert "imports helper" not in said
    assert "requirements.txt: 2 packages" in said
    assert "Adding 2 packages" in said
    (run,) = runs_of(offline)
    manifest = json.loads((run / "manifest.json").read_text())
    assert errors("manifest", manifest) == []
    told = manifest["project"]["packages"]
    assert (told["path"], told["count"]) == ("requirements.txt", 2)
    folder = offline.root / ".trainyard/packages" / told["id"]
    assert sorted(path.name for path in (folder / "wheels").iterdir()) == [
        "helper-3.1-py3-none-any.whl",
        "tidy-2.0-py3-none-any.whl",
    ]
    assert "tidy==2.0" in (run / "packages.txt").read_text()
    node = offline.root / "nodes/node1/packages"
    assert node.read_text() == f"{folder}\n"
    # Nobody is asked again, also where there is something newer.
    wheel(index, "tidy", "3.0")
    assert "Adding" not in trained(offline, *train)
    assert deliveries(offline) == 1
    # A text that asks for it gets it.
    (offline.root / "mine/requirements.txt").write_text("tidy>=3\n")
    assert "requirements.txt: 1 package," in trained(offline, *train)
    assert deliveries(offline) == 2
    # The first run again has what it had, also where its packages are not kept any more.
    shutil.rmtree(offline.root / ".trainyard/packages")
    assert "2 packages" in trained(offline, "rerun", run.name)
    again = runs_of(offline)[-1]
    assert (again / "packages.txt").read_text() == (run / "packages.txt").read_text()


def test_without_requirements_nothing_is_added(settled_at_once: Yard) -> None:
    trained(settled_at_once, "train", "--code", "mine", "--requirements", "none")
    (run,) = runs_of(settled_at_once)
    assert json.loads((run / "manifest.json").read_text())["project"]["packages"] is None
    assert not (settled_at_once.root / ".trainyard/packages").exists()
    trained(settled_at_once, "rerun", run.name)
    assert not (settled_at_once.root / "nodes/node1/packages").exists()


def test_a_node_that_lost_the_image_gets_it_again(settled_at_once: Yard) -> None:
    trained(settled_at_once, "train", "--code", "mine")
    (settled_at_once.root / "nodes/node1/packages").unlink()
    assert "A node does not have the image with the packages." in trained(
        settled_at_once, "train", "--code", "mine"
    )
    assert deliveries(settled_at_once) == 2


def test_a_node_that_cannot_take_them_keeps_no_run_from_the_others(settled_at_once: Yard) -> None:
    (settled_at_once.root / "nodes/node2/packages").mkdir()
    said = trained(settled_at_once, "train", "--code", "mine", "--nodes", "1")
    assert "node2" in said
    assert "Going on with the nodes that have it" in said
    assert deliveries(settled_at_once) == 1


def test_a_conflict_is_told_before_anything_is_touched(
    settled_at_once: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflict(*_: object) -> str:
        raise RequestError("torch>=2.7 and torch==2.6.0+debian")

    monkeypatch.setattr(packages, "lock", conflict)
    done = settled_at_once("train", "--code", "mine")
    assert done.returncode == Exit.BAD_REQUEST
    assert "torch>=2.7 and torch==2.6.0+debian" in done.stderr
    assert runs_of(settled_at_once) == []
    done = settled_at_once("train", "--model", "vit", "--requirements", "none")
    assert "REQUIREMENTS= (--requirements): goes with CODE= alone" in done.stderr
