#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: chooses the image that fits the GPUs and the drivers of all nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: trainer_image_choose
short_description: Chooses the image that fits the GPUs and the drivers of all nodes
description:
  - Takes the newest image that all nodes with NVIDIA GPUs can run, and records the choice with what
    the nodes told. A node that told nothing this time counts with what it told last time. While one
    has never told anything, nothing is chosen.
author: Trainyard
options:
  images:
    description: The images, newest first, as in C(docker/trainer/cuda.yml).
    type: dict
    required: true
  hosts:
    description: All nodes with GPUs.
    type: list
    elements: str
    required: true
  answers:
    description: For each node that was asked, C(loaded), C(installs) and C(gpus).
    type: dict
    required: true
  record:
    description: File that the choice is kept in, in a directory that may have to be made.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Choose
  trainer_image_choose:
    images: {cuda12: {torch: 2.10.0+cu128, cuda: "12.8", driver: 525, capabilities: ["8.0"]}}
    hosts: [gpu01]
    answers:
      gpu01:
        loaded: 550.163.01
        installs: 550
        gpus: [{label: "NVIDIA A100 in slot 0000:3b:00.0", capability: "8.0"}]
    record: /srv/checkout/.trainyard/image/fit.json
"""

RETURN = r"""
target:
  description: What was chosen; empty where nothing could be.
  returned: always
  type: str
before:
  description: What the record had before; empty where there was none.
  returned: always
  type: str
message:
  description:
    - The choice and why, for people, unless it is what it was; and which nodes have no GPU.
  returned: always
  type: str
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
