"""Where things are in a checkout."""

import os
from dataclasses import dataclass
from pathlib import Path

from yard.core.errors import RequestError
from yard.core.typed import TYPES_YARD

# The checkout that this code lies in, for a command that is given somewhere else.
OWN = Path(__file__).parents[2]

# What commands, roles and tests keep in .trainyard/ beside the folders of inventories: one of such
# a name would share it, and what is remembered of an inventory is removed with it.
OWN_FOLDERS = frozenset(
    {
        *("bundle", "collection", "control_node", "data", "image", "packages"),
        *("tensorboard", "tmp", "web-key"),
        # In checkouts of Trainyard's developers.
        *("faults.json", "gpu-day", "molecule", "mutants", "results"),
        *("speed", "test_tools"),
    }
)


@dataclass(frozen=True)
class Project:
    """A checkout of the repository: the playbooks, the runs, and what is remembered between."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> "Project":
        """Return the checkout that holds `start`, or else the one that this code lies in.

        The installed command is always of its own: other projects of Ansible have such files too,
        and it must not run theirs.

        Raises:
            RequestError: neither is one.
        """
        for folder in (OWN,) if os.environ.get(TYPES_YARD) else (start, *start.parents, OWN):
            if (folder / "site.yml").is_file() and (folder / "ansible.cfg").is_file():
                return cls(folder)
        raise RequestError(f"{start} is not inside a Trainyard checkout (no site.yml)")

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.root / "runs"

    @property
    def own_inventory(self) -> Path:
        """The inventory of a command that names none: the local cluster."""
        return self.root / "inventory" / "local"

    def inventory(self, named: Path | None) -> Path:
        """The inventory that a command or INVENTORY in the environment names, else the local one.

        A path that is not there is one of the checkout: `inventory/mysite` is so from everywhere.
        """
        told = named or os.environ.get("INVENTORY")
        path = Path(told) if told else self.own_inventory
        return (path if path.exists() else self.root / path).absolute()

    def playbook(self, name: str) -> Path:
        """The file of an operation's playbook; that of set-up is site.yml."""
        if name == "setup":
            return self.root / "site.yml"
        return self.root / "playbooks" / f"{name}.yml"

    def state(self, inventory: Path) -> Path:
        """The folder for what is remembered about one inventory."""
        return self.root / ".trainyard" / inventory_name(inventory)

    def logs(self, inventory: Path) -> Path:
        """The folder for logs of the commands about one inventory."""
        return self.state(inventory) / "log"

    def image_fits(self, inventory: Path) -> Path:
        """The folder of the images that set-up chose for nodes with GPUs, a file a set of them."""
        return self.state(inventory) / "fits"

    def shown(self, path: Path) -> str:
        """A path as shown to people: relative to where they stand, when it lies below."""
        path = path.absolute()
        for base in (Path.cwd(), self.root):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
        return str(path)


def inventory_name(inventory: Path) -> str:
    """A short name for an inventory: its folder's, and the file's when it is one file of several.

    `inventory/local` → `local`, `sites/lab.yml` → `sites-lab`.
    """
    # Without `..`, which would name the checkout itself.
    inventory = Path(os.path.normpath(inventory.absolute()))
    if inventory.is_dir():
        return inventory.name
    return f"{inventory.parent.name}-{inventory.stem}"
