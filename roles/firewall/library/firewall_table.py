#!/usr/bin/python
"""Ansible module: the role's table of nftables, its file and the unit that loads it."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.firewall_rules import (
    TABLE,
    Connection,
    Invalid,
    parse_connection,
    parse_rules,
    table_text,
)

UNITS = Path("/etc/systemd/system")
PREVIOUS = Path("/run/trainyard-firewall-previous.nft")
PREVIOUS_FILE = Path("/run/trainyard-firewall-previous-file")
ROLLBACK = "trainyard-firewall-rollback"
RECORD = Path("/var/lib/trainyard/packages/firewall")
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
HEAD = "# Written by Ansible, role firewall.\n"
# DefaultDependencies=no, as nftables.service has it: the rules are there before the network. After
# nftables.service, which begins with removing all tables.
UNIT = """\
# Written by Ansible, role firewall.
[Unit]
Description=Packet filter of the training nodes (nftables, table {table})
Documentation=man:nft(8)
ConditionPathExists={path}
DefaultDependencies=no
Wants=network-pre.target
Before=network-pre.target
After=local-fs.target nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={nft} --file {path}
ExecReload={nft} --file {path}
ExecStop=-{nft} delete table {table}

[Install]
WantedBy=sysinit.target nftables.service
"""
NFT = "/usr/sbin/nft"


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program whose status the caller looks at."""
    return subprocess.run(
        command,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )


def connection_in_use(pid: int, proc: Path = Path("/proc")) -> Connection | None:
    """Return the SSH connection through which a process was started; None where there is none.

    sudo takes SSH_CONNECTION out of the environment, so that it is looked for in the processes
    that started this one.
    """
    while pid > 1:
        try:
            environment = (proc / str(pid) / "environ").read_bytes().split(b"\0")
            status = (proc / str(pid) / "status").read_text()
        except OSError:
            return None
        for entry in environment:
            if entry.startswith(b"SSH_CONNECTION="):
                return parse_connection(entry.decode().partition("=")[2])
        [pid] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")]
    return None


def listing() -> str:
    """The table as the kernel has it; empty where there is none."""
    done = run(NFT, "--stateless", "list", "table", *TABLE.split())
    return done.stdout if done.returncode == 0 else ""


def listing_of(text: str) -> tuple[str, str]:
    """How nft would list a table, and why it does not take it; one of them is empty."""
    script = f"{NFT} --file - && {NFT} --stateless list table {TABLE}"
    done = run("unshare", "--net", "sh", "-c", script, text=text)
    return (done.stdout, "") if done.returncode == 0 else ("", done.stderr.strip())


def same_file(path: Path, text: str) -> bool:
    """Whether a file has this text, is root's, and only root writes it."""
    if not path.is_file() or path.is_symlink():
        return False
    status = path.stat()
    return path.read_text(encoding="utf-8", errors="replace") == text and (
        status.st_uid,
        status.st_gid,
        status.st_mode & 0o777,
    ) == (0, 0, 0o644)


def is_active(unit: str) -> bool:
    """Whether a unit of systemd runs, or a timer waits."""
    return run("systemctl", "is-active", "--quiet", unit).returncode == 0


