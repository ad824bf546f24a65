"""Packages from an index of their own: what docker/trainer/fetch-packages takes from it.

The index is a folder with a wheel that nobody runs, in the place of PyTorch's, which has those with
ROCm and names a hash for each file.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
SOURCES = CHECKOUT / "docker/trainer"
VERSION = "2.10.0+rocm7.1"
WHEEL = f"torch-{VERSION}-py3-none-any.whl"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the program, a list for the index, and the index."""
    for name in ("fetch-packages", "pip-platform"):
        shutil.copy(SOURCES / name, tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/rocm-index.txt").write_text(f"torch=={VERSION}\n")
    folder = tmp_path / "index/torch"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        info = f"torch-{VERSION}.dist-info"
        about = f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n"
        wheel.writestr(f"{info}/METADATA", about)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    listed(tmp_path, hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest())
    return tmp_path


def listed(place: Path, digest: str) -> None:
    """Have the index name this hash."""
    link = f'<a href="{WHEEL.replace("+", "%2B")}#sha256={digest}">{WHEEL}</a>'
    (place / "index/torch/index.html").write_text(
        f"<!DOCTYPE html><html><body>{link}</body></html>"
    )


def fetch(place: Path, index: str) -> subprocess.CompletedProcess[str]:
    # Nothing of the tests' own settings decides where packages come from.
    settings = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        ["sh", place / "fetch-packages", place / "got", "rocm-index"],
        env={**settings, "PYTHON": sys.executable, "INDEX": index, "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_the_index_has_is_fetched_once(place: Path) -> None:
    done = fetch(place, (place / "index").as_uri())
    assert (done.returncode, done.stdout) == (0, f"{place}/got fetched\n"), done.stderr
    assert [path.name for path in (place / "got").iterdir()] == [WHEEL]
    again = fetch(place, "file:///nonexistent")
    assert (again.returncode, again.stdout) == (0, f"{place}/got has all packages already\n")
    (place / "got" / WHEEL).unlink()
    assert fetch(place, "file:///nonexistent").returncode != 0


def test_a_file_of_another_hash_is_refused(place: Path) -> None:
    listed(place, 64 * "0")
    done = fetch(place, (place / "index").as_uri())
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (place / "got").exists()


def test_a_version_that_the_index_lacks_is_refused(place: Path) -> None:
    (place / "requirements/rocm-index.txt").write_text("torch==2.10.0+rocm9.9\n")
    done = fetch(place, (place / "index").as_uri())
    assert done.returncode != 0
    assert "rocm9.9" in done.stderr


def test_the_role_names_the_index_of_the_site() -> None:
    tasks = yaml.safe_load((CHECKOUT / "roles/trainer_image/tasks/context.yml").read_text())
    assert tasks[0]["environment"]["INDEX"] == "{{ trainer_image_rocm_index }}"
