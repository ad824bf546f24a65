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


def test_another_python_s_environment_is_made_anew_and_that_of_the_distribution_s_stays(
    tmp_path: Path,
) -> None:
    shutil.copy(CHECKOUT / "bootstrap.sh", tmp_path)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "python3").write_text(FIRST_ON_PATH)
    (tmp_path / "first" / "python3").chmod(0o755)
    made = tmp_path / "environment"
    python = made / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(ANOTHER)
    python.chmod(0o755)
    (made / "pyvenv.cfg").touch()
    (made / "thesis.tex").touch()
    bootstrap(tmp_path)
    assert not (made / "thesis.tex").exists()
    said = subprocess.run([python, "-c", "print('runs')"], capture_output=True, text=True)
    assert said.stdout == "runs\n"
    assert (made / "bin" / "pip").exists()
    assert f"home = {Path(DEBIAN_PYTHON).parent}" in (made / "pyvenv.cfg").read_text().splitlines()

    (made / "thesis.tex").touch()
    bootstrap(tmp_path)
    assert (made / "thesis.tex").exists()
    assert not (tmp_path / "first" / "used").exists()
