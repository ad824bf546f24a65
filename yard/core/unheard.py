"""Settings in the environment, from other work, that are not for it to make."""

import os
import re
from collections.abc import MutableMapping

# Whether host keys are checked, which tasks run, and whether somebody is asked for a password, whom
# nobody would hear: `make` would wait for ever. A hook of git's names its own repository, and the
# folder of CODE= may be in another one.
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
