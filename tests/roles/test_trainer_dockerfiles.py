"""Every image in which runs start has the programs that launches name."""

import re

import pytest
from role_files import ROLES

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
