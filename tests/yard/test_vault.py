"""A password for sudo in Ansible Vault, as docs/roles.md tells; with a real sshd and sudo."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ssh_machines
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from ssh_machines import PASSWORD
from unpacked_sshd import make_key, why_not
from yard_command import REPOSITORY, Yard

from yard.core.errors import RequestError
from yard.core.project import Project
from yard.plays.inventory import read_inventory

WHY_NOT = why_not()
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.process]
KEY_OF_VAULT = "opens the vault"
VARIABLE = "ANSIBLE_VAULT_PASSWORD_FILE"


@dataclass(frozen=True)
class Site:
    """An inventory of one host, whose sudo asks for a password that is in a vault."""

    inventory: Path
    folder: Path

    def password_file(self, kind: str, text: str = KEY_OF_VAULT) -> Path:
        """What opens the vault: a file that has its password, or a program that prints it."""
        path = self.folder / f"{kind}-{text.replace(' ', '-')}"
        path.write_text(f"#!/bin/sh\necho '{text}'\n" if kind == "program" else f"{text}\n")
        path.chmod(0o700 if kind == "program" else 0o600)
        return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("vault")
    public = make_key(folder / "key")
    machine = ssh_machines.start(folder / "machine", public)
    (folder / "known_hosts").write_text(machine.known)
    (folder / "config").write_text(
        f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile none\n"
        f"IdentitiesOnly yes\nIdentityFile {folder}/key\nIdentityAgent none\n"
    )
    site = Site(folder / "site", folder)
    (site.inventory / "group_vars/trainers").mkdir(parents=True)
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": machine.port,
        "ansible_user": "ada",
        "ansible_ssh_common_args": f"-F {folder}/config",
        "ansible_become_password": "{{ vault_sudo_password }}",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    text = yaml.safe_dump({"trainers": {"hosts": {"gpu01": host}}})
    (site.inventory / "hosts.yml").write_text(text)
    secret = yaml.safe_dump({"vault_sudo_password": PASSWORD})
    locked = VaultLib().encrypt(secret, VaultSecret(KEY_OF_VAULT.encode()))
    (site.inventory / "group_vars/trainers/vault.yml").write_bytes(locked)
    yield site
    machine.process.kill()
    machine.process.wait()


def become_root(site: Site, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Have Ansible become root on the host, and say who it is."""
    return subprocess.run(
        [
            *("ansible", "trainers", "--inventory", str(site.inventory), "--become", *arguments),
            *("--module-name", "ansible.builtin.command", "--args", "id -un"),
        ],
        env={name: text for name, text in os.environ.items() if name != VARIABLE},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_opens_the_vault(site: Site) -> None:
    opened_by = {VARIABLE: str(site.password_file("program"))}
    yard = Yard(REPOSITORY)
    yard.environment |= opened_by
    asked = yard("--inventory", str(site.inventory), "doctor", "--json")
    [host] = json.loads(asked.stdout)["hosts"]
    assert (host["ok"], host["root"]) == (True, "sudo with a password"), asked.stdout
    option = become_root(site, "--vault-password-file", str(site.password_file("file")))
    assert option.returncode == 0, option.stdout + option.stderr
    assert option.stdout.split()[-1] == "root"
    for done in (asked, option):
        assert PASSWORD not in done.stdout + done.stderr
        assert KEY_OF_VAULT not in done.stdout + done.stderr


def test_a_vault_that_stays_shut_is_said_with_what_opens_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for opened_by in ("", str(site.password_file("file", "another password"))):
        if opened_by:
            monkeypatch.setenv(VARIABLE, opened_by)
        with pytest.raises(RequestError, match=VARIABLE):
            read_inventory(Project(REPOSITORY), site.inventory)


def test_the_document_names_the_same_ways() -> None:
    text = (REPOSITORY / "docs/roles.md").read_text()
    section = text[text.index("\n## Secrets") :]
    section = section[: section.index("\n## ", 5)]
    assert re.search(rf"^export {VARIABLE}=", section, re.MULTILINE)
    playbook = r"^\.venv/bin/ansible-playbook .*--vault-password-file "
    assert re.search(playbook, section, re.MULTILINE)
    assert 'ansible_become_password: "{{ vault_sudo_password }}"' in section
