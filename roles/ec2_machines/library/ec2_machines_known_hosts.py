#!/usr/bin/python
"""Ansible module: the SSH host keys of EC2 machines, from their consoles, as a file for ssh.

At the first start cloud-init prints the host keys on the console, which EC2 hands out to who may
manage the machine. No key is learnt over the network that it is to protect. Machines whose keys
stand in the file already, by their ids, are not asked; the addresses are written anew. Others than
`instances`, as amazon.aws.ec2_instance_info gives them, lose theirs.
"""

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

with suppress(ImportError):  # AnsibleAWSModule says it
    from botocore.exceptions import ClientError

from ansible.module_utils.ec2_machines_errors import AWS_ERRORS
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

# How often a console is looked at, seconds.
PAUSE = 10
# What cloud-init's module keys-to-console prints around the keys. A syslog prefix may stand before.
BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.S)
KEY = re.compile(r"\b(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp\d+) (AAAA[A-Za-z0-9+/=]+)")


def keys_on(console: str) -> list[str]:
    """The host keys on a console, as `type key`; none where it does not show them (yet).

    What runs on a machine can write on its console later: the first block is cloud-init's.
    """
    block = BLOCK.search(console)
    return [f"{kind} {key}" for kind, key in KEY.findall(block[1])] if block else []


def pins(instance: Mapping[str, Any], keys: list[str]) -> list[str]:
    """Lines of a known_hosts file. The comment says which machine it is: addresses come again."""
    return [f"{_addresses(instance)} {key} {instance['instance_id']}" for key in keys]


def _addresses(instance: Mapping[str, Any]) -> str:
    names = (instance.get("public_ip_address"), instance.get("private_ip_address"))
    return ",".join(name for name in names if name)


def kept_pins(lines: list[str], instance: Mapping[str, Any]) -> list[str]:
    """Lines with the keys that stand in the file already, for the addresses that it has now.

    A machine that was stopped and started has another public address, the same keys, and none of
    them on its console. EC2 gives an id to one machine alone, so the keys are known by the id.
    """
    entries = [line.split() for line in lines]
    identity = instance["instance_id"]
    keys = [" ".join(entry[1:3]) for entry in entries if len(entry) == 4 and entry[3] == identity]
    return pins(instance, keys)


def _console(client: Any, identity: str) -> str:
    """The console as EC2 has it now; some older types give it with a delay alone."""
    try:
        answer = client.get_console_output(InstanceId=identity, Latest=True)
    except ClientError as error:
        if error.response["Error"]["Code"] != "UnsupportedOperation":
            raise
        answer = client.get_console_output(InstanceId=identity)
    return str(answer.get("Output", ""))


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "instances": {"type": "list", "elements": "dict", "required": True},
            "patience": {"type": "int", "default": 600},  # seconds
        },
        supports_check_mode=True,
    )
    path, instances = Path(module.params["path"]), module.params["instances"]
    before = path.read_text().splitlines() if path.is_file() else []
    found = {entry["instance_id"]: kept_pins(before, entry) for entry in instances}
    client = module.client("ec2")
    deadline = time.monotonic() + module.params["patience"]
    try:
        while not module.check_mode:
            for entry in instances:
                if not found[entry["instance_id"]]:
                    keys = keys_on(_console(client, entry["instance_id"]))
                    found[entry["instance_id"]] = pins(entry, keys)
            if all(found.values()) or time.monotonic() >= deadline:
                break
            time.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))
    except AWS_ERRORS as error:
        module.fail_json_aws(error, msg="cannot read the console of a machine")
    after = [line for entry in instances for line in found[entry["instance_id"]]]
    changed = after != before or not path.is_file()
    if changed and not module.check_mode:
        new = path.with_name(f".{path.name}.new")
        new.write_text("".join(f"{line}\n" for line in after))
        os.replace(new, path)
    lacking = [identity for identity, lines in found.items() if not lines]
    if lacking and not module.check_mode:
        module.fail_json(
            changed=changed,
            msg=f"The console of {', '.join(lacking)} shows no SSH host key yet. Give the command "
            "again in some minutes; an image whose cloud-init does not print them cannot be used. "
            "The machines run and cost: make destroy gives them back, and is needed before another "
            "image is taken.",
        )
    module.exit_json(changed=changed, pinned=sorted(found))


if __name__ == "__main__":
    main()
