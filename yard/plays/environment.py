"""How programs on this machine reach packages: proxies, mirrors and authorities of the site."""

from collections.abc import Mapping
from pathlib import Path

from yard.core.project import Project
from yard.plays.ask import ask

# Has the file with the certificates that are trusted, where the site has some of its own.
CERTIFICATES = "PIP_CERT"


def read_environment(project: Project, inventory: Path) -> Mapping[str, str]:
    """Ask Ansible for the variables that the site wants set; empty where it wants none.

    Raises:
        RequestError: Ansible cannot read the inventory.
    """
    found: Mapping[str, str] = ask("ask_environment", project, inventory)
    return found
