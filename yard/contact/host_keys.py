"""Host keys: those that a host shows, their fingerprints, and how to pin them."""

import base64
import binascii
import hashlib
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yard.contact.ssh import CONNECT_SECONDS, Settings

# In the order in which ssh prefers them.
KINDS = {"ssh-ed25519": "ED25519", "ecdsa-sha2": "ECDSA", "ssh-rsa": "RSA"}
OFFENDING = re.compile(r"^Offending (?P<kind>.+) key in (?P<file>.+):(?P<line>\d+)\s*$", re.M)
SHOWN = re.compile(r"^(?:debug1: Server host key: \S+ )?(?P<fingerprint>SHA256:[\w+/]+)", re.M)


@dataclass(frozen=True)
class HostKey:
    """A public key of a host: its type as files have it, and its base64."""

    kind: str
    base64: str

    @property
    def name(self) -> str:
        """The type for people: `ED25519`."""
        return next((KINDS[kind] for kind in KINDS if self.kind.startswith(kind)), self.kind)

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` prints it.

        Raises:
            ValueError: the key is no base64.
        """
        digest = hashlib.sha256(base64.b64decode(self.base64, validate=True)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def scan(settings: Settings) -> tuple[HostKey, ...]:
    """Ask a host for its keys, the one that ssh would take first; none where it does not answer."""
    command = ["ssh-keyscan", "-T", str(CONNECT_SECONDS), "-p", str(settings.port)]
    try:
        answer = subprocess.run(
            [*command, settings.address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2 * CONNECT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_keys(answer.stdout)


def parse_keys(text: str) -> tuple[HostKey, ...]:
    """The keys in lines of a known_hosts file, in the order of `KINDS`."""
    keys = []
    for line in text.splitlines():
        parts = line.split()
        if line.startswith("#") or len(parts) < 3:
            continue
        key = HostKey(parts[1], parts[2])
        try:
            base64.b64decode(key.base64, validate=True)
        except binascii.Error:
            continue
        keys.append(key)
    names = list(KINDS.values())
    return tuple(sorted(keys, key=lambda key: names.index(key.name) if key.name in names else 9))


def pinning(settings: Settings, keys: Sequence[HostKey]) -> str:
    """The command that pins the key that was shown: not one that is fetched anew."""
    key = keys[0]
    line = shlex.quote(f"{settings.known_name} {key.kind} {key.base64}")
    file = Path(settings.known_hosts or "")
    make = "" if file.parent.is_dir() else f"mkdir -p -m 700 {shlex.quote(str(file.parent))} && "
    return f"{make}echo {line} >> {shlex.quote(str(file))}"


def offending(words: str) -> tuple[str, str] | None:
    """The file and the line of the key that is not the one that came."""
    found = OFFENDING.search(words)
    return (found["file"], found["line"]) if found else None


def shown_fingerprint(said: str) -> str | None:
    """The fingerprint of the key that came, as ssh tells it."""
    found = SHOWN.search(said)
    return found["fingerprint"] if found else None
