#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: hands an image of the local engine to a registry."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: trainer_image_push
short_description: Hands an image of the local engine to a registry on the loopback
description:
  - The registry keeps it under the image's repository with the tag C(current), so that an older one
    loses its name. The engine keeps no name for it. The action C(trainer_image_registry) runs it.
author: Trainyard
options:
  reference:
    description: The image, with its tag.
    type: str
    required: true
  registry:
    description: The registry, as address and port.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Hand the image over
  trainer_image_push:
    reference: trainyard/trainer:1f2e3d4c5b6a
    registry: 127.0.0.1:40123
"""

RETURN = r"""
digest:
  description: SHA-256 of the image's manifest, as the engine made it.
  returned: success
  type: str
"""

import json

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trainer_image_docker import DockerError, docker, repository


def digest_of(image: str) -> str:
    """Return the digest under which the engine has sent an image to where its name says.

    Raises:
        DockerError: it has not sent it.
    """
    digests = json.loads(docker("image", "inspect", "--format", "{{json .RepoDigests}}", image))
    for entry in digests:
        name, _, digest = entry.partition("@")
        if name == repository(image):
            return str(digest)
    raise DockerError(f"the engine has no digest of {image}, only {digests}")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "registry": {"type": "str", "required": True},
        },
    )
    reference = module.params["reference"]
    sent = f"{module.params['registry']}/{repository(reference)}:current"
    try:
        docker("image", "tag", reference, sent)
        try:
            docker("image", "push", "--quiet", sent)
            digest = digest_of(sent)
        finally:
            docker("image", "rm", sent)
    except DockerError as error:
        module.fail_json(msg=f"{reference} cannot be handed to the registry: {error}")
    module.exit_json(changed=True, digest=digest)


if __name__ == "__main__":
    main()
