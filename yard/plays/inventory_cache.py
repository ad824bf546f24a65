"""What Ansible said about an inventory, as long as none of its files has changed."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yard.core.files import OWNER, read_json, write_json
from yard.core.project import Project
from yard.plays.fingerprint import fingerprint_inventory, fingerprint_sources, inventory_files

# Files that say what they say; anything else may be a program.
STATIC = frozenset({".yml", ".yaml", ".ini", ".json", ""})
# A plugin asks somewhere else; what is encrypted must not lie about in the clear.
DYNAMIC = ("plugin:", "$ANSIBLE_VAULT")


def recall(project: Project, inventory: Path) -> Mapping[str, Any] | None:
    """Return the answer of last time, or None where it may be another one now."""
    key = _key(project, inventory)
    answer = read_json(_file(project, inventory))
    if key is None or not isinstance(answer, dict) or answer.get("key") != key:
        return None
    document: Mapping[str, Any] = answer["document"]
    return document


def remember(project: Project, inventory: Path, document: Mapping[str, Any]) -> None:
    """Keep an answer, unless the inventory is one that is asked anew each time."""
    key = _key(project, inventory)
    if key is not None and project.state(inventory).is_dir():
        # An inventory that only its owner may read can hold passwords.
        write_json(_file(project, inventory), {"key": key, "document": document}, OWNER)


def _key(project: Project, inventory: Path) -> str | None:
    """Checksum of all that decides the answer; None where that cannot be known."""
    if any(name.startswith("ANSIBLE_") and name != "ANSIBLE_CONFIG" for name in os.environ):
        return None
    variables = [*project.root.glob("group_vars/**/*.yml"), *project.root.glob("host_vars/**/*")]
    for path in (*inventory_files(inventory), *(path for path in variables if path.is_file())):
        if path.suffix not in STATIC or os.access(path, os.X_OK):
            return None
        if any(word in path.read_text(encoding="utf-8", errors="replace") for word in DYNAMIC):
            return None
    checksums = fingerprint_sources(project) | fingerprint_inventory(inventory)
    return hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()


def _file(project: Project, inventory: Path) -> Path:
    return project.state(inventory) / "inventory.json"
