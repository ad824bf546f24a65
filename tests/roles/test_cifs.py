"""The rules of CIFS shares: what is refused, what is written, and what an error means."""

import errno
import socket
from typing import Any

import pytest
from role_modules import cifs_cause, cifs_share

Share = cifs_share.Share


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
    found = cifs_share.problems([share(**given)], others)
    assert len(found) == 1
    assert complaint in found[0]
    assert "secret" not in found[0]


@pytest.mark.parametrize(
    "password", [" leading", "-dash", "a,b", "'", '"', "#", "%", "ü", "\\", "=", ";", "\t"]
)
def test_any_password_of_one_line_is_taken(password: str) -> None:
    one = share(password=password, domain="OFFICE")
    assert cifs_share.problems([one], {}) == []
    assert one.credentials_text().split("\n") == [
        "username=ada", f"password={password}", "domain=OFFICE", "",
    ]  # fmt: skip
    assert password not in repr(one) or len(password) == 1


@pytest.mark.parametrize("path", ["/srv/share", "/srv", "/srv/share/inner"])
def test_two_shares_at_one_place_are_refused(path: str) -> None:
    found = cifs_share.problems([share(), share(path=path)], {})
    assert len(found) == 1
    assert "share 2" in found[0]


def test_neighbours_are_not_nested() -> None:
    assert cifs_share.problems([share(), share(path="/srv/share2")], {}) == []


def test_the_line_of_fstab() -> None:
    one = share(src="//nas/Project Data", path="/srv/a-b/c", seal=True, options=("nobrl",))
    assert one.fstab_line(5, 60, 20) == (
        r"//nas/Project\040Data /srv/a-b/c cifs credentials=/etc/cifs-credentials/srv@a-b@c,uid=5,"
        "gid=60,file_mode=0644,dir_mode=0755,iocharset=utf8,vers=default,seal,nobrl,_netdev,nofail,"
        "x-systemd.mount-timeout=20,x-systemd.automount 0 0"
    )
    assert cifs_share.path_of_credentials(one.credentials.name) == one.path
    assert cifs_share.mount_points(["# x /y", "", one.fstab_line(5, 60, 20)]).keys() == {one.path}


def test_fstab_is_given_back_as_it_was() -> None:
    text = "# disks\n/dev/sda1 / ext4 defaults 0 1\n"
    ours, others = cifs_share.split_fstab(text)
    assert not ours
    written = cifs_share.join_fstab(["line"], others)
    assert cifs_share.split_fstab(written) == (["line"], others)
    assert cifs_share.join_fstab([], others) == text


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
    assert f"//nas/training at /srv/share: {cause}" in cifs_cause.no_connection(share(), error)


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
    assert cause in cifs_cause.no_mount(one, output, [kernel] if kernel else [], False)


def test_a_folder_that_is_not_there() -> None:
    one = share(src="//nas/training/a/b")
    said = cifs_cause.no_mount(one, "mount error(2): No such file", [], True)
    assert "the share has no folder a/b" in said
