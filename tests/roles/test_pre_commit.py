"""The hooks of .pre-commit-config.yaml run, each on files of its kind."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
CONFIG = ".pre-commit-config.yaml"
HOOKS = [
    hook
    for repository in yaml.safe_load((CHECKOUT / CONFIG).read_text())["repos"]
    for hook in repository["hooks"]
]
# A file for every hook.
FILES = ("yard/core/words.py", "playbooks/exec.yml", "bootstrap.sh", "docker/node/Dockerfile")
# They read the whole project, for ten seconds: a stand-in notes what it is given, which is what
# `make lint` gives them.
SLOW = {"mypy": "-p yard -p trainer -p node", "ansible-lint": "--strict playbooks/exec.yml"}
STAND_IN = '#!/bin/sh\necho "$*" > "$0.told"\n'


def test_every_hook_runs_and_passes(tmp_path: Path) -> None:
    for name in (*FILES, CONFIG, "pyproject.toml", ".yamllint"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    for name in {Path(hook["entry"].split()[0]).name for hook in HOOKS} - SLOW.keys():
        (programs / name).symlink_to(Path(sys.prefix, "bin", name))
    for name in SLOW:
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["pre-commit", "run", "--color=never", "--files", *FILES],
        cwd=tmp_path,
        env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    results = dict(re.findall(r"^(.+?)\.{3,}.*?(\w+)$", done.stdout, re.MULTILINE))
    assert results == {hook["name"]: "Passed" for hook in HOOKS}, done.stdout + done.stderr
    lint = (CHECKOUT / "Makefile").read_text()
    for name, given in SLOW.items():
        assert (programs / f"{name}.told").read_text() == f"{given}\n"
        assert f"\t{name} {given.removesuffix(' playbooks/exec.yml')}\n" in lint
