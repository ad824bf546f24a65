"""What becomes the server of a notebook: its token shows nowhere that others look."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import trainer.launch.notebook as notebook

# In the place of Jupyter: tells how it was started.
TELLS = """#!/bin/sh
tr '\\0' '\\n' </proc/$$/cmdline >"$TOLD/arguments"
env >"$TOLD/environment"
"""


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A run directory in which the program was started; `arguments` and `environment` tell how."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(TELLS)
    (programs / "python3").chmod(0o755)
    command = [sys.executable, "-P", notebook.__file__, "--idle-seconds", "600"]
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TOLD": str(tmp_path),
        "TRAINYARD_OUTPUT_DIR": str(tmp_path / "outputs"),
        "OMPI_COMM_WORLD_RANK": "0",
        "PMIX_RANK": "0",
        "OMPI_MCA_btl": "self,tcp",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    return tmp_path


def test_the_token_is_in_a_private_file_alone(started: Path) -> None:
    file = started / ".notebook/token"
    token = file.read_text()
    assert len(token) == 48
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    arguments, environment = ((started / name).read_text() for name in ("arguments", "environment"))
    assert token not in arguments
    assert token not in environment
    assert f"JUPYTER_TOKEN_FILE={file}" in environment.splitlines()


def test_kernels_are_no_ranks_of_mpirun(started: Path) -> None:
    names = [line.partition("=")[0] for line in (started / "environment").read_text().splitlines()]
    assert "OMPI_MCA_btl" in names
    assert not {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"} & set(names)


def test_it_listens_on_loopback_and_ends_when_nobody_uses_it(started: Path) -> None:
    arguments = (started / "arguments").read_text().splitlines()
    assert "--ServerApp.ip=127.0.0.1" in arguments
    assert "--KernelManager.transport=ipc" in arguments
    assert "--ServerApp.shutdown_no_activity_timeout=600" in arguments
    assert "--MappingKernelManager.cull_idle_timeout=600" in arguments
    assert "--TerminalManager.cull_inactive_timeout=600" in arguments


def test_without_a_limit_it_goes_on() -> None:
    assert "timeout" not in json.dumps(notebook.arguments_of(4711, 0))
