"""What the roles' modules share is importable here as it is on a node."""

import os

import ansible.module_utils
from kept_bytecode import keep_bytecode
from role_files import ROLES

# Ansible packs these folders into what it sends to a node, under this very name.
ansible.module_utils.__path__.extend(map(str, sorted(ROLES.glob("*/module_utils"))))


def pytest_configure() -> None:
    """Have the Ansibles that tests start keep what they build, and modules their byte code."""
    keep_bytecode()
    checkout = ROLES.parent
    os.environ["ANSIBLE_CALLBACK_PLUGINS"] = str(checkout / "playbooks/callback_plugins")
    os.environ["ANSIBLE_LOCAL_TEMP"] = str(checkout / ".trainyard/tmp")
