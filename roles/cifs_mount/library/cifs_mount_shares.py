#!/usr/bin/python
"""Ansible module: what ansible.posix.mount knows nothing of, about the CIFS shares of a machine.

`look` refuses shares that cannot be, and tells whether the machine differs from those that it is to
have. `try` mounts what is new, changed or not mounted on the side, and refuses to unmount what
somebody uses; nothing is changed before it has passed. `plan` tells what is to be unmounted and
written. `mount` has what is written mounted as a boot does, makes directories on the shares, and
removes mount points of shares that are gone.
"""

import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cifs_mount_machine import (
    busy,
    is_active,
    is_mounted,
    mounted_types,
    obstacles,
)
from ansible.module_utils.cifs_mount_mistakes import mistakes
from ansible.module_utils.cifs_mount_share import (
    CREDENTIALS,
    Refused,
    Share,
    by_mount_point,
    credentials_path,
    drop_in,
    parse_share,
    split_fstab,
    unit_name,
)
from ansible.module_utils.cifs_mount_start import (
    make_directories,
    make_mount_point,
    missing_directories,
    remove_mount_point,
    start_share,
)
from ansible.module_utils.cifs_mount_trial import try_shares

FSTAB = Path("/etc/fstab")


class Plan(NamedTuple):
    """What has to be done.

    Attributes:
        changed: mount points of shares that are new, or whose line or credentials are others now.
        untried: those that are not mounted just as they are to be: they must be shown to work.
        left: those of shares that go.
    """

    changed: list[str]
    untried: list[str]
    left: list[str]


def make_plan(
    lines: Mapping[str, str],
    ours: Mapping[str, str],
    credentials: Mapping[str, bool],
    mounted: Sequence[str],
) -> Plan:
    """Compare what is to be with what is; everything goes by mount point.

    Args:
        lines: the lines that fstab is to have.
        ours: the lines of the role that it has.
        credentials: the mount points that have a credentials file, and whether it is current.
        mounted: mount points that have CIFS mounted on them.
    """
    current = [path for path in lines if ours.get(path) == lines[path] and credentials.get(path)]
    return Plan(
        changed=[path for path in lines if path not in current],
        untried=[path for path in lines if path not in current or path not in mounted],
        left=sorted({*ours, *credentials} - lines.keys()),
    )


