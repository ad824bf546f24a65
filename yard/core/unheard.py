"""Settings that the environment has no say in: host keys, chosen tasks, questions, the engine."""

import os
import re
from collections.abc import Mapping, MutableMapping

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
# Which engine the client and Ansible's modules ask; the client alone hears of a context, and what
# root does by sudo hears of none of these. So all ask that of this machine, as the roles do.
ENGINE = "unix:///var/run/docker.sock"
ELSEWHERE = re.compile(r"DOCKER_(CONTEXT|TLS.*|CERT_PATH|API_VERSION)")


def other_engine(environment: Mapping[str, str] = os.environ) -> str:
    """Return the setting that names another engine than this machine's; empty where none does."""
    return next(
        (
            f"{name}={environment[name]}"
            for name, own in (("DOCKER_HOST", ENGINE), ("DOCKER_CONTEXT", "default"))
            if environment.get(name, own).replace("///run", "///var/run") not in ("", own)
        ),
        "",
    )


def ask_own_engine(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have what is started here ask the engine of this machine."""
    environment["DOCKER_HOST"] = ENGINE
    for name in filter(ELSEWHERE.fullmatch, tuple(environment)):
        del environment[name]


def forget_settings(environment: MutableMapping[str, str] = os.environ) -> None:
    """Take them out of the environment of what is started here.

    `ansible.cfg` and the inventory have the last word.
    """
    ask_own_engine(environment)
    for name, value in tuple(environment.items()):
        unchecked = ARGUMENTS.fullmatch(name) and UNCHECKED.search(value)
        if name in NAMES or unchecked:
            del environment[name]
