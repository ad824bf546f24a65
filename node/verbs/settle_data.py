"""The verb `settle_data`: checks what came of a data set, and puts it in place."""

from __future__ import annotations

from typing import Any

from ..data.files import told_of
from ..data.place import Place
from ..forms import LocalPath


def settle_data(directory: LocalPath, name: str) -> dict[str, Any]:
    """Put a data set in place, in one step, for everybody to read, once all its files are right.

    Returns:
        `files`: how many it has.

    Raises:
        DataError: a file is not what the manifest says. It is gone: the next time sends it.
    """
    with told_of("The data set could not be put in place"):
        return {"files": Place(directory, name).settle()}
