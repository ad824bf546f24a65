"""Why a share cannot be mounted, and what helps: from mount.cifs's errors and the kernel's log."""

import errno
import re
from collections.abc import Sequence

from ansible.module_utils.cifs_mount_share import Share

# What the kernel logs when a log-in fails, and only then (CIFS_LOG_ERROR in its smb2pdu.c).
ACCOUNT = {
    "STATUS_LOGON_FAILURE": (
        "the server refuses {user}: wrong user name or password",
        "Correct username, password and domain of this share; the password is in Ansible Vault.",
    ),
    "STATUS_ACCOUNT_LOCKED_OUT": (
        "the account {user} is locked on the server",
        "Unlock it there; then check the password, because wrong ones lock accounts.",
    ),
    "STATUS_ACCOUNT_DISABLED": ("the account {user} is disabled", "Enable it on the server."),
    "STATUS_PASSWORD_EXPIRED": (
        "the password of {user} has expired",
        "Set a new one on the server, and put it into Ansible Vault.",
    ),
    "STATUS_PASSWORD_MUST_CHANGE": (
        "the server wants a new password for {user}",
        "Set a new one on the server, and put it into Ansible Vault.",
    ),
}
NO_FOLDER = (
    "the share has no folder {folder}",
    "Make it on the server, or correct src of this share.",
)
UNREACHABLE = "Is the server on, its address right, and its port open for this node?"
VERSIONS = "Set version to one that the server speaks, such as 3.0; seal needs 3.0 or later."

NUMBERS = {
    errno.EACCES: (
        "{user} logs in, but may not use {share}",
        "Give the account the right on the server; if the server insists on encryption, set seal.",
    ),
    errno.ENOENT: (
        "the server has no share {name}",
        "Correct src of this share; `smbclient -L {host} -U {account}` lists what there is.",
    ),
    errno.EHOSTUNREACH: ("{host} cannot be reached on port {port}", UNREACHABLE),
    errno.ECONNREFUSED: ("{host} refuses connections on port {port}", UNREACHABLE),
    errno.ETIMEDOUT: ("{host} does not answer on port {port}", UNREACHABLE),
    errno.EHOSTDOWN: (
        "{host} closed the connection: it does not speak version {version} of the protocol",
        VERSIONS,
    ),
    errno.EOPNOTSUPP: (
        "{host} does not support version {version} of the protocol, or encryption",
        VERSIONS,
    ),
    errno.ENODEV: (
        "the kernel of this node has no CIFS",
        "Install the package with its modules: on Ubuntu, linux-modules-extra-$(uname -r).",
    ),
    errno.ELIBACC: (
        "the kernel of this node lacks the module nls_utf8",
        "Install the package with its modules: on Ubuntu, linux-modules-extra-$(uname -r).",
    ),
    errno.EINVAL: (
        "the kernel of this node refuses an option",
        "Correct the options of this share; mount.cifs(8) describes them.",
    ),
}


def sentence(share: Share, cause: str, remedy: str, said: str = "") -> str:
    """Cause and remedy in one line, with the share's names put in, and what a program said."""
    names = {
        "said": said,
        "path": share.path,
        "user": f"user {share.username}",
        "account": share.username,
        "host": share.host,
        "port": share.port,
        "share": share.src,
        "name": share.src.split("/")[3],
        "folder": "/".join(share.src.split("/")[4:]),
        "version": share.version,
    }
    return f"{{share}} at {{path}}: {cause}. {remedy}".format_map(names)


def no_connection(share: Share, error: OSError) -> str:
    """Why no connection to the server came about.

    Args:
        share: what was to be mounted.
        error: from the look-up of the name, or from the connection.
    """
    if isinstance(error, TimeoutError):
        return sentence(share, *NUMBERS[errno.ETIMEDOUT])
    if error.errno in NUMBERS:
        return sentence(share, *NUMBERS[error.errno])
    # socket.gaierror has numbers of its own, all below zero.
    if error.errno is not None and error.errno < 0:
        return sentence(
            share,
            "the name {host} cannot be resolved",
            "Correct src of this share, or make the name known to this node.",
        )
    return sentence(
        share, "{host} cannot be reached on port {port} ({said})", UNREACHABLE, said=str(error)
    )


def no_mount(share: Share, output: str, kernel: Sequence[str], without_folder: bool) -> str:
    """Why a mount failed on a connection that works.

    Args:
        share: what was to be mounted.
        output: what mount.cifs printed; empty when it did not end in time.
        kernel: lines of the kernel's log since its start.
        without_folder: whether it can be mounted without the folder that src names.
    """
    for status, explanation in ACCOUNT.items():
        if any(status in line for line in kernel):
            return sentence(share, *explanation)
    if without_folder:
        return sentence(share, *NO_FOLDER)
    number = re.search(r"mount error\((\d+)\)", output)
    if number and int(number[1]) in NUMBERS:
        return sentence(share, *NUMBERS[int(number[1])])
    if "not supported by the system" in output or "unknown filesystem type" in output:
        return sentence(share, *NUMBERS[errno.ENODEV])
    if not output:
        return sentence(
            share,
            "{host} takes connections on port {port}, but does not answer",
            "Look at the file server's own log; it may have to be restarted.",
        )
    said = " ".join([*output.split("\n")[:2], *kernel[-3:]])
    return sentence(share, "mount.cifs says: {said}", "mount.cifs(8) explains it.", said=said)
