#!/usr/bin/python
"""Ansible module: takes out of an image archive the layers that every receiver holds.

An archive that `docker save` writes carries every layer, and `docker load` opens those alone that
the engine lacks. Without them a change of the trainer's code is some kilobytes instead of
gigabytes. Engines that keep images in containerd want every layer: a load that fails has to be
repeated with all. `held` has for each receiver the layers (diff ids, lowest first) of each of its
images. With `left_out` 0 nothing was written.
"""

import json
import tarfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def common_layers(layers: list[str], held: list[list[list[str]]]) -> int:
    """How many of the lowest `layers` every receiver holds as the lowest ones of some image."""
    return min(
        (max((shared(layers, image) for image in images), default=0) for images in held), default=0
    )


def shared(layers: list[str], others: list[str]) -> int:
    """Length of the common beginning; above a difference every layer is another one."""
    count = 0
    for ours, theirs in zip(layers, others, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def read_document(archive: tarfile.TarFile, name: str) -> Any:
    """A JSON document of the archive; KeyError without one of that name."""
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return json.load(file)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "held": {"type": "list", "elements": "list", "required": True},
        },
    )
    with tarfile.open(module.params["archive"]) as archive:
        image = read_document(archive, "manifest.json")[0]
        layers = read_document(archive, image["Config"])["rootfs"]["diff_ids"]
        count = common_layers(layers, module.params["held"])
        # One file may stand for several layers of the same content.
        needless = set(image["Layers"][:count]) - set(image["Layers"][count:])
        if needless:
            with tarfile.open(module.params["dest"], "w") as smaller:
                for member in archive:
                    if member.name not in needless:
                        smaller.addfile(
                            member, archive.extractfile(member) if member.isfile() else None
                        )
    module.exit_json(changed=bool(needless), left_out=len(needless), layers=len(layers))


if __name__ == "__main__":
    main()
