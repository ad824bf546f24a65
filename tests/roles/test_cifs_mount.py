"""The rules of CIFS shares: what is refused, what is written, and what an error means."""

import errno
import io
import os
import pwd
import runpy
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible.module_utils import (
    cifs_mount_cause,
    cifs_mount_machine,
    cifs_mount_mistakes,
    cifs_mount_share,
    cifs_mount_start,
    cifs_mount_trial,
)
from role_files import ROLES

Share = cifs_mount_share.Share
module = runpy.run_path(str(ROLES / "cifs_mount/library/cifs_mount_shares.py"))


def share(**given: Any) -> Any:
    values = {"src": "//nas/training", "path": "/srv/share", "username": "ada", "password": "x"}
    return Share(**{**values, **given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"src": r"\\nas\training"}, 'written with slashes: "//nas/training"'),
        ({"src": "//nas"}, "must be //server/share"),
        ({"src": "//nas/a,b"}, "without a comma"),
        ({"path": "srv"}, "must be absolute"),
        ({"path": "/srv/../etc"}, "must be absolute"),
        ({"path": "/srv/share/"}, "without a slash at its end"),
        ({"path": "/media/disk"}, 'another line for "/media/disk": "/dev/sda1 /media/disk ext4"'),
        ({"username": ""}, "username is missing"),
        ({"username": "a,b"}, "comma or a control character"),
        ({"username": r"OFFICE\ada"}, 'into "domain"'),
        ({"password": ""}, "Ansible Vault"),
        ({"password": "two\nlines"}, "line break"),
        ({"password": "x" * 512}, "longer than 511"),
        ({"password": "," * 256}, "longer than 511"),
        ({"file_mode": "rw-r--r--"}, "must be octal"),
        ({"seal": True, "version": "2.1"}, "seal needs version 3.0"),
        ({"options": ("a,b",)}, "one at a time"),
        ({"options": ("uid=5",)}, 'use the key "uid"'),
        ({"options": ("password=secret",)}, 'option "password": use the key "password"'),
        ({"options": ("port=x",)}, "is not a port"),
        ({"directories": ("../up",)}, "inside of the share"),
        ({"directories": ("/weights",)}, "inside of the share"),
    ],
)
def test_a_mistake_is_named_and_nothing_else(given: dict[str, Any], complaint: str) -> None:
    others = {"/media/disk": "/dev/sda1 /media/disk ext4"}
    found = cifs_mount_mistakes.mistakes([share(**given)], others)
    assert len(found) == 1
    assert complaint in found[0]
    assert "secret" not in found[0]


@pytest.mark.parametrize(
    "password", [" leading", "-dash", "a,b", "'", '"', "#", "%", "ü", "\\", "=", ";", "\t"]
)
def test_any_password_of_one_line_is_taken(password: str) -> None:
    one = share(password=password, domain="OFFICE")
    assert cifs_mount_mistakes.mistakes([one], {}) == []
    assert one.credentials.split("\n") == [
        "username=ada", f"password={password}", "domain=OFFICE", "",
    ]  # fmt: skip
    assert password not in repr(one) or len(password) == 1


@pytest.mark.parametrize("path", ["/srv/share", "/srv", "/srv/share/inner"])
def test_two_shares_at_one_place_are_refused(path: str) -> None:
    found = cifs_mount_mistakes.mistakes([share(), share(path=path)], {})
    assert len(found) == 1
    assert "share 2" in found[0]


def test_neighbours_are_not_nested() -> None:
    assert cifs_mount_mistakes.mistakes([share(), share(path="/srv/share2")], {}) == []


def test_the_line_of_fstab() -> None:
    one = share(
        src="//nas/Project Data", path="/srv/a-b/c", uid="5", gid="60", seal=True, options=("x",)
    )
    line = one.fstab_line(20)
    assert line == (
        r"//nas/Project\040Data /srv/a-b/c cifs credentials=/etc/cifs-credentials/srv@a-b@c,uid=5,"
        "gid=60,file_mode=0644,dir_mode=0755,iocharset=utf8,vers=default,seal,x,_netdev,nofail,"
        "x-systemd.mount-timeout=20,x-systemd.automount 0 0"
    )
    assert cifs_mount_share.by_mount_point(["# x /y", "", line]) == {one.path: line}
    assert cifs_mount_share.by_mount_point(["nas:/x /srv/x/ nfs"]).keys() == {"/srv/x"}


def test_lines_of_fstab_outside_of_the_block_are_others() -> None:
    text = f"a /b\n{cifs_mount_share.BEGIN}\n//nas/a /srv/a\n{cifs_mount_share.END}\n# c\n"
    assert cifs_mount_share.split_fstab(text) == (["//nas/a /srv/a"], ["a /b", "# c"])
    # Somebody deleted the last line of the block: what follows is not unmounted.
    cut = text.replace(f"{cifs_mount_share.END}\n", "")
    assert cifs_mount_share.split_fstab(cut) == ([], ["a /b", "//nas/a /srv/a", "# c"])
    written = f"{cut}{cifs_mount_share.BEGIN}\n//nas/d /srv/d\n{cifs_mount_share.END}\n"
    assert cifs_mount_share.split_fstab(written)[0] == ["//nas/d /srv/d"]