class Node:
    """The file, the unit and the table of this node."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.path = Path(module.params["path"])
        self.unit = module.params["unit"]
        self.unit_path = UNITS / self.unit
        # Whether the timer is that of this run
        self.armed = False

    def fail(self, text: str) -> None:
        """End with an error; what comes before says whether anything was changed."""
        self.module.fail_json(msg=f"firewall: {text}")

    def systemctl(self, *arguments: str) -> None:
        """Have systemd do something that must work."""
        done = run("systemctl", *arguments)
        if done.returncode != 0:
            self.fail(f"systemctl {' '.join(arguments)}: {done.stderr.strip()}")

    def exit(self, changed: bool, differences: list[str], **more: Any) -> None:
        """End, with what the task returns."""
        self.module.exit_json(
            changed=changed, differences=differences, packages=RECORD.exists(), **more
        )

    def present(self) -> None:
        """Bring the rules about."""
        low, high = map(int, EPHEMERAL.read_text().split())
        try:
            rules = parse_rules(self.module.params, (low, high))
        except Invalid as error:
            self.fail(f"{error}. Nothing was changed.")
        objection = rules.objection(connection_in_use(os.getpid()))
        if objection:
            self.fail(f"{objection}. Nothing was changed.")
        if not Path("/run/systemd/system").is_dir():
            self.fail("the rules are loaded at boot by systemd, which this node does not run with")
        text = HEAD + table_text(rules)
        unit_text = UNIT.format(table=TABLE, path=self.path, nft=NFT)
        differences = self.differences(text, unit_text)
        if self.module.check_mode or not differences:
            asks = differences and shutil.which("ss")
            listening = run("ss", "-Hltunp").stdout.splitlines() if asks else []
            shut_off = rules.shut_off(listening)
            self.exit(bool(differences), differences, shut_off=shut_off)
        if not shutil.which(NFT):
            self.fail(f"{NFT} is missing; package nftables has it")
        _, refused = listing_of(text)
        if refused:
            self.fail(f"nft rejects the rules; nothing was changed: {refused}")
        tried = run(NFT, "--check", "--file", "-", text=text)
        if tried.returncode != 0:
            self.fail(f"the kernel rejects the rules; nothing was changed: {tried.stderr}")
        self.arm()
        self.write(self.path, text)
        self.write(self.unit_path, unit_text)
        self.systemctl("daemon-reload")
        self.systemctl("enable", self.unit)
        # Reloaded where it is active: nft replaces the table in one transaction.
        self.systemctl("reload-or-restart", self.unit)
        left = self.differences(text, unit_text)
        if left:
            self.fail(f"the rules are not in force: {', '.join(left)}")
        self.exit(True, differences, armed=True)

    def differences(self, text: str, unit_text: str) -> list[str]:
        """In what this node differs."""
        if not shutil.which(NFT):
            return ["nftables is not installed"]
        found = []
        if not same_file(self.path, text):
            found.append(f"{self.path} has other rules")
        if not same_file(self.unit_path, unit_text):
            found.append(f"{self.unit_path} is another one")
        elif run("systemctl", "is-enabled", "--quiet", self.unit).returncode != 0:
            found.append(f"{self.unit} is not enabled")
        elif not is_active(self.unit):
            found.append(f"{self.unit} is not active")
        wanted, _ = listing_of(text)
        if listing() != wanted:
            found.append(f"the kernel has other rules in table {TABLE}")
        if not self.armed and is_active(f"{ROLLBACK}.timer"):
            found.append("the rules of an earlier run, which broke off, are about to be taken back")
        return found

    def arm(self) -> None:
        """Have what is there now come back, unless somebody says that all is well."""
        unproved = is_active(f"{ROLLBACK}.timer")
        run("systemctl", "stop", f"{ROLLBACK}.timer")
        # It may have run out just now: what it does takes a moment.
        for _ in range(100):
            if not is_active(f"{ROLLBACK}.service"):
                break
            time.sleep(0.1)
        # What is there now has not proved itself where the timer of an earlier run was on; then
        # what that run saved comes back.
        if not (unproved and PREVIOUS.exists()):
            PREVIOUS.write_text(f"table {TABLE}\ndelete table {TABLE}\n{listing()}")
            PREVIOUS_FILE.unlink(missing_ok=True)
            if self.path.exists():
                shutil.copyfile(self.path, PREVIOUS_FILE)
        back = f"{NFT} --file {PREVIOUS}; rm -f {self.path}"
        if PREVIOUS_FILE.exists():
            back += f"; mv {PREVIOUS_FILE} {self.path}"
        back += f"; rm -f {PREVIOUS}"
        done = run(
            *("systemd-run", "--quiet", "--collect", f"--unit={ROLLBACK}"),
            *(
                "--timer-property=AccuracySec=1s",
                f"--on-active={self.module.params['rollback_seconds']}",
            ),
            *("sh", "-c", back),
        )
        if done.returncode != 0:
            self.fail(f"nothing was changed, systemd-run: {done.stderr.strip()}")
        self.armed = True

    def write(self, path: Path, text: str) -> None:
        """Replace a file at once."""
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o644)
        self.module.atomic_move(str(fresh), str(path))
        os.chown(path, 0, 0)
        path.chmod(0o644)

    def absent(self) -> None:
        """Take table, unit and file away."""
        differences = [str(path) for path in (self.path, self.unit_path) if path.exists()]
        if shutil.which(NFT) and listing():
            differences.append(f"table {TABLE}")
        if self.module.check_mode or not differences:
            self.exit(bool(differences), differences)
        run("systemctl", "stop", f"{ROLLBACK}.timer")  # which may not run
        if self.unit_path.exists():
            self.systemctl("disable", "--now", self.unit)
        if shutil.which(NFT) and listing():
            done = run(NFT, "delete", "table", *TABLE.split())
            if done.returncode != 0:
                self.fail(f"table {TABLE} stays: {done.stderr.strip()}")
        for path in (self.path, self.unit_path, PREVIOUS, PREVIOUS_FILE):
            path.unlink(missing_ok=True)
        # What links of [Install] were in, where nothing else is
        for target in ("nftables.service.wants", "sysinit.target.wants"):
            folder = UNITS / target
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        self.systemctl("daemon-reload")
        self.exit(True, differences)


def main() -> None:
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "path", "required": True},
            "unit": {"type": "str", "required": True},
            "nodes": strings,
            "node_ports": strings,
            "node_udp_ports": strings,
            "ssh_ports": strings,
            "ssh_sources": strings,
            "open": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "ports": {"type": "list", "elements": "str", "required": True},
                    "protocol": {"type": "str", "choices": ["tcp", "udp"], "default": "tcp"},
                    "sources": strings,
                },
            },
            "rollback_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    node = Node(module)
    if module.params["state"] == "present":
        node.present()
    node.absent()


if __name__ == "__main__":
    main()
