"""The modules that a program imports and nobody brings: told before nodes are taken."""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from yard.code.fetch import SOURCES
from yard.code.requirements import REQUIREMENTS
from yard.code.syntax import GONE

# What can be imported in each of the images beside Python's own, and after an empty line what can
# in those for GPUs alone
_IN_IMAGES = Path(__file__).with_name("image_modules.txt")
_FOR_CPUS = "runtime"


def missing_modules(foreign: Mapping[str, str], target: str, packages: Path | None) -> list[str]:
    """Those modules that a program imports and will not find, a sentence each.

    Of what is built with the image nobody knows the modules before; then nothing is said.

    Args:
        foreign: the modules that are neither Python's nor the program's, with the places where it
            imports them.
        target: which image it runs in.
        packages: the folder of what it requires; None where that is nothing.
    """
    if packages is not None and (packages / SOURCES).exists():
        return []
    in_all, _, on_gpus = _IN_IMAGES.read_text(encoding="utf-8").partition("\n\n")
    there = {*in_all.split(), *(on_gpus.split() if target != _FOR_CPUS else ())}
    for wheel in packages.glob("wheels/*.whl") if packages is not None else ():
        with zipfile.ZipFile(wheel) as archive:
            # Some lie in a folder of what is to be installed.
            names = [re.sub(r"^[^/]+\.data/\w+/", "", name) for name in archive.namelist()]
        there |= {re.split(r"[./]", name)[0] for name in names}
    if "setuptools" in there:
        there.add("distutils")
    way = (
        "is neither in the image, the project nor its requirements; add the package ({0}, if "
        f"that is its name) to {REQUIREMENTS} of the project"
    )
    return [
        f"{place}: imports {name}, which "
        + ("Python 3.13 no longer has" if name in GONE else way.format(name))
        for name, place in foreign.items()
        if name not in there
    ]
