"""Every image in which runs start has the programs that launches name."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from role_files import ROLES, of_the_site

from node.runs import mpirun

DOCKER = ROLES.parent / "docker/trainer"
# Built on a finished trainer image
ON_ANOTHER = {"Dockerfile.packages"}
DOCKERFILES = sorted({path.name for path in DOCKER.glob("Dockerfile*")} - ON_ANOTHER)
# Stages that nodes do not get
BUILDS = {"platform", "packages", "horovod", "hello", "environment"}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_programs_of_launches_are_in_every_image(name: str) -> None:
    _, *stages = re.split(r"^FROM ", (DOCKER / name).read_text(), flags=re.MULTILINE)
    copies = re.compile(r"^COPY (?:--from=\w+ )?(\S+) (\S+)$", re.MULTILINE)
    images = {stage.split("\n")[0].split()[-1]: copies.findall(stage) for stage in stages}
    finished = images.keys() - BUILDS
    assert finished
    for image in finished:
        programs = set()
        for source, target in images[image]:
            folder = DOCKER / source
            names = [each.name for each in folder.iterdir()] if folder.is_dir() else [folder.name]
            programs |= {f"{target}{each}" for each in names}
        assert {mpirun.HELLO_MPI, mpirun.RANK} <= programs, image


def test_every_trainer_image_is_looked_at() -> None:
    assert {"Dockerfile", "Dockerfile.cuda", "Dockerfile.rocm"} <= set(DOCKERFILES)


def test_another_number_of_the_account_reaches_nodes_and_image() -> None:
    site = of_the_site("trainer_image", trainyard_uid=2500, trainer_image_sources="of docker/")
    followers = ("training_node_uid", "training_node_gid", "cifs_mount_uid", "cifs_mount_gid")
    for name in followers:
        assert site.template(site.available_variables[name]) == 2500, name
    account = site.template(site.available_variables["trainyard_account"])
    assert account["uid"] == 2500
    arguments = site.template(site.available_variables["trainer_image_uid_arguments"])
    assert arguments == {"TRAINER_UID": "2500", "TRAINER_GID": "2500"}
    for dockerfile in DOCKERFILES:
        assert arguments.keys() <= set(
            re.findall(r"^ARG (\w+)", (DOCKER / dockerfile).read_text(), re.M)
        )


def test_an_image_of_another_making_has_a_name_of_its_own() -> None:
    names = set()
    for uid, sources in ((2000, "ours"), ("2000", "ours"), (2500, "ours"), (2000, "others")):
        site = of_the_site("trainer_image", trainyard_uid=uid, trainer_image_sources=sources)
        names.add(site.template(site.available_variables["trainer_image_base"]))
    for further in ({"trainer_image_release": "bookworm"}, {"trainer_image_target": "cuda13"}):
        site = of_the_site("trainer_image", trainer_image_sources="ours", **further)
        names.add(site.template(site.available_variables["trainer_image_base"]))
    assert len(names) == 5


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n")


# What the image is built from, a file of each kind and what may happen to one.
INPUTS: dict[str, Callable[[Path], object]] = {
    "a Dockerfile": lambda docker: append(docker / "Dockerfile"),
    "a list of packages": lambda docker: append(docker / "requirements/runtime.txt"),
    "a patch": lambda docker: append(docker / "patches/0001-cxx17.patch"),
    "a program to compile": lambda docker: append(docker / "hello_mpi.c"),
    "a program to copy": lambda docker: append(docker / "bin/rank"),
    "a module for projects": lambda docker: append(docker / "python/trainyard_run.py"),
    "what apt leaves out": lambda docker: append(docker / "dpkg.cfg"),
    "a file that comes": lambda docker: (docker / "patches/0009.patch").touch(),
    "a file that goes": lambda docker: (docker / "rocm.yml").unlink(),
    "another name": lambda docker: (docker / "rocm.yml").rename(docker / "roc.yml"),
    "a program that is none any more": lambda docker: (docker / "bin/rank").chmod(0o644),
}
NO_INPUTS: dict[str, Callable[[Path], object]] = {
    "a text for people": lambda docker: (docker / "NOTES.md").touch(),
    "byte code": lambda docker: (docker / "python/x.pyc").touch(),
    "the umask of who cloned": lambda docker: (docker / "Dockerfile").chmod(0o664),
    "a time": lambda docker: (docker / "Dockerfile").touch(),
}


def listing(root: Path) -> str:
    """What the name of the image is a hash of."""
    site = of_the_site("trainer_image")
    command = ["bash", "-c", site.template(site.available_variables["trainer_image_listing"])]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.mark.process
def test_each_kind_of_input_changes_what_the_image_is_named_after(tmp_path: Path) -> None:
    before = listing(DOCKER.parents[1])
    for number, (name, change) in enumerate((INPUTS | NO_INPUTS).items()):
        docker = tmp_path / str(number) / "docker/trainer"
        shutil.copytree(DOCKER, docker)
        change(docker)
        assert (listing(docker.parents[1]) != before) == (name in INPUTS), name
