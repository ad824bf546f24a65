"""The hooks of .pre-commit-config.yaml run, each on files of its kind."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
HOOKS = [
    hook
    for repository in yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]
# A file for every hook; `make lint` looks at all of them.
FILES = ("yard/cli.py", "playbooks/exec.yml", "bootstrap.sh", "docker/node/Dockerfile")


def test_every_hook_runs_and_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        ["pre-commit", "run", "--color=never", "--files", *FILES],
        cwd=CHECKOUT,
        env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    results = dict(re.findall(r"^(.+?)\.{3,}.*?(\w+)$", done.stdout, re.MULTILINE))
    assert results == {hook["name"]: "Passed" for hook in HOOKS}, done.stdout + done.stderr
