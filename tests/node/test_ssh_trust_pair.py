"""Whether a key pair is one that role ssh_trust would make; the keys are real ones."""

import pwd
import subprocess
from pathlib import Path

import pytest

from node.setup import ssh_trust_pair


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A pair in a directory of its own."""
    directory = tmp_path / "keys"
    directory.mkdir(mode=0o700)
    make_key(directory / "id_ed25519", "ed25519", "ada@node1")
    return directory / "id_ed25519"


def make_key(path: Path, kind: str, comment: str) -> None:
    """Make a pair without a passphrase."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True)


def differences(key: Path, user: str | None = None) -> list[str]:
    """Compare the pair with that of ada on node1."""
    found: list[str] = ssh_trust_pair.pair_differences(key, 0o700, user, "ada@node1")
    return found


def test_the_settings_of_others_are_read_without_the_role_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sshd_config.d"
    folder.mkdir()
    own, site = folder / "10-ours.conf", folder / "50-site.conf"
    own.touch()
    main = tmp_path / "sshd_config"
    monkeypatch.setattr(ssh_trust_pair, "MAIN_SETTINGS", main)
    main.write_text(f"Include {own}\nInclude sshd_config.d/*.conf\nPort 22\n")
    assert ssh_trust_pair.without(own) == "\n\nPort 22\n"
    site.touch()
    assert ssh_trust_pair.without(own) == f"\nInclude {site}\nPort 22\n"


@pytest.mark.process
def test_a_pair_that_is_as_it_is_to_be(key: Path) -> None:
    assert differences(key) == []
    assert differences(key, "nobody-knows") == ["there is no user nobody-knows"]


@pytest.mark.process
def test_the_public_key_of_another_pair_is_seen(key: Path) -> None:
    other = key.with_name("other")
    make_key(other, "ed25519", "ada@node1")
    key.with_name("id_ed25519.pub").write_text(other.with_name("other.pub").read_text())
    assert differences(key) == [f"{key}.pub does not belong to it"]


@pytest.mark.process
def test_another_comment_is_seen(key: Path) -> None:
    public = key.with_name("id_ed25519.pub")
    public.write_text(public.read_text().replace("ada@node1", "ada@node2"))
    assert differences(key) == [f"{key}.pub does not belong to it"]


@pytest.mark.process
def test_another_type_is_seen(key: Path) -> None:
    key.unlink()
    make_key(key.with_name("new"), "ecdsa", "ada@node1")
    key.with_name("new").rename(key)
    assert differences(key) == [f"{key} is not a key of type ssh-ed25519"]


@pytest.mark.process
def test_what_is_missing_or_open_is_seen(key: Path) -> None:
    key.parent.chmod(0o755)
    assert differences(key) == [f"{key.parent} has other rights"]
    key.parent.chmod(0o700)
    key.chmod(0o644)
    # Of a user, with owner and mode; root owns what a test of root's makes.
    found = ssh_trust_pair.pair_differences(key, 0o700, "root", "ada@node1")
    assert f"{key} is missing or has other rights" in found
    key.unlink()
    assert differences(key) == [f"{key} is missing or has other rights"]


