"""What the roles' modules share is importable here as it is on a node."""

import ansible.module_utils
import pytest
from kept_bytecode import keep_bytecode
from role_files import ROLES

# Ansible packs these folders into what it sends to a node, under this very name.
ansible.module_utils.__path__.extend(map(str, sorted(ROLES.glob("*/module_utils"))))


def pytest_configure() -> None:
    """Have Ansible's modules keep their byte code."""
    keep_bytecode()


@pytest.fixture(autouse=True)
def _keep_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the Ansibles that a test of roles starts keep what they build, as users' do."""
    checkout = ROLES.parent
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", str(checkout / "playbooks/callback_plugins"))
    monkeypatch.setenv("ANSIBLE_LOCAL_TEMP", str(checkout / ".trainyard/tmp"))
