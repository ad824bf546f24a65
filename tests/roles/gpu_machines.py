"""Machines with NVIDIA GPUs for tests: NVIDIA's programs on a mock of its management library.

Tests that need them are skipped, with the reason, where the tools are not there.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
from role_files import ROLES

# As conftest.py does it: this is imported by a script, too.
ansible.module_utils.__path__.extend(map(str, sorted(ROLES.glob("*/module_utils"))))

from ansible.module_utils.local_cluster_gpu_tools import (  # noqa: E402  # the line above
    TOOLS,
    GpuToolsError,
    fetch_smi,
    find_tools,
    smi_release,
)
from ansible.module_utils.local_cluster_gpus import (  # noqa: E402  # the line above
    LIBRARIES,
    OVERRIDES,
    GpuMachine,
    write_driver,
)

CHECKOUT = ROLES.parent
# Where what was fetched or built is kept.
GPU_CACHE = CHECKOUT / ".trainyard/gpus"


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
        profile: kind of the GPUs: `t4`.
        count: how many.
        driver: release of the driver: `550.163.01`.
    """

    def __init__(self, root: Path, profile: str, count: int, driver: str) -> None:
        try:
            tools = find_tools(CHECKOUT, os.environ.get(TOOLS, ""))
            smi = fetch_smi(smi_release(driver), GPU_CACHE)
        except GpuToolsError as error:
            pytest.skip(str(error))
        write_driver(root, tools, smi, GpuMachine(profile, count, driver))
        self.root = root
        # A program of this machine gets them by its environment.
        self.environment = {
            "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{root}/{LIBRARIES}",
        }

    def change(self, gpu: int, **values: Any) -> None:
        """Change what a GPU tells from now on, in words of the mock's configuration."""
        document = {"devices": {str(gpu): values}}
        (self.root / OVERRIDES).write_text(json.dumps(document))

    def smi(self, *arguments: str) -> str:
        """What nvidia-smi prints, whether it ends well or not."""
        done = subprocess.run(
            ["nvidia-smi", *arguments],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout
