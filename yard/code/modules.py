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
# Packages that are called otherwise than what is imported of them. What an index has by the latter
# name is mostly somebody else's.
_PACKAGES = {
    "absl": "absl-py",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "distutils": "setuptools",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "hydra": "hydra-core",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "pkg_resources": "setuptools<81",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "umap": "umap-learn",
    "zmq": "pyzmq",
}
# What people call modules of their own. An index has strangers' packages of these names.
_OWN = re.compile(
    r"(?:\w+_)?utils?|helpers?|common|misc|libs?|src|core|base|models?|modules?|nets?|networks?|layers?"
    r"|loss(?:es)?|data|dataset|(?:data)?loaders?|configs?|cfg|conf|options?|opts|args|settings|engine"
    r"|train(?:er|ing)?|test|eval|metrics?|preprocess(?:ing)?|transforms?|optim|logger|constants|tools?"
    r"|scripts?|main|agents?|envs?|experiments?|registry|tasks?|solver|backbones?|ops|apex"
)


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
    return [
        f"{place}: imports {name}, which "
        + (
            "Python 3.13 no longer has"
            if name in GONE
            else f"is neither in the image, the project nor its requirements. {way_to(name)}"
        )
        for name, place in foreign.items()
        if name not in there
    ]


def way_to(module: str) -> str:
    """How a program gets a module that it lacks, a sentence."""
    name = module.partition(".")[0]
    if _OWN.fullmatch(name):
        return (
            "By its name it is no package of an index, but one of the program's own, or built from "
            "its source."
        )
    if name in _PACKAGES:
        return f"Write {_PACKAGES[name]} to {REQUIREMENTS} of the project."
    return f"Write {name} to {REQUIREMENTS} of the project, if its package is called so."