def has_mode(path: Path, mode: int) -> bool:
    """Whether a path is root's, with these rights."""
    if not path.exists():
        return False
    status = path.stat()
    return (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (mode, 0, 0)


class Machine:
    """The shares of this machine as they are to be, and as they are."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        options = module.params
        self.seconds = options["seconds"]
        passwords = options["passwords"] or ["unknown"] * len(options["shares"])
        self.wrong = [
            f"share {number} ({entry.get('src')}): password must be a text. Put it in quotes: YAML "
            "takes 0123 for a number, and yes for a truth."
            for number, (entry, password) in enumerate(
                zip(options["shares"], passwords, strict=True), start=1
            )
            if not isinstance(password, str)
        ]
        self.shares = [
            parse_share(entry, str(password), options["uid"], options["gid"])
            for entry, password in zip(options["shares"], passwords, strict=True)
        ]
        ours, others = split_fstab(FSTAB.read_text() if FSTAB.exists() else "")
        self.ours, self.others = by_mount_point(ours), by_mount_point(others)
        files = CREDENTIALS.iterdir() if CREDENTIALS.is_dir() else ()
        self.credentials = {"/" + file.name.replace("@", "/"): file for file in files}

    def refuse_mistakes(self) -> None:
        """Raise Refused for what is wrong with the shares, or in their way."""
        sentences = [*self.wrong, *mistakes(self.shares, self.others)]
        # One whose line somebody took out of fstab still has its credentials.
        sentences += sentences or obstacles(self.shares, {*self.ours, *self.credentials})
        for share in self.shares:
            try:
                _ = share.owner
            except Refused as refusal:
                said = f"{share.src}: {refusal.args[0]}"
                if not self.module.check_mode:
                    sentences.append(said)
                else:  # the role accounts has not made them
                    self.module.warn(said)
        if sentences:
            raise Refused(*sentences)

    def line(self, share: Share) -> str:
        """The line of a share; none in a dry run on a machine that lacks the owner."""
        try:
            line: str = share.fstab_line(self.seconds)
        except Refused:
            if not self.module.check_mode:
                raise
            return ""
        return line

    def compare(self, current: Callable[[Share], bool]) -> Plan:
        """What has to be done; `current` tells whether a share's credentials are."""
        known = {share.path for share in self.shares if current(share)}
        return make_plan(
            {share.path: self.line(share) for share in self.shares},
            self.ours,
            {path: path in known for path in self.credentials},
            [share.path for share in self.shares if is_mounted(share.path)],
        )

    def is_current(self, share: Share) -> bool:
        """Whether the credentials file of a share says what it has to."""
        file = self.credentials.get(share.path)
        return file is not None and file.read_text("utf-8", "replace") == share.credentials

    def look(self) -> dict[str, Any]:
        """Refuse mistakes, and tell whether anything differs."""
        self.refuse_mistakes()
        plan = self.compare(self.is_current)
        paths = [share.path for share in self.shares]
        files = [(credentials_path(path), 0o600) for path in paths]
        files += [(drop_in(path), 0o644) for path in paths] + [(CREDENTIALS, 0o700)] * bool(paths)
        as_wanted = all(has_mode(file, mode) for file, mode in files)
        return {"changed": False, "differs": bool(plan.left or plan.untried) or not as_wanted}

    def plan(self) -> dict[str, Any]:
        """Tell what is to be unmounted and written."""
        rewritten = self.module.params["rewritten"]
        plan = self.compare(lambda share: share.path not in rewritten)
        to_stop = [*plan.left, *plan.changed]
        return {
            "changed": False,
            "left": plan.left,
            "left_files": [
                str(file) for path in plan.left for file in (credentials_path(path), drop_in(path))
            ],
            "lines": [line for line in map(self.line, self.shares) if line],
            "drop_ins": [str(drop_in(share.path)) for share in self.shares],
            # The automounts last: where a share cannot be unmounted, all stays as it was.
            "stop": [
                unit_name(path, kind)
                for kind, file_system in (("mount", "cifs"), ("automount", "autofs"))
                for path in to_stop
                if file_system in mounted_types(path)
            ],
        }

    def attempt(self) -> dict[str, Any]:
        """Try what is not mounted just as it is to be, and refuse to unmount what is in use."""
        plan = self.compare(self.is_current)
        untried = [share for share in self.shares if share.path in plan.untried]
        try_shares(untried, self.seconds, connect_only=self.module.check_mode)
        if sentences := list(busy(plan.left + plan.changed)):
            raise Refused(*sentences)
        return {"changed": False}

    def mount(self) -> dict[str, Any]:
        """Have the shares mounted, with their directories; tell what was not there."""
        done = []
        for share in self.shares:
            if not is_active(share):
                done.append(f"{share.path} mounted")
                if not self.module.check_mode:
                    make_mount_point(share.path)
                    start_share(share)
            if not self.module.check_mode or is_mounted(share.path):
                done += [f"{path} made" for path in missing_directories(share)]
            if not self.module.check_mode:
                make_directories(share)
        for path in self.module.params["left"] if not self.module.check_mode else []:
            remove_mount_point(path)
        return {"changed": bool(done), "done": done}


STEPS = {"look": Machine.look, "try": Machine.attempt, "plan": Machine.plan, "mount": Machine.mount}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": [*STEPS], "required": True},
            "shares": {"type": "list", "elements": "dict", "required": True},
            # Apart from the shares: what is hidden as a whole can be quoted in no way.
            "passwords": {"type": "list", "elements": "raw", "default": [], "no_log": True},
            "uid": {"type": "str", "default": "0"},
            "gid": {"type": "str", "default": "0"},
            "seconds": {"type": "int", "default": 20},
            # Mount points: whose credentials are about to change, and of shares that are gone
            "rewritten": {"type": "list", "elements": "path", "default": []},
            "left": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = STEPS[module.params["step"]](Machine(module))
    except Refused as refusal:
        module.fail_json(msg="\n".join(["cifs_mount:", *refusal.args]))
    except subprocess.TimeoutExpired as error:
        module.fail_json(
            msg=f"cifs_mount: `{' '.join(error.cmd)}` did not end within {error.timeout:g} s. Does "
            "the file server answer? Run this again when it does."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
