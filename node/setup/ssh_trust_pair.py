"""Whether a key pair of a user, and the settings of sshd, are as they are to be."""

from __future__ import annotations

import glob
import grp
import os
import pwd
import re
import stat
import subprocess
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

KEY_TYPE = "ssh-ed25519"
# Login shells that run no command
NO_SHELLS = ("false", "nologin")
MAIN_SETTINGS = Path("/etc/ssh/sshd_config")

# There while sshd goes back to earlier settings unless somebody says that the new ones are good
ROLLBACK = Path("/run/systemd/transient/ssh_trust-rollback.timer")


def has_attributes(path: Path, mode: int | None, owner: int | None, group: int | None) -> bool:
    """Whether a file is there and has this mode, owner and group; None stands for any."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return (
        mode in (None, stat.S_IMODE(found.st_mode))
        and owner in (None, found.st_uid)
        and group in (None, found.st_gid)
    )


def public_part(private: Path) -> list[str]:
    """Return type and key of the public key that belongs to a private one; none for no key."""
    # A passphrase in the call: without one ssh-keygen would ask for that of a protected key.
    command = ["ssh-keygen", "-y", "-P", "", "-f", str(private)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return []
    return answer.stdout.split()[:2]


def pair_differences(key: Path, directory_mode: int, user: str | None, comment: str) -> list[str]:
    """Return in what a key pair differs from one that the role would make.

    Args:
        user: whose it is, in a directory of root's; None where owners do not matter.
        comment: of the public key.
    """
    root, owner, group, mode = None, None, None, None
    if user is not None:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            return [f"there is no user {user}"]
        root, owner, group, mode = 0, entry.pw_uid, entry.pw_gid, 0o600
    public = key.with_name(f"{key.name}.pub")
    differences = []
    if not has_attributes(key.parent, directory_mode, root, root):
        differences.append(f"{key.parent} has other rights")
    if not has_attributes(key, mode, owner, group):
        differences.append(f"{key} is missing or has other rights")
    if not has_attributes(public, mode, owner, group):
        differences.append(f"{public} is missing or has other rights")
    if differences:
        return differences
    part = public_part(key)
    if part[:1] != [KEY_TYPE]:
        return [f"{key} is not a key of type {KEY_TYPE}"]
    if public.read_text(encoding="utf-8").split(maxsplit=2) != [*part, f"{comment}\n"]:
        return [f"{public} does not belong to it"]
    return []


def server_differences(settings: Path, text: str) -> list[str]:
    """Return in what the settings of sshd differ from those of the role.

    Args:
        text: what is to be in it; without any it is not to be there.
    """
    differences = (
        ["an earlier run was cut off while it tried settings"] if ROLLBACK.exists() else []
    )
    if not text:
        return [*differences, f"{settings} is there"] if settings.exists() else differences
    if is_unread(settings):
        differences.append(f"{MAIN_SETTINGS} reads other settings before {settings}")
    if not has_attributes(settings, 0o644, 0, 0):
        differences.append(f"{settings} is missing or has other rights")
    elif settings.read_text(encoding="utf-8", errors="replace") != text.rstrip("\n") + "\n":
        differences.append(f"{settings} says something else")
    return differences


def is_unread(settings: Path) -> bool:
    """Whether sshd reads other settings before a file, or does not read it: the first value counts.

    What is named behind `Match` holds for some alone.
    """
    for line in MAIN_SETTINGS.read_text(encoding="utf-8", errors="replace").splitlines():
        word, *names = line.replace("=", " ").split() or [""]
        if word.lower() == "include":
            paths = [str(MAIN_SETTINGS.parent / name.strip('"')) for name in names]
            if any(fnmatchcase(str(settings), path) for path in paths):
                return False
        elif word and not word.startswith("#"):
            return True
    return True


def without(own: Path) -> str:
    """Return the settings of sshd as they are without the role's file.

    Their files are included one by one; those that they include themselves come with them.
    """
    lines = []
    for line in MAIN_SETTINGS.read_text(encoding="utf-8", errors="replace").splitlines():
        word, *names = line.replace("=", " ").split() or [""]
        if word.lower() == "include":
            places = [str(MAIN_SETTINGS.parent / name.strip('"')) for name in names]
            paths = [path for place in places for path in sorted(glob.glob(place))]
            others = [path for path in paths if path != str(own)]
            line = f"Include {' '.join(others)}" if others else ""
        lines.append(line)
    return "\n".join([*lines, ""])


def asks_for_more(own: Path) -> str:
    """Return the setting of sshd that lets nobody in by a key alone, and its file; else empty.

    Args:
        own: the role's file, which says nothing of it.
    """
    for path in (MAIN_SETTINGS, *sorted(MAIN_SETTINGS.with_suffix(".d").glob("*.conf"))):
        text = "" if path == own else path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            word, *ways = line.replace("=", " ").split() or [""]
            more = [re.search(r"\b(password|keyboard-interactive)\b", way) for way in ways]
            if word.lower() == "authenticationmethods" and more and all(more):
                return f"{line.strip()} in {path}"
    return ""


def shut_out_by(settings: str, user: str) -> str:
    """Return the setting of sshd that keeps a user out, and what to do; empty where none does.

    Args:
        settings: as `sshd -T` prints them, names in small letters.
        user: not of this machine, perhaps; then no setting of groups holds.
    """
    reload = "below /etc/ssh, then `systemctl reload ssh`"
    ways = re.search(r"^authenticationmethods (.+)$", settings, re.MULTILINE)
    if ways and not {"any", "publickey"} & {*ways[1].split()}:
        return (
            f"AuthenticationMethods {ways[1]} of sshd: have `Match User {user}` and "
            f"`AuthenticationMethods publickey` before it, {reload}"
        )
    if re.search(r"^pubkeyauthentication no$", settings, re.MULTILINE):
        return f"PubkeyAuthentication no of sshd: take it out there, {reload}"
    names = {"Users": [user], "Groups": _groups_of(user)}
    for kind, own in names.items():
        for verb in ("Deny", "Allow"):
            patterns = re.findall(rf"^{verb.lower()}{kind.lower()} (\S+)", settings, re.MULTILINE)
            # What follows @ is about where somebody comes from.
            of_user = [pattern.partition("@")[0] for pattern in patterns]
            meant = any(fnmatchcase(name, pattern) for name in own for pattern in of_user)
            if patterns and own and meant is (verb == "Deny"):
                who = user if kind == "Users" else "a group of it"
                change = f"take {who} out there" if meant else f"put {who} there"
                return f"{verb}{kind} {' '.join(patterns)} of sshd: {change}, {reload}"
    return ""


def account_shut(user: str, shadow: str, today: int) -> str:
    """Return what of an account keeps it out, however sshd is set, and what to do; else empty.

    Args:
        user: not of this machine, perhaps; then nothing does.
        shadow: the text of shadow(5), which a password that has expired shows, too.
        today: days since 1970-01-01.
    """
    try:
        shell = pwd.getpwnam(user).pw_shell
    except KeyError:
        return ""
    fields = next((f for f in map(_fields, shadow.splitlines()) if f[0] == user), _fields(""))
    changed, most, expires = (_days(fields[place]) for place in (2, 4, 7))
    if expires is not None and expires <= today:
        return f"the account has expired: `chage -E -1 {user}` there lets it in"
    if changed == 0 or (changed and most is not None and changed + most < today):
        return f"its password has expired: `chage -d {today} {user}` there counts it as new"
    if shell and (Path(shell).name in NO_SHELLS or not os.access(shell, os.X_OK)):
        return f"its login shell is {shell}: `chsh -s /bin/bash {user}` there gives it one"
    return ""


def _fields(line: str) -> list[str]:
    """The nine fields of a line of shadow(5)."""
    return [*line.split(":"), *[""] * 9][:9]


def _days(field: str) -> int | None:
    return int(field) if field.isdigit() else None


def _groups_of(user: str) -> list[str]:
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return []
    # By number: a directory service lists its groups to nobody.
    names = []
    for number in numbers:
        with suppress(KeyError):  # a number without a name
            names.append(grp.getgrgid(number).gr_name)
    return names
