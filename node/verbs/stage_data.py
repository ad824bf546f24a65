"""The verb `stage_data`: what a machine lacks of a data set, and whether there is room."""

from __future__ import annotations

from typing import Any

from ..data.files import told_of
from ..data.place import Place
from ..forms import LocalPath


def stage_data(directory: LocalPath, name: str, uid: int, dry: bool = False) -> dict[str, Any]:
    """Compare what is in place with the manifest, and make a folder for what is to come.

    Args:
        uid: of the user who sends.
        dry: only compare.

    Returns:
        `complete`: whether nothing is missing; `missing`, `missing_bytes`: how many files are to
        come, and how large they are; `files`: the folder that they are to come to.

    Raises:
        DataError: something is in place that is not ours to replace, or there is no room.
    """
    with told_of("The data set could not be looked at"):
        place = Place(directory, name)
        stage = place.look()[0] if dry else place.stage(uid)
    return {"changed": not stage.complete, "files": place.files, **stage._asdict()}
