#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: unpacks an image of this machine's engine into a folder.

Writes the files to `rootfs` in a folder of the image's own below `directory`, and what the engine
says of it to `image.json` beside it. What is there of this image stays; folders of other images
are removed. Devices are left out, and all files belong to the one user `uid`, who can read them.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

# The library has no types, and mypy takes the folder of the images for it.
docker: Any = None
with suppress(ImportError):
    docker = importlib.import_module("docker")

# What a container has of its own.
LEFT_OUT = ("dev/*", "proc/*", "sys/*")
# What was unpacked so long ago is on all nodes that it was for.
SENDING_SECONDS = 3600


class UnpackError(Exception):
    """The image cannot be unpacked."""


def unpack(client: Any, image: Any, folder: str) -> None:
    """Write the files of an image, and what is known of it.

    Args:
        client: of the engine (docker.DockerClient).
        image: docker.models.images.Image.

    Raises:
        UnpackError: tar says so.
    """
    rootfs = os.path.join(folder, "rootfs")
    os.makedirs(rootfs)
    container = client.containers.create(image.id)
    try:
        # As root, which may read and write all; whose they are is said after.
        options = ["--extract", "--no-same-owner", "--anchored", f"--directory={rootfs}"]
        excluded = [f"--exclude={pattern}" for pattern in LEFT_OUT]
        with (
            tempfile.TemporaryFile() as words,
            subprocess.Popen(
                ["tar", *options, *excluded], stdin=subprocess.PIPE, stderr=words
            ) as tar,
        ):
            assert tar.stdin is not None
            try:
                for chunk in container.export():
                    tar.stdin.write(chunk)
                tar.stdin.close()
            except BrokenPipeError:
                pass  # tar says why
            tar.wait()
            words.seek(0)
            said = words.read().decode(errors="replace").strip()
        if tar.returncode:
            raise UnpackError(said)
    finally:
        container.remove()
    with open(os.path.join(folder, "image.json"), "w", encoding="utf-8") as file:
        json.dump(image.attrs, file, indent=2)


def give(folder: str, uid: int) -> None:
    """Give all files to a user, who can then read each of them."""
    gid = pwd.getpwuid(uid).pw_gid
    for above, _, names in os.walk(folder):
        for path in (above, *(os.path.join(above, name) for name in names)):
            os.chown(path, uid, gid, follow_symlinks=False)
            if not os.path.islink(path):
                # What set-uid programs gain, nobody gains in a container.
                mode = os.stat(path).st_mode & 0o777
                os.chmod(path, mode | (0o700 if os.path.isdir(path) else 0o400))


@contextmanager
def alone(directory: str) -> Iterator[None]:
    """Keep other commands of this machine from unpacking at the same time."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_others(directory: str) -> None:
    """Remove images that no other command sends just now."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if time.time() - os.stat(path).st_mtime > SENDING_SECONDS:
            shutil.rmtree(path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
        },
    )
    if docker is None:
        module.fail_json(msg=missing_required_lib("docker"))
    options = module.params
    directory = options["directory"]
    try:
        client = docker.from_env(timeout=600)
        image = client.images.get(options["reference"])
        name = image.id.partition(":")[2]
        folder = os.path.join(directory, name)
        if os.path.isdir(folder):
            module.exit_json(changed=False, folder=folder)
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)  # who sends the files passes it
        with alone(directory):
            if not os.path.isdir(folder):
                remove_others(directory)
                scratch = os.path.join(directory, f".{name}")
                shutil.rmtree(scratch, ignore_errors=True)
                unpack(client, image, scratch)
                give(scratch, options["uid"])
                os.rename(scratch, folder)
    except docker.errors.ImageNotFound:
        module.fail_json(msg=f"the control node does not hold {options['reference']}")
    except (docker.errors.DockerException, OSError, UnpackError) as error:
        module.fail_json(msg=f"{options['reference']} could not be unpacked: {error}")
    module.exit_json(changed=True, folder=folder)


if __name__ == "__main__":
    main()
