"""Machines with NVIDIA GPUs for tests: files and a program that stand in for the driver."""

import io
import json
import os
import runpy
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from ansible.module_utils.local_cluster_gpus import PLACE, GpuMachine, write_driver
from role_files import ROLES

CHECKOUT = ROLES.parent
FILES = ROLES / "local_cluster/files/stand_in_driver"
# Real output, by machine (record_gpus.py).
RECORDED = Path(__file__).parent / "data/gpus"


def have_smi_hang(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an nvidia-smi that hangs in the driver: it does not even end when it is killed.

    Args:
        folder: an empty one, which comes first in PATH.
    """
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delattr(subprocess.Popen, "wait")


class FakeDriver:
    """A machine's driver in a folder.

    Args:
        root: the folder.
        machine: its GPUs.
    """

    def __init__(self, root: Path, machine: GpuMachine) -> None:
        write_driver(root, machine, FILES)
        self.root = root
        # What the kernel shows.
        self.sys = root / PLACE / "sys"
        # A program of this machine gets them by its environment.
        self.environment = {"PATH": f"{root}/usr/bin:{os.environ['PATH']}"}

    def ask(self, program: str, *arguments: str, seconds: float | None = None) -> tuple[int, str]:
        """Answer in place of `node.machine.gpus.ask`, without a process."""
        stand_in = runpy.run_path(f"{self.root}/usr/bin/{program}")
        said, complaint = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(complaint):
            try:
                status = stand_in["main"](list(arguments))
            except SystemExit as end:
                status = end.code
        return status, (said.getvalue() + complaint.getvalue() * (status != 0)).strip()

    def change(self, *states: str) -> None:
        """Let GPUs be in these states from now on, as the stand-in for nvidia-smi has them."""
        (self.root / PLACE / "state").write_text("".join(f"{state}\n" for state in states))

    def replay(self, name: str) -> dict[str, str]:
        """Answer as a machine did whose answers were recorded; return those."""
        recorded: dict[str, str] = json.loads((RECORDED / f"{name}.json").read_text())
        (self.root / PLACE / "machine.json").write_text(json.dumps(recorded))
        return recorded
