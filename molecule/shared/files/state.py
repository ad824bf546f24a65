"""Prints the state of a machine, a fact a line: what a removed role must leave as it was."""

import grp
import hashlib
import os
import pwd
import stat
import subprocess
from pathlib import Path

TREES = [
    "/etc",
    "/home",
    "/opt",
    "/root",
    "/srv",
    "/usr/local",
    "/var/lib/trainyard",
    "/var/spool/cron",
]
# Read by line below, copies of those, caches, and what Ansible itself leaves.
PASSED_OVER = {
    *(
        f"/etc/{name}{end}"
        for name in ("group", "gshadow", "passwd", "shadow")
        for end in ("", "-")
    ),
    *(f"/etc/sub{kind}id{end}" for kind in "ug" for end in ("", "-")),
    "/etc/.pwd.lock",
    "/etc/ld.so.cache",
    # Ansible's own, of root and of the ordinary user whom scenarios log in as
    "/home/ops/.ansible",
    "/root/.ansible",
    "/root/.ansible_async",
    "/root/.cache",
}


def described(path: Path) -> str:
    """The line of one file, directory or link."""
    status = path.lstat()
    mode = stat.filemode(status.st_mode)
    if path.is_symlink():
        content = os.readlink(path)
    elif path.is_file():
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    else:
        content = "-"
    return f"path {path} {mode} {status.st_uid}:{status.st_gid} {content}"


def main() -> None:
    """Prints all lines, sorted."""
    lines = []
    for tree in TREES:
        for directory, names, files in os.walk(tree):
            names[:] = [name for name in names if f"{directory}/{name}" not in PASSED_OVER]
            lines.append(described(Path(directory)))
            links = [name for name in names if Path(directory, name).is_symlink()]
            paths = [Path(directory, name) for name in files + links]
            lines += [described(path) for path in paths if str(path) not in PASSED_OVER]
    lines += [f"user {entry.pw_name} {':'.join(map(str, entry[2:]))}" for entry in pwd.getpwall()]
    lines += [
        f"group {entry.gr_name} {entry.gr_gid} {','.join(entry.gr_mem)}" for entry in grp.getgrall()
    ]
    for name in ("shadow", "gshadow"):
        # The user or group and what it logs in with; not the days since then.
        lines += [
            f"{name} {':'.join(line.split(':')[:2])}"
            for line in Path(f"/etc/{name}").read_text(encoding="utf-8").splitlines()
        ]
    query = ["dpkg-query", "--show", "--showformat=package ${binary:Package} ${db:Status-Abbrev}\n"]
    lines += subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
    lines += [
        f"mount {' '.join(line.split()[:3])}"
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    ]
    print("\n".join(sorted(set(lines))))


if __name__ == "__main__":
    main()
