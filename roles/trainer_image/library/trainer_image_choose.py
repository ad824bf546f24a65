#!/usr/bin/python
"""Ansible module: chooses the image that fits the GPUs and the drivers of all nodes.

It is the newest of `images` (docker/trainer/cuda.yml) that all nodes with NVIDIA GPUs can run. The
choice is kept in `record` with what the nodes told (`loaded`, `installs` and `gpus` of
nvidia_driver_foresee). A node that told nothing this time counts with what it told last time.
While one has never told anything, nothing is chosen. Returns `target` and the one `before`, either
may be empty, and a `message` for people.
"""

import json
import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trainer_image_fit import (
    Image,
    MisfitError,
    Node,
    choose_image,
    read_images,
    read_node,
    without_gpu,
)


def read_record(path: str) -> dict[str, Any]:
    """What was chosen last time; without a target where nothing was."""
    try:
        with open(path, encoding="utf-8") as file:
            record: dict[str, Any] = json.load(file)
    except (FileNotFoundError, json.JSONDecodeError):
        return {"target": "", "answers": {}}
    return record


def describe(image: Image, nodes: list[Node], before: str) -> str:
    """The choice in words: nodes of one driver and of the same kinds of GPUs are named together."""
    first = f"The image for NVIDIA GPUs is {image.name} (PyTorch {image.torch}, CUDA {image.cuda})"
    changed = f"; it was {before}" if before else ""
    alike: dict[str, list[str]] = {}
    for node in nodes:
        kinds = ", ".join(sorted({gpu.capability for gpu in node.gpus}, key=float))
        told = f"{node.driver}, compute capability {kinds}" if kinds else "no GPU"
        alike.setdefault(told, []).append(node.name)
    reasons = [f"{', '.join(names)}: {told}" for told, names in alike.items()]
    return f"{first}{changed}. {'; '.join(reasons)}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "dict", "required": True},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "answers": {"type": "dict", "required": True},
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    record = read_record(options["record"])
    told = record["answers"] | options["answers"]
    answers = {host: told[host] for host in options["hosts"] if host in told}
    before = record["target"]
    silent = [host for host in options["hosts"] if host not in answers]
    if silent:
        names = ", ".join(silent)
        message = f"The image for NVIDIA GPUs is not chosen yet: {names} could not be asked."
        module.exit_json(changed=False, target="", before=before, message=message)
    nodes = [read_node(host, answer) for host, answer in answers.items()]
    try:
        image = choose_image(read_images(options["images"]), nodes)
    except MisfitError as error:
        module.fail_json(msg=f"trainer_image: {error}")
    chosen = {"target": image.name, "answers": answers}
    changed = chosen != record
    if changed and not module.check_mode:
        folder = os.path.dirname(options["record"])
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            json.dump(chosen, file, indent=2)
        os.chmod(file.name, 0o644)
        os.replace(file.name, options["record"])
    said = [describe(image, nodes, before) if image.name != before else "", without_gpu(nodes)]
    message = "\n".join(filter(None, said))
    module.exit_json(changed=changed, target=image.name, before=before, message=message)


if __name__ == "__main__":
    main()
