"""The verb `list_data`: the files of a data set with their checksums."""

from __future__ import annotations

from typing import Any

from ..data.files import find_files, list_files, told_of, write_manifest
from ..forms import LocalPath


def list_data(folder: LocalPath, manifest: LocalPath) -> dict[str, Any]:
    """Write a manifest, and beside it the paths as rsync takes them (`.paths` behind its name).

    Args:
        folder: with the files, or a file that is all of it.
        manifest: where path, size, time and SHA-256 of each file are written.

    Returns:
        `root`: the folder that the paths are below; `files`: how many; `bytes`: of all together.

    Raises:
        DataError: there are none, or they cannot travel.
    """
    with told_of("The data could not be listed on the control node"):
        root, paths = find_files(folder)
        files, size = write_manifest(manifest, list_files(root, paths))
    return {"changed": False, "root": root, "files": files, "bytes": size}
