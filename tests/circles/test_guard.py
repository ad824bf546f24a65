"""A test that starts a process and does not say so is refused, whatever becomes of the error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TESTS = """
import os, subprocess, threading
import pytest

def start():
    subprocess.run(["true"], check=True)

@pytest.fixture(scope="session")
def started():
    start()

@pytest.mark.process
def test_marked(): start()
@pytest.mark.promise("row 1")
@pytest.mark.process
def test_proof(): start()
def test_quick(): pass
def test_refused(): start()
def test_fork(): os.fork()
def test_fixture(started): pass
def test_hidden():
    try:
        start()
    except BaseException:
        pass
def test_thread():
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
"""


def outcomes(folder: Path, *options: str) -> dict[str, str]:
    """How those tests end below a conftest.py like that of all tests."""
    (folder / "conftest.py").write_text((CHECKOUT / "tests/conftest.py").read_text())
    (folder / "test_it.py").write_text(TESTS)
    for name in ("tests", "README.md", "Makefile", "examples"):
        if not (folder / name).exists():
            (folder / name).symlink_to(CHECKOUT / name)
    environment = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    alone = ["-p", "no:cacheprovider", "-p", "no:threadexception"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *alone, "-v", f"--rootdir={folder}"),
            *("-c", os.devnull, "-o", f"pythonpath={CHECKOUT}/tests/circles", *options),
            "test_it.py",
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    print(done.stdout, done.stderr)
    if "FAILED" in done.stdout:
        assert "mark it with @pytest.mark.process" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("test_it.py::")]
    return {line[0].partition("::")[2]: line[1] for line in lines}


@pytest.mark.process
def test_only_a_marked_test_starts_a_process_and_a_part_leaves_it_out_unless_it_is_a_proof(
    tmp_path: Path,
) -> None:
    assert outcomes(tmp_path, "--part=compact") == {
        **dict.fromkeys(("test_proof", "test_quick"), "PASSED"),
        **dict.fromkeys(("test_refused", "test_fork", "test_hidden", "test_thread"), "FAILED"),
        "test_fixture": "ERROR",
    }
    assert outcomes(tmp_path, "--part=rest") == {"test_marked": "PASSED"}
