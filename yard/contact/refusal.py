"""Why sshd refuses a login: no key, the wrong key, a key that cannot be used, a wrong password."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from yard.contact.causes import Trouble
from yard.contact.ssh import Answer, Settings, run_program
from yard.plays.connections import Connection

# Words of ssh at LogLevel=DEBUG1. A key that an agent holds ends with `agent`.
OFFERED = re.compile(
    r"^debug1: Offering public key: (?P<file>.+?) [A-Z0-9-]+ SHA256:\S+(?P<how>.*)$", re.M
)
ACCEPTED = re.compile(r"^debug1: Server accepts key: (?P<file>.+?) [A-Z0-9-]+ SHA256:\S+", re.M)
OPEN = re.compile(r"^Permissions \d+ for '(?P<file>.+)' are too open\.", re.M)
# How sshd lets people in who have no key yet.
WITH_PASSWORD = ("password", "keyboard-interactive")
LOCKED = "incorrect passphrase"


def explain(
    target: Connection,
    settings: Settings,
    answer: Answer,
    methods: Sequence[str],
) -> Trouble:
    """The reason of a login that sshd has refused.

    sshd says nothing of it, so it is what ssh has offered that tells. A user that does not exist
    cannot be told from one that has not authorized the key.

    Args:
        methods: how sshd would let the user in.
    """
    proof = tuple(line for line in answer.words.splitlines() if "Permission denied" in line)[-1:]
    taken = ", ".join(methods)
    key_file = target.key_file
    if key_file is not None and not Path(key_file).is_file():
        return Trouble("key_file_missing", {"key": key_file}, proof)
    too_open = OPEN.search(answer.words)
    if too_open is not None:
        key = too_open["file"]
        return Trouble("key_file_open", {"key": key, "key_quoted": shlex.quote(key)}, proof)
    held = [found["file"] for found in OFFERED.finditer(answer.said) if "agent" in found["how"]]
    for key in [found["file"] for found in ACCEPTED.finditer(answer.said)] or [key_file or ""]:
        if key and key not in held and _is_locked(key):
            return Trouble("key_locked", {"key": key, "add_key": _adding(key)}, proof)
    offered = [found["file"] for found in OFFERED.finditer(answer.said)]
    by_password = any(method in WITH_PASSWORD for method in methods)
    if target.password is not None and by_password:
        return Trouble("password_wrong", {}, proof)
    key = offered[0] if offered else _own_key()
    if target.password is not None and key is not None:
        values = {"methods": taken, "authorize": _authorizing(settings, _public(key))}
        return Trouble("password_untaken", values, proof)
    if not offered:
        return Trouble("no_key", {}, proof)
    origin = "ansible_user" if target.user else "ssh (the inventory has no ansible_user)"
    values = {"methods": taken, "user_origin": origin}
    proof = (*proof, *(f"offered: {file}" for file in offered))
    if by_password:
        return Trouble(
            "key_refused", {**values, "copy_key": _copying(target, settings, offered[0])}, proof
        )
    authorize = _authorizing(settings, _public(offered[0]))
    return Trouble("key_refused_everywhere", {**values, "authorize": authorize}, proof)


def _is_locked(key: str) -> bool:
    """Whether a private key has a passphrase: whoever has one needs an agent."""
    answer = run_program(["ssh-keygen", "-y", "-P", "", "-f", key])
    return answer.returncode != 0 and LOCKED in answer.stderr


def _adding(key: str) -> str:
    add = f"ssh-add {shlex.quote(key)}"
    return add if os.environ.get("SSH_AUTH_SOCK") else f'eval "$(ssh-agent -s)" && {add}'


def _copying(target: Connection, settings: Settings, key: str) -> str:
    public = Path(f"{key}.pub")
    # ssh-copy-id keeps what it is about there, and does not make it.
    folder = Path("~/.ssh").expanduser()
    make = "" if folder.is_dir() else "mkdir -p -m 700 ~/.ssh && "
    which = []
    if Path(key).is_file():
        which = ["-i", str(public)]
        if not public.is_file():
            make += f"ssh-keygen -y -f {shlex.quote(key)} > {shlex.quote(str(public))} && "
    port = [] if settings.port == 22 else ["-p", str(settings.port)]
    login = f"{settings.user}@{target.address}"
    return make + shlex.join(["ssh-copy-id", *which, *port, *_for_copying(target.typed), login])


def _for_copying(typed: Sequence[str]) -> list[str]:
    """Arguments of ssh as ssh-copy-id takes them, which knows no -J."""
    taken: list[str] = []
    arguments = iter(typed)
    for argument in arguments:
        if argument in ("-o", "-F"):
            taken += [argument, next(arguments, "")]
        elif argument == "-J":
            taken += ["-o", f"ProxyJump={next(arguments, '')}"]
        elif argument.startswith("-o"):
            taken.append(argument)
    return taken


def _authorizing(settings: Settings, line: str) -> str:
    user = settings.user
    return (
        f"install -d -o {user} -m 700 ~{user}/.ssh && "
        f"echo {shlex.quote(line)} >> ~{user}/.ssh/authorized_keys"
    )


def _public(key: str) -> str:
    """The public key of a private one, which is a file, or else a key that an agent holds."""
    file = Path(f"{key}.pub")
    if file.is_file():
        return file.read_text(encoding="utf-8").strip()
    command = (
        ["ssh-keygen", "-y", "-P", "", "-f", key] if Path(key).is_file() else ["ssh-add", "-L"]
    )
    return next(iter(run_program(command).stdout.splitlines()), "")


def _own_key() -> str | None:
    """The private key that ssh takes by itself, if there is one."""
    keys = sorted(Path("~/.ssh").expanduser().glob("id_*.pub"))
    return str(keys[0]).removesuffix(".pub") if keys else None
