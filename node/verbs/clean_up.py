"""The verb `clean_up`: trainer images of this machine that nothing needs any more."""

from __future__ import annotations

import json
import os
import time
from typing import Any
from urllib.parse import quote

from ..engine.docker import EngineError, ask, get
from ..forms import LocalPath
from ..machine.apt import installer
from ..runs.lock import holders

# Seconds to remove an image of some gigabytes.
REMOVAL_PATIENCE = 120.0


def images(repositories: list[str], keep: str) -> list[dict[str, Any]]:
    """Return the images of some repositories, and why each stays.

    Raises:
        EngineError: no engine answers.
    """
    used = {container["ImageID"] for container in get("/containers/json", all=1)}
    found = []
    for image in get("/images/json"):
        for name in image.get("RepoTags") or []:
            if name.rpartition(":")[0] not in repositories:
                continue
            kept = None
            if name == keep or name.startswith(f"{keep}-"):
                kept = "current"
            elif image["Id"] in used:
                kept = "in_use"
            found.append({"kind": "image", "name": name, "bytes": image["Size"], "kept": kept})
    return [*sorted(found, key=lambda each: str(each["name"])), *unnamed()]


def unnamed() -> list[dict[str, Any]]:
    """Return what builds left without a name, together: whose builds, the engine does not say."""
    left = get("/images/json", filters=json.dumps({"dangling": ["true"]}))
    total = sum(image["Size"] for image in left)
    name = f"{len(left)} without a name"
    return [{"kind": "image", "name": name, "bytes": total, "kept": "unnamed"}] if left else []


def runs(root: str) -> list[dict[str, Any]]:
    """Return the runs with files here; they go when these have been brought home."""
    if not os.path.isdir(root):
        return []
    try:
        live = {lock["run"] for lock in holders(root)}
    except EngineError:
        live = set()
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
    return [
        {
            "kind": "run",
            "name": name,
            "bytes": None,
            "kept": "goes_on" if name in live else "not_home",
        }
        for name in names
    ]


def installing() -> list[dict[str, Any]]:
    """Return who installs packages here: it goes on to its end when a set-up is interrupted."""
    apt = installer()
    if apt is None:
        return []
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(apt.since))
    name = f"{apt}, since {since}"
    return [{"kind": "process", "name": name, "bytes": None, "kept": "installs"}]


def remove_image(name: str) -> None:
    """Remove an image by its name.

    Raises:
        EngineError: it cannot be removed.
    """
    status, body = ask("DELETE", f"/images/{quote(name, safe='')}", timeout=REMOVAL_PATIENCE)
    if status >= 400 and status != 404:
        raise EngineError(f"{name}: {body.decode(errors='replace').strip()}")


def clean_up(
    repositories: list[str], keep: str, root: LocalPath | None = None, remove: bool = False
) -> dict[str, Any]:
    """Look for images of trainers that nothing needs, and for what goes on or is not home.

    Args:
        keep: the image that is needed, and those whose names begin with it and a `-`.
        root: directory of all runs; None for none.

    Returns:
        `found`: kind (image, run, process), name, bytes, and why each is kept; `removed`: names;
        and `trouble`: what the engine says, empty where all went well.
    """
    removed: list[str] = []
    found: list[dict[str, Any]] = []
    trouble = ""
    try:
        found = images(repositories, keep)
        for entry in found:
            if entry["kept"] is None and remove:
                remove_image(entry["name"])
                removed.append(entry["name"])
    except EngineError as error:
        trouble = str(error)
    left = runs(root) if root else []
    return {
        "found": [*found, *left, *installing()],
        "removed": removed,
        "trouble": trouble,
        "changed": bool(removed),
    }
