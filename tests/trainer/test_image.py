"""What is in the image, and what is left out of it."""

import pkgutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

# What it is built from; dpkg.cfg and dpkg-cpu.cfg there say what is left out.
SOURCES = "docker/trainer"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
# It has a search path of its own, which ldd does not follow.
SYSTEMD = LIBRARIES / "systemd"
# What pytest and jsonschema bring, with all that they need; and this directory
OF_TESTS = {"iniconfig", "jsonschema", "jsonschema_specifications", "pluggy", "py", "pytest"}
OF_TESTS |= {"referencing", "rpds", "pygments"}


def test_no_package_archives() -> None:
    """Each node fetches and unpacks the whole image, so that it holds no packages as archives."""
    archives = Path("/var/cache/apt/archives")
    assert archives.is_dir()
    assert list(archives.glob("**/*.deb")) == []


def test_no_tests_of_pytorch() -> None:
    """Debian's PyTorch comes with 90 MB of tests, of which nothing is needed."""
    # An image with PyTorch from an index has neither directory.
    programs = Path("/usr/lib/python3/dist-packages/torch/bin")
    assert list(Path("/usr/lib/libtorch-test").glob("*")) == [], (
        f"{SOURCES}/dpkg-cpu.cfg leaves out too little"
    )
    assert {program.name for program in programs.glob("*")} <= {"torch_shm_manager"}


def test_every_library_finds_what_it_needs() -> None:
    """No file that is left out is one that another needs."""
    libraries = [
        file
        for file in LIBRARIES.glob("**/*.so*")
        if SYSTEMD not in file.parents and file.is_file()
    ]
    assert LIBRARIES / "ucx/libuct_ib.so.0" in libraries
    found = subprocess.run(["ldd", *libraries], capture_output=True, text=True, check=False)
    assert "libc.so.6 => /" in found.stdout
    missing = [line for line in found.stdout.splitlines() if "not found" in line]
    assert missing == [], f"{SOURCES}/dpkg-cpu.cfg leaves out too much"


def test_the_control_node_knows_what_can_be_imported() -> None:
    """It warns who imports something else, by a list for all images."""
    listed = Path("/checkout/yard/code/image_modules.txt").read_text().split()
    places = [place for place in sys.path if place.startswith(("/usr/lib/python3/", "/usr/local"))]
    there = {module.name for module in pkgutil.iter_modules(places)} | {*packages_distributions()}
    shown = {name for name in there if name.isidentifier() and not name.startswith("_")}
    assert shown - OF_TESTS - set(listed) == set()
