#!/usr/bin/python
"""Ansible module: what there is of a local cluster. Changes nothing.

Asks the Docker engine for images, network and containers, the containers for their state and keys,
and reads the files of the control node, all in one go. Of each container it returns `name`,
`fingerprint`, `running`, the `state` of systemd inside, `authorized_keys`, `host_key`, the
`directory` of the checkout that made it, and its `owner`: `this` checkout, `another` one, or one
that is `gone`; and the other clusters `sharing` the directory.
"""

import os
import re
import stat
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.local_cluster_engine import (
    containers_of,
    image_tags,
    inspected,
    networks_of,
    owner_of,
    sharing,
)


def capabilities() -> str:
    """Return the bounding set of this process."""
    found = re.search(r"^CapBnd:\s+(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return found[1] if found else "0"


def public_key(key: Path) -> str:
    """Return the public key beside a private one, where both belong together."""
    public = key.with_name(f"{key.name}.pub")
    if not (key.is_file() and public.is_file()):
        return ""
    command = ["ssh-keygen", "-y", "-P", "", "-f", str(key)]
    answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    text = public.read_text(encoding="utf-8").strip()
    return text if text.split()[:2] == answer.stdout.split()[:2] else ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "images": {"type": "list", "elements": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "inventory": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    name, directory = module.params["name"], Path(module.params["directory"])
    key = public_key(directory / "id_ed25519")
    files = {
        "known_hosts": directory / "known_hosts",
        "inventory": Path(module.params["inventory"]),
    }
    places = {"directory": directory, **files}
    module.exit_json(
        changed=False,
        images=image_tags(module.params["images"]),
        networks=networks_of(inspected("network", [name])),
        containers=[
            {**container, "owner": owner_of(container, str(directory.resolve()), key)}
            for container in containers_of(name)
        ],
        sharing=sharing(name, str(directory.resolve())),
        capabilities=capabilities(),
        cores=len(os.sched_getaffinity(0)),
        public_key=key,
        texts={
            role: path.read_text(encoding="utf-8") for role, path in files.items() if path.is_file()
        },
        modes={
            role: f"{stat.S_IMODE(path.stat().st_mode):04o}"
            for role, path in places.items()
            if path.exists()
        },
    )


if __name__ == "__main__":
    main()
