"""Mistakes in the description of shares, seen without looking at the machine."""

import re
from collections.abc import Mapping, Sequence

from ansible.module_utils.cifs_mount_share import Share

# Sizes of the buffers of mount.cifs (mount.cifs.c), which cuts what is longer.
LONGEST_NAME = 255
LONGEST_PASSWORD = 511

OLD_VERSIONS = ("1.0", "2.0", "2.1")
# Options that a key of the share stands for, or that the role sets itself.
GOVERNED = {
    "username": "username", "user": "username", "password": "password", "pass": "password",
    "domain": "domain", "dom": "domain", "uid": "uid", "gid": "gid", "file_mode": "file_mode",
    "dir_mode": "dir_mode", "vers": "version", "seal": "seal", "credentials": "username",
    "cred": "username", "x-systemd.automount": "automount", "noauto": "automount",
}  # fmt: skip


def mistakes(shares: Sequence[Share], others: Mapping[str, str]) -> list[str]:
    """What makes shares impossible, for people, with remedy; never with a password in it.

    Args:
        shares: all of the machine.
        others: lines of fstab that are not the role's, by mount point.
    """
    sentences: list[str] = []
    for number, share in enumerate(shares, start=1):
        complaints = [
            *_about_source(share.src),
            *_about_path(share.path, others),
            *_about_account(share),
            *_about_options(share),
        ]
        for other in shares[: number - 1]:
            if _nested(other.path, share.path) or _nested(share.path, other.path):
                complaints.append(
                    f'path "{share.path}" lies in the path of {other.src}, or is the same, or '
                    "holds it. Give each share a path of its own."
                )
        sentences += [f"share {number} ({share.src}): {complaint}" for complaint in complaints]
    return sentences


def _nested(outer: str, inner: str) -> bool:
    return f"{inner}/".startswith(f"{outer}/")


def _about_source(src: str) -> list[str]:
    if "\\" in src:
        return [f'src is written with slashes: "{src.replace(chr(92), "/")}".']
    if not re.fullmatch(r"//[^/\s,]+(/[^/,\x00-\x1f]+)+", src):
        return ["src must be //server/share or //server/share/folder, without a comma."]
    return []


def _about_path(path: str, others: Mapping[str, str]) -> list[str]:
    if not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", path) or {".", ".."} & set(path.split("/")):
        return [
            f'path "{path}" must be absolute, without a slash at its end, of letters, digits and '
            "the characters . _ - only."
        ]
    if path in others:
        return [
            f'/etc/fstab has another line for "{path}": "{others[path]}". Remove that line, or '
            "give the share another path."
        ]
    return []


def _about_account(share: Share) -> list[str]:
    complaints = []
    if not share.username:
        complaints.append("username is missing.")
    for name, value in (("username", share.username), ("domain", share.domain)):
        if re.search(r"[,\x00-\x1f]", value):
            complaints.append(
                f"{name} has a comma or a control character, which mount.cifs cannot pass on. "
                "Use another account."
            )
        if len(value.encode()) > LONGEST_NAME:
            complaints.append(f"{name} is longer than {LONGEST_NAME} bytes.")
    if "\\" in share.username:
        complaints.append('username has a backslash. Put what is before it into "domain".')
    if not share.password:
        complaints.append("password is empty or missing. Take it from Ansible Vault.")
    if re.search(r"[\x00\r\n]", share.password):
        complaints.append(
            "password has a line break, which no credentials file can hold. A vaulted text often "
            "ends in one by mistake: encrypt it with `ansible-vault encrypt_string`, or "
            "`printf %s` instead of `echo`; else change the password on the server."
        )
    # mount.cifs doubles each comma.
    if len(share.password.encode()) + share.password.count(",") > LONGEST_PASSWORD:
        complaints.append(
            f"password is longer than {LONGEST_PASSWORD} bytes. Change it on the server."
        )
    return complaints


def _about_options(share: Share) -> list[str]:
    complaints = []
    for name, mode in (("file_mode", share.file_mode), ("dir_mode", share.dir_mode)):
        if not re.fullmatch(r"0?[0-7]{3}", mode):
            complaints.append(f'{name} "{mode}" must be octal and in quotes, such as "0644".')
    if share.seal and share.version in OLD_VERSIONS:
        complaints.append(
            f"seal needs version 3.0 or later, not {share.version}: older ones have no encryption."
        )
    for option in share.options:
        key = GOVERNED.get(option.split("=")[0].lower())
        if not re.fullmatch(r"[^\s,\"']+", option):
            complaints.append(
                f'option "{option}" has a blank, a comma or a quote. Give one at a time.'
            )
        elif key:
            complaints.append(f'option "{option.split("=")[0]}": use the key "{key}" of the share.')
        elif option.startswith("port=") and not re.fullmatch(r"port=[0-9]{1,5}", option):
            complaints.append(f'option "{option}" is not a port.')
    for directory in share.directories:
        if not re.fullmatch(r"[^/\x00-\x1f]+(/[^/\x00-\x1f]+)*", directory) or {
            ".",
            "..",
        } & set(directory.split("/")):
            complaints.append(f'directory "{directory}" must be a path inside of the share.')
    return complaints