def test_settings_of_sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, settings = tmp_path / "sshd_config", tmp_path / "10-ssh_trust.conf"
    monkeypatch.setattr(ssh_trust_pair, "MAIN_SETTINGS", main)
    monkeypatch.setattr(ssh_trust_pair, "ROLLBACK", tmp_path / "rollback.timer")
    main.write_text(f"Include {tmp_path}/*.conf\nPort 22\n")
    assert ssh_trust_pair.server_differences(settings, "") == []
    assert ssh_trust_pair.server_differences(settings, "a") == [
        f"{settings} is missing or has other rights"
    ]
    settings.write_text("a\n")
    settings.chmod(0o644)
    assert ssh_trust_pair.server_differences(settings, "") == [f"{settings} is there"]
    if settings.stat().st_uid == 0:
        assert ssh_trust_pair.server_differences(settings, "a\n") == []
        assert ssh_trust_pair.server_differences(settings, "b\n") == [
            f"{settings} says something else"
        ]
    main.write_text("Port 22\n")
    assert ssh_trust_pair.server_differences(settings, "a")[0] == (
        f"{main} reads other settings before {settings}"
    )
    (tmp_path / "rollback.timer").touch()
    assert ssh_trust_pair.server_differences(settings, "a")[0] == (
        "an earlier run was cut off while it tried settings"
    )


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("# Debian's\n\nInclude {0}/d/*.conf\nPort 22\n", False),
        ('include "d/*.conf" other.conf\n', False),
        ("Include other.conf\nInclude={0}/d/10-ssh_trust.conf\n", False),
        # An admin's, whose drop-ins are to stay unread, or come last
        ("#Include {0}/d/*.conf\nPort 22\n", True),
        ("PasswordAuthentication yes\nInclude {0}/d/*.conf\n", True),
        ("Match User ada\nInclude {0}/d/*.conf\n", True),
        ("Include {0}/d/20-*.conf\n", True),
        ("", True),
    ],
)
def test_whether_sshd_reads_the_role_s_settings_first(
    text: str, unread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "sshd_config"
    monkeypatch.setattr(ssh_trust_pair, "MAIN_SETTINGS", main)
    main.write_text(text.format(tmp_path))
    assert ssh_trust_pair.is_unread(tmp_path / "d/10-ssh_trust.conf") is unread


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("port 22\nauthenticationmethods any\npubkeyauthentication yes\n", ""),
        ("authenticationmethods publickey,password publickey\n", ""),
        (
            "authenticationmethods publickey,keyboard-interactive\n",
            "AuthenticationMethods publickey,keyboard-interactive of sshd: have `Match User root` "
            "and `AuthenticationMethods publickey` before it",
        ),
        ("pubkeyauthentication no\n", "PubkeyAuthentication no of sshd: take it out there"),
        ("allowusers ada\nallowusers bob\n", "AllowUsers ada bob of sshd: put root there"),
        ("allowusers ada\nallowusers root@10.*\n", ""),
        ("allowusers r*\n", ""),
        ("denyusers root\n", "DenyUsers root of sshd: take root out there"),
        ("denyusers ada\n", ""),
        ("allowgroups ssh\n", "AllowGroups ssh of sshd: put a group of it there"),
        ("allowgroups ssh\nallowgroups root\n", ""),
        ("denygroups root\n", "DenyGroups root of sshd: take a group of it out there"),
    ],
)
def test_who_is_shut_out_is_told_by_what_and_how_to_let_it_in(settings: str, said: str) -> None:
    reload = ", below /etc/ssh, then `systemctl reload ssh`"
    assert ssh_trust_pair.shut_out_by(settings, "root") == (f"{said}{reload}" if said else "")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("AuthenticationMethods publickey,keyboard-interactive:pam", True),
        ("  authenticationmethods=password publickey,password", True),
        ("AuthenticationMethods publickey,keyboard-interactive publickey", False),
        ("AuthenticationMethods any", False),
        ("#AuthenticationMethods publickey,password", False),
    ],
)
def test_a_second_factor_is_seen_wherever_it_is_asked_for(
    line: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the role switches passwords off, those who are asked for one would be locked out."""
    main, folder = tmp_path / "sshd_config", tmp_path / "sshd_config.d"
    monkeypatch.setattr(ssh_trust_pair, "MAIN_SETTINGS", main)
    folder.mkdir()
    main.write_text("Port 22\n")
    (folder / "10-ssh_trust.conf").write_text(f"{line}\n")
    own = folder / "10-ssh_trust.conf"
    assert ssh_trust_pair.asks_for_more(own) == ""
    (folder / "50-site.conf").write_text(f"Match Group staff\n{line}\n")
    said = f"{line.strip()} in {folder}/50-site.conf"
    assert ssh_trust_pair.asks_for_more(own) == (said if told else "")


def test_groups_that_a_directory_service_does_not_list_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grp.getgrall", list)
    assert ssh_trust_pair.shut_out_by("allowgroups root\n", "root") == ""


@pytest.mark.parametrize(
    ("shadow", "said"),
    [
        ("root:*:20000:0:99999:7:::\n", ""),
        ("root:!:20000:0:99999:7::-1:\n", ""),
        ("odd\n", ""),
        ("", ""),
        ("root:*:20000:0:99999:7::0:\n", "the account has expired: `chage -E -1 root` there"),
        ("root:*:20000:0:99999:7::20786:\n", "the account has expired"),
        ("root:*:20000:0:99999:7::20787:\n", ""),
        ("root:*:0:0:99999:7:::\n", "its password has expired: `chage -d 20786 root` there"),
        ("root:*:20000:0:90:7:::\n", "its password has expired"),
    ],
)
def test_an_account_that_nobody_can_log_in_to_is_told_from_its_shadow(
    shadow: str, said: str
) -> None:
    told = ssh_trust_pair.account_shut("root", shadow, 20786)
    assert told.startswith(said)
    assert bool(told) == bool(said)


def test_an_account_whose_shell_runs_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("/usr/sbin/nologin", "/bin/false", "/bin/nosuch"):
        entry = pwd.struct_passwd(("ada", "x", 1, 1, "", "/home/ada", shell))
        monkeypatch.setattr(pwd, "getpwnam", {"ada": entry}.__getitem__)
        told = ssh_trust_pair.account_shut("ada", "", 20786)
        assert told == f"its login shell is {shell}: `chsh -s /bin/bash ada` there gives it one"
        assert ssh_trust_pair.account_shut("nobody-there", "", 20786) == ""
