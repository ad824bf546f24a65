"""The keys of a node, and what it knows of the nodes that it trusts."""

from __future__ import annotations

import hashlib
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..failure import VerbError
from .files import is_roots
from .ssh_trust_lines import key_of, lines_of_control_nodes, read_public_key, text_of
from .ssh_trust_pair import (
    account_shut,
    asks_for_more,
    is_unread,
    pair_differences,
    server_differences,
    shut_out_by,
    without,
)

DIRECTORY_MODE = 0o755
# Where sshd looks for keys unless it is told otherwise; the role's settings name these first.
USUAL_KEYS = ".ssh/authorized_keys .ssh/authorized_keys2"
SHADOW = Path("/etc/shadow")
DAY = 24 * 60 * 60


class TrustFiles(NamedTuple):
    """What all nodes have alike.

    Attributes:
        node: the name of this one.
        options: by node, what stands before its key in `authorized_keys`, with a blank behind it
            where it is something.
        control: the control node's line in `authorized_keys`; empty where it has none.
        control_owner: the control node's name, beside whose line those of other control nodes may
            stand; None where none may.
        digest: SHA-256 that the text of `known_hosts` has on the control node; empty where it has
            none.
    """

    node: str
    known_hosts: str
    authorized_keys: str
    configuration: str
    configuration_text: str
    options: dict[str, str]
    control: str = ""
    control_owner: str | None = None
    digest: str = ""


class SSHTrust(NamedTuple):
    """What is to be there.

    Attributes:
        user: whose pair it is.
        key: the private key of the pair; the public one lies beside it.
        comment: of the public key.
        host_key: the public one of the machine.
        settings: the role's file for sshd, and what is to be in it; without text it is not there.
        next: end of the name of the second key, which a rotation brings; empty to pass over it.
        files: None to tell nothing of them.
    """

    user: str
    key: str
    comment: str
    host_key: str
    settings: str
    settings_text: str
    next: str = ""
    files: TrustFiles | None = None


def look_at_ssh_trust(wanted: SSHTrust) -> dict[str, Any]:
    """Return the public keys, what differs, and what keeps the user out.

    Raises:
        VerbError: there is no host key, or what lies in the place of a public key is none.
    """
    host_key = _public_key(Path(wanted.host_key))
    if not host_key:
        raise VerbError(
            "failed",
            message=f"ssh_trust: there is no host key {wanted.host_key}. Nothing was changed. "
            "`ssh-keygen -A` there makes one.",
        )
    own = _public_key(Path(f"{wanted.key}.pub"))
    second = _public_key(Path(f"{wanted.key}{wanted.next}.pub")) if wanted.next else ""
    pair = pair_differences(Path(wanted.key), DIRECTORY_MODE, wanted.user, wanted.comment)
    keys_files = _keys_files(wanted) if wanted.settings_text else USUAL_KEYS
    text = wanted.settings_text.replace(USUAL_KEYS, keys_files)
    server = server_differences(Path(wanted.settings), text)
    shut_out = account_shut(wanted.user, _shadow(), int(time.time() // DAY)) or shut_out_by(
        _sshd_settings(wanted.user), wanted.user
    )
    digests: dict[str, str] = {}
    differs = bool(pair or server or shut_out or second)
    if wanted.files and not differs:
        texts = _texts(wanted.files)
        differs = texts is None or not _as_wanted(texts, wanted.files, wanted.user, host_key, own)
        digests = {name: _digest(text) for name, text in (texts or {}).items()}
    return {
        "asks_for_more": asks_for_more(Path(wanted.settings)) if wanted.settings_text else "",
        "differs": differs,
        "digests": digests,
        "host_key": host_key,
        "keys_files": keys_files,
        "pair_differences": pair,
        "rotation": bool(second),
        "server_differences": server,
        "shut_out_by": shut_out,
        "unread": bool(wanted.settings_text) and is_unread(Path(wanted.settings)),
        "user_keys": [key for key in (own, second) if key],
    }


def _public_key(path: Path) -> str:
    try:
        return read_public_key(path) or ""
    except ValueError as error:
        raise VerbError("failed", message=str(error)) from error


def _keys_files(wanted: SSHTrust) -> str:
    """Where sshd looks for the user's keys without the role: an admin may have one place for all.

    Without any the user has no way in but the keys that the role brings.
    """
    settings = _sshd_settings(wanted.user, without(Path(wanted.settings)))
    found = re.search(r"^authorizedkeysfile (.+)$", settings, re.MULTILINE)
    places = found[1] if found else USUAL_KEYS
    return "" if places == "none" else places


def _sshd_settings(user: str, text: str | None = None) -> str:
    """What `sshd -T` prints for a user, of this text or of the machine's own settings."""
    command = ["/usr/sbin/sshd", "-T", "-C", f"user={user},host=localhost,addr=127.0.0.1"]
    command += ["-f", "/dev/stdin"] if text is not None else []
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout


def _shadow() -> str:
    try:
        return SHADOW.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _texts(files: TrustFiles) -> dict[str, str] | None:
    """The texts that name nodes; None where a file is missing, another's or says something else."""
    paths = [Path(files.configuration), Path(files.known_hosts), Path(files.authorized_keys)]
    if not all(is_roots(path, "0644") for path in paths):
        return None
    configuration, known_hosts, authorized_keys = (
        path.read_text(encoding="utf-8", errors="replace") for path in paths
    )
    if configuration != files.configuration_text:
        return None
    return {"known_hosts": known_hosts, "authorized_keys": authorized_keys}


def _as_wanted(
    texts: Mapping[str, str], files: TrustFiles, user: str, host_key: str, own: str
) -> bool:
    """Whether the texts have a line for each node, the right one for this one, and no other line.

    The lines of others are only known by their form here: whoever has the answers of all nodes
    compares the digests, for each node vouches for its own line.
    """
    hosts = {line.split()[-1]: key_of(line) for line in _lines(texts["known_hosts"])}
    keys = {line.split()[-1]: key_of(line) for line in _lines(texts["authorized_keys"])}
    hosts[files.node], keys[f"{user}@{files.node}"] = host_key, own
    known = [f"{name} {hosts.get(name)} {name}" for name in files.options]
    let_in = [
        f"{options}{keys.get(f'{user}@{name}')} {user}@{name}"
        for name, options in files.options.items()
    ]
    let_in += [files.control] if files.control else []
    if files.control_owner is not None:
        before = texts["authorized_keys"]
        let_in += lines_of_control_nodes(before, user, files.control_owner, let_in)
    return (
        texts["known_hosts"] == text_of(known)
        and texts["authorized_keys"] == text_of(let_in)
        and files.digest in ("", _digest(texts["known_hosts"]))
    )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.split() and not line.startswith("#")]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
