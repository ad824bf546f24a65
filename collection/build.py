#!/usr/bin/env python3
"""Builds the collection trainyard.cluster from the checkout: collection/build.py [DIRECTORY]

In the checkout each role has its modules beside its tasks. Roles of a collection cannot: Ansible
reads modules, what modules import, and action plugins from `plugins/` alone, under the collection's
name. This program lays the files out that way, gives imports their new names, and has
`ansible-galaxy` build the archive in DIRECTORY (.trainyard/collection unless given). It prints the
archive's path.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]

# Where files of the checkout are in the collection. The roles find docker/ and trainer/, which
# images are built from, two directories above their own in both.
PLACES = {
    "collection/galaxy.yml": "galaxy.yml",
    "collection/README.md": "README.md",
    "collection/meta": "meta",
    "collection/CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
    "docker/node": "docker/node",
    "docker/trainer": "docker/trainer",
    "group_vars": "group_vars",
    # What the roles' modules import of it is there under this name in the checkout too, by a link.
    "node": "plugins/module_utils/training_node",
    "roles": "roles",
    "trainer": "trainer",
}
# Directories of a role that hold code for Ansible, and what they are in a collection.
PLUGINS = {
    "library": "plugins/modules",
    "module_utils": "plugins/module_utils",
    "action_plugins": "plugins/action",
}


class BuildError(Exception):
    """The checkout has something that the collection cannot have."""


def checkout_files() -> list[str]:
    """List the files that the collection is made of, relative to the checkout.

    Files that git does not know yet count, unless it ignores them.
    """
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PLACES]
    listed = subprocess.run(git, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    return sorted(file for file in set(listed.split("\0")) if (CHECKOUT / file).is_file())


def destination(file: str) -> str:
    """Return a file's place in the collection.

    Args:
        file: relative to the checkout.

    Raises:
        BuildError: it is a plugin of a kind that would need another name than it has in the role.
    """
    match file.split("/"):
        case ["roles", _, directory, *rest] if directory in PLUGINS:
            return "/".join([PLUGINS[directory], *rest])
        case ["roles", _, directory, *_] if directory.endswith("_plugins"):
            raise BuildError(
                f"{file}: tasks and templates of a collection must call such a plugin by its full "
                "name. Make it an action plugin or a module."
            )
    place = next(place for place in PLACES if file == place or file.startswith(f"{place}/"))
    return PLACES[place] + file.removeprefix(place)


def arrange(files: list[str]) -> dict[str, str]:
    """Return the collection's files, each with the file of the checkout that it is.

    Raises:
        BuildError: two files would have one place.
    """
    arranged: dict[str, str] = {}
    for file in files:
        place = destination(file)
        if place in arranged:
            raise BuildError(f"{arranged[place]} and {file} would both be {place}: rename one.")
        arranged[place] = file
    return arranged


def rename_imports(source: str, file: str, package: str, names: frozenset[str]) -> str:
    """Return a Python source that imports the roles' module_utils from the collection.

    Args:
        source: what is in the file.
        file: named in errors.
        package: Python package of the collection, such as ansible_collections.trainyard.cluster.
        names: of the module_utils of all roles.

    Raises:
        BuildError: an import is written in a form that this function does not rename.
    """
    alternatives = "|".join(sorted(map(re.escape, names)))
    old = re.compile(rf"^(\s*(?:from|import) )ansible\.module_utils\.({alternatives})\b", re.M)
    renamed = old.sub(rf"\1{package}.plugins.module_utils.\2", source) if names else source
    for node in ast.walk(ast.parse(renamed, filename=file)):
        match node:
            case ast.ImportFrom(module=str(module)):
                imported = {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                imported = {alias.name for alias in node.names}
            case _:
                continue
        missed = imported & {f"ansible.module_utils.{name}" for name in names}
        if missed:
            raise BuildError(
                f"{file}:{node.lineno}: write this as `from {missed.pop()} import …`, which the "
                "collection can rename."
            )
    return renamed


def write_tree(tree: Path, arranged: Mapping[str, str], package: str) -> None:
    """Write the collection's files.

    Args:
        tree: an empty directory.
        arranged: as `arrange` returns it.
        package: Python package of the collection.

    Raises:
        BuildError: a file cannot be renamed to fit.
    """
    utils = f"{PLUGINS['module_utils']}/"
    names = frozenset(
        place.removeprefix(utils).partition("/")[0].removesuffix(".py")
        for place in arranged
        if place.startswith(utils)
    )
    for place, file in arranged.items():
        target = tree / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / file, target)
        if place.startswith("plugins/") and place.endswith(".py"):
            target.write_text(rename_imports(target.read_text(), file, package, names))


def build(directory: Path) -> Path:
    """Build the archive and return its path.

    Args:
        directory: where the archive goes; made where it is missing.

    Raises:
        BuildError: the checkout has something that the collection cannot have.
        subprocess.CalledProcessError: git or ansible-galaxy failed, and said why.
    """
    galaxy = yaml.safe_load((CHECKOUT / "collection/galaxy.yml").read_text())
    namespace, name, version = galaxy["namespace"], galaxy["name"], galaxy["version"]
    arranged = arrange(checkout_files())
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tree:
        write_tree(Path(tree), arranged, f"ansible_collections.{namespace}.{name}")
        galaxy_build = ["ansible-galaxy", "collection", "build", "--force"]
        subprocess.run(
            [*galaxy_build, "--output-path", str(directory), tree],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return directory / f"{namespace}-{name}-{version}.tar.gz"


if __name__ == "__main__":
    try:
        given = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / ".trainyard/collection"
        print(build(given.resolve()))
    except BuildError as error:
        sys.exit(f"collection: {error}")
