#!/usr/bin/python
"""Ansible module: hands an image of the local engine to a registry on the loopback.

The registry keeps it under the image's repository with the tag `current`, so that an older one
loses its name. The engine keeps no name for it. Returns the `digest` of the manifest as the engine
made it. The action trainer_image_registry runs it.
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
