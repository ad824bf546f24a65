"""The verb `have_data`: a user's own data on the control node, fetched and unpacked."""

from __future__ import annotations

import os
from typing import Any

from ..data.files import told_of
from ..data.source import have
from ..forms import LocalPath


def have_data(
    source: str, cache: LocalPath, sha256: str = "", kept: bool = False
) -> dict[str, Any]:
    """Have data on this machine, and see that it can be sent to nodes.

    Args:
        source: a folder, an archive or another file of this machine, or its HTTP address.
        cache: directory for what is fetched and unpacked, for this account alone.
        sha256: of the file or archive; empty where nobody knows.
        kept: take what was fetched from the address before, where that is still here.

    Returns:
        `folder` with the files, or a file, where that is all; `sha256` of what came, empty for a
        folder; `images`: whether image files are in folders of it.

    Raises:
        DataError: it cannot be had, or cannot travel.
    """
    with told_of("The data could not be had on the control node"):
        os.makedirs(os.path.dirname(cache), exist_ok=True)
        os.makedirs(cache, mode=0o700, exist_ok=True)
        return have(source, cache, sha256, kept)._asdict()
