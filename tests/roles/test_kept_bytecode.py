"""What tests keep of the code of modules is the code that is sent, and no other."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import kept_bytecode

STORE = Path(kept_bytecode.FOLDER).parents[2] / ".trainyard/bytecode"


def said(archive: Path, text: str) -> str:
    """What Python prints that imports a module of this text from an archive."""
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sent.py", text)
    environment = {**os.environ, "PYTHONPATH": f"{kept_bytecode.FOLDER}{os.pathsep}{archive}"}
    done = subprocess.run(
        [sys.executable, "-c", "import sent"], env=environment, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_an_edit_is_what_runs_and_the_path_is_that_of_now(tmp_path: Path) -> None:
    first, other = f"print('{tmp_path} first')\n", f"print('{tmp_path} other')\n"
    files = set(STORE.iterdir()) if STORE.is_dir() else set()
    for archive in (tmp_path / "a.zip", tmp_path / "b.zip"):
        assert said(archive, first) == f"{tmp_path} first\n"
        assert said(archive, other) == f"{tmp_path} other\n"
    assert str(tmp_path / "b.zip/sent.py") in said(tmp_path / "b.zip", first + "nobody\n")
    assert str(tmp_path / "a.zip/sent.py") in said(tmp_path / "a.zip", first + "nobody\n")
    kept = set(STORE.iterdir()) - files
    assert len(kept) >= 3
    for file in kept:
        file.write_bytes(b"no code")
    assert said(tmp_path / "a.zip", first) == f"{tmp_path} first\n"
    for file in kept:
        file.unlink(missing_ok=True)


def test_all_that_tests_start_keeps_it() -> None:
    assert kept_bytecode.FOLDER in os.environ["PYTHONPATH"].split(os.pathsep)
