"""Settings that the environment has no say in: host keys, chosen tasks, questions nobody hears."""

import os
import re
from collections.abc import MutableMapping

# The first two say whether host keys are checked, the next two which tasks run. The next three ask
# for a password; nobody sees the question here, so the command would wait for ever. Git's own are
# set by its hooks and name their repository; CODE= may be in another one.
NAMES = frozenset(
    {
        *("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_SSH_HOST_KEY_CHECKING"),
        *("ANSIBLE_RUN_TAGS", "ANSIBLE_SKIP_TAGS"),
        *("ANSIBLE_ASK_PASS", "ANSIBLE_ASK_VAULT_PASS", "ANSIBLE_BECOME_ASK_PASS"),
        *("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"),
    }
)
ARGUMENTS = re.compile(r"ANSIBLE_(SSH|SCP|SFTP)_(\w+_)?ARGS")
UNCHECKED = re.compile(
    r"StrictHostKeyChecking\W+(no|off|accept-new)|KnownHostsFile\W+/dev/null", re.IGNORECASE
)


def forget_settings(environment: MutableMapping[str, str] = os.environ) -> None:
    """Take them out of the environment of what is started here.

    `ansible.cfg` and the inventory have the last word.
    """
    for name, value in tuple(environment.items()):
        if name in NAMES or (ARGUMENTS.fullmatch(name) and UNCHECKED.search(value)):
            del environment[name]
