"""How programs on this machine reach packages: proxies, mirrors and authorities of the site."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from yard.core.errors import RequestError
from yard.core.project import Project

# Has the file with the certificates that are trusted, where the site has some of its own.
CERTIFICATES = "PIP_CERT"


def read_environment(project: Project, inventory: Path) -> Mapping[str, str]:
    """Ask Ansible for the variables that the site wants set; empty where it wants none.

    ansible-inventory does not resolve templates, so Ansible itself is asked. It takes a second.

    Raises:
        RequestError: Ansible cannot read the inventory.
    """
    command = [sys.executable, "-m", "yard.plays.ask_environment"]
    command += [str(inventory.absolute()), str(project.root)]
    # The package is found wherever this one was found.
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    answer = subprocess.run(
        command,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        shown = project.shown(inventory)
        raise RequestError([f"cannot read {shown}", *answer.stderr.strip().splitlines()[-3:]])
    found: Mapping[str, str] = json.loads(answer.stdout)
    return found
