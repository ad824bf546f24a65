"""The environment in which programs of this machine reach packages, as an inventory has it."""

import locale
import os
from pathlib import Path

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from yard_command import REPOSITORY, Yard

from yard.core.errors import RequestError
from yard.core.locales import have_utf8
from yard.core.project import Project
from yard.plays.ask import CERTIFICATES, ask_environment
from yard.plays.inventory import read_inventory

HOSTS = {"trainers": {"hosts": {"gpu01": {}}, "vars": {"cluster_network": "10.0.0.0/24"}}}


def inventory(folder: Path, **variables: object) -> Path:
    """An inventory that says this of the way to packages."""
    (folder / "group_vars").mkdir()
    (folder / "hosts.yml").write_text(yaml.safe_dump(HOSTS))
    named = {f"closed_network_{name}": value for name, value in variables.items()}
    (folder / "group_vars/all.yml").write_text(yaml.safe_dump(named))
    return folder


def asked(folder: Path) -> dict[str, str]:
    return dict(ask_environment(Project(REPOSITORY), folder))


@pytest.mark.process
def test_nothing_is_set_where_nothing_is_said(tmp_path: Path) -> None:
    assert asked(inventory(tmp_path, no_proxy=".example.org")) == {}


@pytest.mark.process
def test_all_that_is_said_is_set(tmp_path: Path) -> None:
    folder = inventory(
        tmp_path,
        http_proxy="http://ops:{{ 'secret' }}@proxy:3128",
        no_proxy=".example.org, localhost",
        pip_index="https://mirror/simple",
        npm_registry="https://mirror/npm",
        ca="/etc/ssl/example-ca.pem",
    )
    trusted = f"{REPOSITORY}/.trainyard/{folder.name}/trusted.pem"
    assert asked(folder) == {
        "http_proxy": "http://ops:secret@proxy:3128",
        "no_proxy": "localhost,127.0.0.1,::1,.example.org",
        "PIP_INDEX_URL": "https://mirror/simple",
        "NPM_CONFIG_REGISTRY": "https://mirror/npm",
        "SSL_CERT_FILE": trusted,
        "REQUESTS_CA_BUNDLE": trusted,
        CERTIFICATES: trusted,
        "NPM_CONFIG_CAFILE": trusted,
    }


@pytest.mark.process
def test_an_inventory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = inventory(tmp_path)
    (folder / "group_vars/all.yml").write_text("a: [1\n")
    with pytest.raises(RequestError, match="cannot read"):
        ask_environment(Project(REPOSITORY), folder)


@pytest.mark.process
def test_a_byte_order_mark_in_an_ini_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_bytes(b"\xef\xbb\xbf[trainers]\r\ngpu01 ansible_port=1\r\n")
    with pytest.raises(RequestError, match=r"hosts\.ini: begins with a byte order mark"):
        read_inventory(Project(REPOSITORY), tmp_path / "hosts.ini")


@pytest.mark.process
def test_a_file_that_is_no_inventory_is_named(tmp_path: Path) -> None:
    """A key beside the inventory, say."""
    folder = inventory(tmp_path)
    (folder / "keys").mkdir()
    (folder / "keys/id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(RequestError) as refused:
        read_inventory(Project(REPOSITORY), folder)
    assert f"{folder}/keys/id_ed25519: is not an inventory" in str(refused.value)
    assert "WARNING" not in str(refused.value)


@pytest.mark.process
def test_an_encrypted_file_that_is_no_yaml_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = inventory(tmp_path)
    password, vault = tmp_path.with_suffix(".pw"), folder / "group_vars/trainers.yml"
    password.write_text("opens\n")
    vault.write_bytes(VaultLib().encrypt("a: 1\nb: [hidden\n", VaultSecret(b"opens")))
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    with pytest.raises(RequestError) as refused:
        read_inventory(Project(REPOSITORY), folder)
    assert f"{vault}: its decrypted content is not YAML, line 3" in str(refused.value)
    assert f"ansible-vault edit {vault}" in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("typed", "given"),
    [("C", "C.UTF-8"), ("xx_XX.UTF-8", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("C.UTF-8", "C.UTF-8")],
)
def test_programs_get_a_locale_that_ansible_takes(
    typed: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = locale.setlocale(locale.LC_ALL)
    monkeypatch.setenv("LC_ALL", typed)
    told = have_utf8()
    assert os.environ["LC_ALL"] == given
    assert told.startswith(given)
    assert (f"in place of LC_ALL={typed}," in told) == (typed != given)
    assert locale.setlocale(locale.LC_ALL) == before


def test_a_command_works_in_the_locale_c(fresh: Yard) -> None:
    """Ansible would read no inventory, and the inventory was blamed."""
    fresh.environment["LC_ALL"] = "C"
    done = fresh("train", "--model", "vit", "--nodes", "99")
    assert "locale" not in done.stdout + done.stderr
    assert "99" in done.stderr