@pytest.mark.process
@pytest.mark.parametrize("path", ["/srv/share", "/mnt/project-data", "/.a/b_c.d", "/a--b"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    if not shutil.which("systemd-escape"):
        pytest.skip("no systemd here")
    command = ["systemd-escape", "--path", "--suffix=mount", path]
    named = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert cifs_mount_share.unit_name(path, "mount") == named


def test_a_share_takes_the_owner_of_all_unless_it_has_its_own() -> None:
    entry = {"src": "//nas/training", "path": "/srv/share", "username": "ada", "file_mode": 600}
    one = cifs_mount_share.parse_share(entry, "secret", "trainer", "60")
    assert (one.uid, one.gid, one.file_mode, one.automount) == ("trainer", "60", "600", True)
    entry.update(uid=5, domain=None, seal=True, options=["port=4450"], directories=["a"])
    one = cifs_mount_share.parse_share(entry, "secret", "trainer", "60")
    assert (one.uid, one.gid, one.domain, one.seal) == ("5", "60", "", True)
    assert (one.host, one.port, one.directories) == ("nas", 4450, ("a",))


OURS = {"/srv/share": "line of //nas/training"}


@pytest.mark.parametrize(
    ("ours", "credentials", "mounted", "changed", "untried"),
    [
        ({}, {}, [], True, True),
        (OURS, {"/srv/share": True}, ["/srv/share"], False, False),
        # Nobody has looked at it yet, or somebody unmounted it: its line stays.
        (OURS, {"/srv/share": True}, [], False, True),
        (OURS, {"/srv/share": False}, ["/srv/share"], True, True),
        (OURS, {}, ["/srv/share"], True, True),
        ({"/srv/share": "another line"}, {"/srv/share": True}, ["/srv/share"], True, True),
    ],
)
def test_a_share_that_stands_is_left_alone(
    ours: dict[str, str],
    credentials: dict[str, bool],
    mounted: list[str],
    changed: bool,
    untried: bool,
) -> None:
    plan = module["make_plan"](OURS, ours, credentials, mounted)
    assert plan == (["/srv/share"] * changed, ["/srv/share"] * untried, [])


def test_a_share_goes_that_has_only_a_line_or_only_credentials() -> None:
    plan = module["make_plan"](OURS, {**OURS, "/srv/b": "x"}, {"/srv/a": False}, [])
    assert plan.left == ["/srv/a", "/srv/b"]


def test_mount_points_that_were_made_go_and_others_stay(tmp_path: Path) -> None:
    record = tmp_path / "lib/cifs_mount"
    (tmp_path / "srv").mkdir()
    (tmp_path / "there").mkdir()
    for name in ("srv/a/b", "srv/a/c", "there"):
        cifs_mount_start.make_mount_point(str(tmp_path / name), record)
    made = [tmp_path / name for name in ("srv/a", "srv/a/b", "srv/a/c")]
    assert record.read_text().splitlines() == [str(path) for path in made]
    cifs_mount_start.remove_mount_point(str(tmp_path / "srv/a/b"), record)
    assert not (tmp_path / "srv/a/b").exists()
    # The directory above still holds the other one.
    assert record.read_text().splitlines() == [str(tmp_path / "srv/a"), str(tmp_path / "srv/a/c")]
    cifs_mount_start.remove_mount_point(str(tmp_path / "srv/a/c"), record)
    cifs_mount_start.remove_mount_point(str(tmp_path / "there"), record)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["srv", "there"]
    assert list((tmp_path / "srv").iterdir()) == []


MOUNTINFO = """\
22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
75 28 0:46 / /srv/share rw,relatime shared:31 - autofs systemd-1 rw,fd=57
80 75 0:52 / /srv/share rw,relatime shared:40 master:2 - cifs //nas/training rw,vers=3.1.1
"""


def test_what_is_mounted_is_read_from_the_top(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTINFO)
    assert cifs_mount_machine.mounted_types("/srv/share", mounts) == ["autofs", "cifs"]
    assert cifs_mount_machine.mounted_types("/srv", mounts) == []


def test_whoever_uses_a_mount_point_is_named(tmp_path: Path) -> None:
    for pid, directory in ((11, "/srv/share/weights"), (12, "/srv/share2"), (13, "/srv/share")):
        process = tmp_path / str(pid)
        (process / "fd").mkdir(parents=True)
        (process / "comm").write_text(f"program{pid}\n")
        for link, target in (("cwd", directory), ("root", "/"), ("exe", "/usr/bin/sleep")):
            (process / link).symlink_to(target)
    (tmp_path / "14").mkdir()  # the kernel's: its links cannot be read
    holders = cifs_mount_machine.holders("/srv/share", tmp_path)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert sorted(holders) == [
        f"program11 (process 11 of {user})",
        f"program13 (process 13 of {user})",
    ]


class KernelLog(io.RawIOBase):
    """/dev/kmsg: one entry a read, and an error where an entry was overwritten."""

    def __init__(self, *entries: bytes | None) -> None:
        self.entries = list(entries)

    def read(self, size: int = -1) -> bytes | None:
        if not self.entries:
            return None
        entry = self.entries.pop(0)
        if entry is None:
            raise BrokenPipeError
        return entry


def test_of_the_kernels_log_the_lines_of_cifs_are_read() -> None:
    log = KernelLog(
        b"6,339,5140900,-;eth0: link up\n",
        None,
        b"3,340,5140901,-;CIFS: VFS: cifs_mount failed w/return code = -13\n DEVICE=c1\n",
    )
    assert list(cifs_mount_trial.kernel_lines(log)) == [
        "CIFS: VFS: cifs_mount failed w/return code = -13"
    ]


@pytest.mark.parametrize(
    ("hanging", "output"), [((), None), (("umount",), None), (("mount", "umount"), "")]
)
def test_a_trial_that_stays_mounted_loses_no_file(
    hanging: tuple[str, ...],
    output: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def run(*command: str, seconds: float) -> subprocess.CompletedProcess[str]:
        asked.append(command[:-1])
        if command[0] == "mount":
            Path(command[-1], "precious").touch()
        if command[0] in hanging:
            raise subprocess.TimeoutExpired(command, seconds)
        return subprocess.CompletedProcess(command, 32 if command[0] == "umount" else 0, "busy")

    monkeypatch.setattr(cifs_mount_trial, "RUNTIME", tmp_path)
    monkeypatch.setattr(cifs_mount_trial, "run", run)
    monkeypatch.setattr(cifs_mount_trial, "mounted_types", lambda _point: ["cifs"])
    one = share(uid=str(os.getuid()), gid=str(os.getgid()))
    assert cifs_mount_trial._mount(one, 20) == output
    assert asked[1:] == [("umount",), ("umount", "--lazy")]
    (directory,) = tmp_path.iterdir()
    # The share and no password
    assert [path.relative_to(directory) for path in directory.rglob("*")] == [
        Path("mount"),
        Path("mount/precious"),
    ]


def test_a_trial_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifs_mount_trial, "RUNTIME", tmp_path)
    monkeypatch.setattr(
        cifs_mount_trial,
        "run",
        lambda *command, seconds: subprocess.CompletedProcess(command, 32, "mount error(13)\n"),
    )
    one = share(uid=str(os.getuid()), gid=str(os.getgid()))
    assert cifs_mount_trial._mount(one, 20) == "mount error(13)"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TimeoutError(), "nas does not answer on port 445"),
        (OSError(errno.EHOSTUNREACH, ""), "nas cannot be reached on port 445"),
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), "nas refuses connections on port 445"),
        (socket.gaierror(socket.EAI_NONAME, ""), "the name nas cannot be resolved"),
        (OSError(errno.ENETDOWN, "{down}"), "nas cannot be reached on port 445"),
    ],
)
def test_a_server_out_of_reach(error: OSError, cause: str) -> None:
    assert f"//nas/training at /srv/share: {cause}" in cifs_mount_cause.no_connection(
        share(), error
    )


