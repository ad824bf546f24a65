"""Which Python bootstrap.sh makes the environment with, and what it leaves of another one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
DEBIAN_PYTHON = "/usr/bin/python3"
# One that a user has first on the path, as pyenv and conda put theirs.
FIRST_ON_PATH = f"""#!/bin/sh
echo used >> "$(dirname "$0")/used"
exec {DEBIAN_PYTHON} "$@"
"""
# The Python of an environment that another one has made.
ANOTHER = "#!/bin/sh\necho /opt/conda 3.12.1\n"


def bootstrap(checkout: Path) -> None:
    """Run bootstrap.sh of a checkout that needs no packages, for its folder `environment`."""
    path = f"{checkout / 'first'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    environment.pop("PYTHON", None)
    command = ["./bootstrap.sh", "environment"]
    subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose environment was there before, with somebody's file in it."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(CHECKOUT / "bootstrap.sh", folder)
    (folder / "requirements.txt").touch()
    (folder / "first").mkdir()
    (folder / "first" / "python3").write_text(FIRST_ON_PATH)
    (folder / "first" / "python3").chmod(0o755)
    earlier = [DEBIAN_PYTHON, "-m", "venv", "--without-pip", "environment"]
    subprocess.run(earlier, cwd=folder, check=True)
    (folder / "environment" / "thesis.tex").touch()
    bootstrap(folder)
    return folder


def test_an_environment_of_the_distributions_python_stays(checkout: Path) -> None:
    made = (checkout / "environment" / "pyvenv.cfg").read_text().splitlines()
    assert f"home = {Path(DEBIAN_PYTHON).parent}" in made
    assert not (checkout / "first" / "used").exists()
    assert (checkout / "environment" / "thesis.tex").exists()
    assert (checkout / "environment" / "bin" / "pip").exists()


def test_an_environment_of_another_python_is_made_anew(checkout: Path) -> None:
    python = checkout / "environment" / "bin" / "python"
    python.unlink()
    python.write_text(ANOTHER)
    python.chmod(0o755)
    bootstrap(checkout)
    assert not (checkout / "environment" / "thesis.tex").exists()
    said = subprocess.run([python, "-c", "print('runs')"], capture_output=True, text=True)
    assert said.stdout == "runs\n"
