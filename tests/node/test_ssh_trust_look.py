"""Whether the keys of a node, and what it knows of the others, are as role ssh_trust makes them."""

import hashlib
from pathlib import Path

import pytest

from node.failure import VerbError
from node.setup import ssh_trust
from node.setup.ssh_trust import SSHTrust, TrustFiles, look_at_ssh_trust
from node.setup.ssh_trust_lines import text_of

HOST, OWN, OTHER = "ssh-ed25519 HOST", "ssh-ed25519 OWN", "ssh-ed25519 OTHER"
CONTROL = "restrict,pty ssh-ed25519 C trainer@control-node:a"
ANOTHER = "restrict,pty ssh-ed25519 D trainer@control-node:b"
KNOWN = [f"node1 {HOST} node1", "node2 ssh-ed25519 HOST2 node2"]
LET_IN = [f'from="10.0.0.1" {OWN} trainer@node1', f"pty {OTHER} trainer@node2", CONTROL]


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SSHTrust:
    """A node that is as it is to be, but for owners and sshd, which are this machine's."""
    monkeypatch.setattr(ssh_trust, "pair_differences", lambda *_: [])
    monkeypatch.setattr(ssh_trust, "server_differences", lambda *_: [])
    monkeypatch.setattr(ssh_trust, "_sshd_settings", lambda *_: "")
    monkeypatch.setattr(ssh_trust, "is_roots", lambda path, mode: path.exists())
    (tmp_path / "host.pub").write_text(f"{HOST} root@node1\n")
    (tmp_path / "id.pub").write_text(f"{OWN} trainer@node1\n")
    (tmp_path / "known_hosts").write_text(text_of(KNOWN))
    (tmp_path / "authorized_keys").write_text(text_of(LET_IN))
    (tmp_path / "ssh.conf").write_text("Host node1\n")
    files = TrustFiles(
        node="node1",
        known_hosts=str(tmp_path / "known_hosts"),
        authorized_keys=str(tmp_path / "authorized_keys"),
        configuration=str(tmp_path / "ssh.conf"),
        configuration_text="Host node1\n",
        options={"node1": 'from="10.0.0.1" ', "node2": "pty "},
        control=CONTROL,
        digest=hashlib.sha256(text_of(KNOWN).encode()).hexdigest(),
    )
    return SSHTrust(
        user="trainer",
        key=str(tmp_path / "id"),
        comment="trainer@node1",
        host_key=str(tmp_path / "host.pub"),
        settings="/none",
        settings_text="",
        next="_next",
        files=files,
    )


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("", ssh_trust.USUAL_KEYS),
        ("port 22\nauthorizedkeysfile /etc/ssh/none/%u .ssh/keys\n", "/etc/ssh/none/%u .ssh/keys"),
        ("authorizedkeysfile none\n", ""),
    ],
)
def test_the_places_that_an_admin_has_for_keys_stay(
    said: str, places: str, wanted: SSHTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    for name in ("without", "asks_for_more", "is_unread"):
        monkeypatch.setattr(ssh_trust, name, lambda own: "")
    monkeypatch.setattr(ssh_trust, "_sshd_settings", lambda *_: said)

    def compare(settings: Path, text: str) -> list[str]:
        compared.append((settings, text))
        return []

    monkeypatch.setattr(ssh_trust, "server_differences", compare)
    text = f"AuthorizedKeysFile {ssh_trust.USUAL_KEYS} /etc/ours"
    assert look_at_ssh_trust(wanted._replace(settings_text=text))["keys_files"] == places
    assert compared == [(Path("/none"), f"AuthorizedKeysFile {places} /etc/ours")]


def test_a_node_that_is_as_it_is_to_be(wanted: SSHTrust) -> None:
    told = look_at_ssh_trust(wanted)
    assert told["differs"] is False
    assert (told["host_key"], told["user_keys"], told["rotation"]) == (HOST, [OWN], False)
    # What others compare with their own
    assert set(told["digests"]) == {"known_hosts", "authorized_keys"}
    assert look_at_ssh_trust(wanted._replace(files=None))["digests"] == {}


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        # A line of its own with another key, or with more or less than it may do
        ("known_hosts", HOST, "ssh-ed25519 EVIL"),
        ("authorized_keys", OWN, "ssh-ed25519 EVIL"),
        ("authorized_keys", 'from="10.0.0.1" ', ""),
        # Those of others
        ("known_hosts", "node2 ssh-ed25519 HOST2 node2\n", ""),
        ("known_hosts", "HOST2", "ANOTHER"),
        ("known_hosts", "node2 ssh-ed25519", "node2,node1 ssh-ed25519"),
        ("authorized_keys", "pty ssh-ed25519 OTHER", "ssh-ed25519 OTHER"),
        ("authorized_keys", f"pty {OTHER} trainer@node2\n", ""),
        ("authorized_keys", CONTROL, CONTROL.replace("C trainer", "E trainer")),
        # Lines that nobody is to have
        ("authorized_keys", CONTROL, f"{CONTROL}\nssh-ed25519 EVIL trainer@node3"),
        ("authorized_keys", CONTROL, f"{CONTROL}\n{OTHER} trainer@node2"),
        ("authorized_keys", CONTROL, f"{CONTROL}\n{ANOTHER}"),
        ("ssh.conf", "node1", "node2"),
        ("id.pub", "OWN", "NEW"),
        ("host.pub", "HOST", "NEW"),
    ],
)
def test_each_difference_is_seen(wanted: SSHTrust, file: str, before: str, after: str) -> None:
    path = Path(wanted.key).with_name(file)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    assert look_at_ssh_trust(wanted)["differs"] is True


def test_a_second_key_is_a_rotation_and_one_without_files_is_new(wanted: SSHTrust) -> None:
    second = Path(f"{wanted.key}_next.pub")
    second.write_text("ssh-ed25519 SECOND trainer@node1\n")
    told = look_at_ssh_trust(wanted)
    assert (told["differs"], told["rotation"]) == (True, True)
    assert told["user_keys"] == [OWN, "ssh-ed25519 SECOND"]
    second.unlink()
    Path(wanted.key).with_name("authorized_keys").unlink()
    assert look_at_ssh_trust(wanted)["differs"] is True


def test_other_control_nodes_stay_where_they_may(wanted: SSHTrust) -> None:
    Path(wanted.key).with_name("authorized_keys").write_text(text_of([*LET_IN, ANOTHER]))
    assert wanted.files
    assert look_at_ssh_trust(wanted)["differs"] is True
    beside = wanted.files._replace(control_owner="control-node:a")
    assert look_at_ssh_trust(wanted._replace(files=beside))["differs"] is False


def test_what_keeps_the_user_out_is_to_be_said(
    wanted: SSHTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_trust, "_sshd_settings", lambda user: "allowusers ada\n")
    monkeypatch.setattr(ssh_trust, "shut_out_by", lambda settings, user: settings.strip())
    assert look_at_ssh_trust(wanted)["differs"] is True


def test_keys_that_are_none_are_refused(wanted: SSHTrust) -> None:
    Path(f"{wanted.key}.pub").write_text("\n")
    with pytest.raises(VerbError) as refused:
        look_at_ssh_trust(wanted)
    assert "does not hold a public key" in str(refused.value.values["message"])
    Path(wanted.host_key).unlink()
    with pytest.raises(VerbError) as refused:
        look_at_ssh_trust(wanted)
    assert "ssh-keygen -A" in str(refused.value.values["message"])
