#!/usr/bin/python
"""Ansible module: runs a pull-through cache on a node's loopback, from which others fetch an image.

It keeps what is fetched through it in files that have no name, and gives it to all that ask. When
the registry on port `upstream` is gone it ends, and what it kept is gone. systemd runs it as a
user who owns nothing. The action trainer_image_registry starts it.
"""

import base64
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trainer_image_cache_server import source
from ansible.module_utils.trainer_image_ports import exposed_here, free_port, listening

# Seconds until it must answer.
START_LIMIT = 30.0
# It ends with the registry. Where that stays for ever, systemd ends it.
RUN_LIMIT = "6h"
PROPERTIES = (
    "DynamicUser=yes",
    "PrivateTmp=yes",
    "ProtectHome=yes",
    "PrivateDevices=yes",
    "CapabilityBoundingSet=",
    "RestrictAddressFamilies=AF_INET",
    "UMask=0077",
    f"RuntimeMaxSec={RUN_LIMIT}",
    "StandardInput=data",
)


def start(module: AnsibleModule, unit: str, upstream: int) -> int:
    """Start the cache, and return its port."""
    port: int = free_port()
    program = base64.b64encode(source().encode()).decode()
    properties = [*PROPERTIES, f"StandardInputData={program}"]
    module.run_command(
        [
            *("systemd-run", "--quiet", "--collect", f"--unit={unit}"),
            *(f"--property={entry}" for entry in properties),
            *("/usr/bin/python3", "-", str(port), str(upstream)),
        ],
        check_rc=True,
    )
    deadline = time.monotonic() + START_LIMIT
    while not listening(port):
        if module.run_command(["systemctl", "is-active", "--quiet", unit])[0]:
            _, log, _ = module.run_command(
                ["journalctl", "--quiet", "--output=cat", "--lines=3", f"--unit={unit}"]
            )
            module.fail_json(msg=f"the cache ended at once: {log.strip()}")
        if time.monotonic() > deadline:
            module.run_command(["systemctl", "stop", unit])
            module.fail_json(msg="the cache does not answer")
        time.sleep(0.1)
    return port


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "upstream": {"type": "int", "required": True},
        },
    )
    upstream = module.params["upstream"]
    unit = f"trainer-image-cache-{upstream}.service"
    if module.params["state"] == "absent":
        # It may have ended by itself.
        module.run_command(["systemctl", "stop", unit])
        module.exit_json(changed=True)
    if exposed_here(upstream):
        module.fail_json(msg="the node's sshd opens forwarded ports to its network")
    module.exit_json(changed=True, port=start(module, unit, upstream))


if __name__ == "__main__":
    main()