STATUS = "CIFS: Status code returned 0xc0000000 "


@pytest.mark.parametrize(
    ("output", "kernel", "cause"),
    [
        ("mount error(13): Permission denied", "", "logs in, but may not use //nas/training/a/b"),
        ("mount error(13): Permission denied", f"{STATUS}STATUS_LOGON_FAILURE", "refuses user ada"),
        ("mount error(2): No such file", "", "the server has no share training"),
        ("mount error(95): Operation not supported", "", "version default of the protocol, or"),
        ("mount: unknown filesystem type 'cifs'.", "", "has no CIFS"),
        ("", "", "takes connections on port 445, but does not answer"),
        ("mount error(5): {odd}\nRefer", "", "mount.cifs says: mount error(5): {odd} Refer"),
    ],
)
def test_a_mount_that_fails(output: str, kernel: str, cause: str) -> None:
    one = share(src="//nas/training/a/b")
    assert cause in cifs_mount_cause.no_mount(one, output, [kernel] if kernel else [], False)


def test_a_folder_that_is_not_there() -> None:
    one = share(src="//nas/training/a/b")
    said = cifs_mount_cause.no_mount(one, "mount error(2): No such file", [], True)
    assert "the share has no folder a/b" in said


def test_a_command_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        params: ClassVar = {"step": "look"}

        def __init__(self, **_options: Any) -> None: ...

        def fail_json(self, msg: str) -> None:
            raise SystemExit(msg)

    def hang(_module: Any) -> None:
        raise subprocess.TimeoutExpired(("systemctl", "stop", "srv-share.mount"), 90.0)

    main = module["main"]
    monkeypatch.setitem(main.__globals__, "AnsibleModule", Module)
    monkeypatch.setitem(main.__globals__, "Machine", hang)
    with pytest.raises(SystemExit, match=r"`systemctl stop .*` did not end within 90 s"):
        main()
