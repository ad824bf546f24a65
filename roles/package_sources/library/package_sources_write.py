#!/usr/bin/python
"""Ansible module: settings of apt, its sources, and certificates, as they are to be.

A part of the action package_sources. Has apt fetch its lists in the new way, and puts everything
back where it cannot.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.package_sources_apt import Proxies, failures, hidden, settings
from ansible.module_utils.package_sources_bundle import (
    LIST,
    BundleError,
    identity,
    read_list,
    sha256,
    sizes,
)
from ansible.module_utils.package_sources_certificates import bodies, files
from ansible.module_utils.package_sources_lines import (
    Mirrors,
    addresses,
    archive_of,
    with_mirrors,
)

SETTINGS = "etc/apt/apt.conf.d/99trainyard-package-sources"
SOURCES = "etc/apt/sources.list"
SOURCES_PARTS = "etc/apt/sources.list.d"
CERTIFICATES = "usr/local/share/ca-certificates"
TRUSTED = "etc/ssl/certs/ca-certificates.crt"
UPDATE_CERTIFICATES = "usr/sbin/update-ca-certificates"
STATE = "var/lib/trainyard/package_sources"
PACKAGES_RECORD = "var/lib/trainyard/packages/package_sources"
# By either of them Ansible tells the age of the lists.
LISTS = ("var/lib/apt/lists", "var/lib/apt/periodic/update-success-stamp")
# Seconds that another apt may hold the lists
LOCK_TIMEOUT = 120


@dataclass(frozen=True)
class Wish:
    """How the machine is to reach packages; what is empty is left as it is."""

    proxies: Proxies = field(default_factory=Proxies)
    mirrors: Mirrors = field(default_factory=Mirrors)
    certificates: str = ""
    bundle: str = ""
    secret: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "Wish":
        """Read the module's parameters."""

        def address(kind: str) -> str:
            proxy: str = parameters[f"{kind}_proxy"]
            login = parameters[f"{kind}_login"]
            return proxy.replace("://", f"://{login}@", 1) if login else proxy

        return cls(
            Proxies(address("http"), address("https"), tuple(parameters["no_proxy"])),
            Mirrors(parameters["mirror"], parameters["security_mirror"]),
            parameters["certificates"],
            parameters["bundle"],
            secret=bool(parameters["http_login"] or parameters["https_login"]),
        )

    @property
    def nothing(self) -> bool:
        """Whether the machine is left as it is in all."""
        return self == Wish(Proxies(no_proxy=self.proxies.no_proxy))


@dataclass(frozen=True)
class Change:
    """A file that is to be another one; None is one that is not there.

    Attributes:
        mode: of a file that the role makes; one of others keeps its own.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int | None = None

    @property
    def differs(self) -> bool:
        """Whether there is something to do."""
        if self.before != self.after or self.after is None or self.mode is None:
            return self.before != self.after
        return self.path.stat().st_mode & 0o777 != self.mode

    def apply(self) -> None:
        """Write or remove the file, at once."""
        if self.after is None:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".trainyard-", dir=self.path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(self.after)
        if self.mode is not None or not self.path.exists():
            os.chmod(temporary, self.mode or 0o644)
        else:
            status = self.path.stat()
            os.chown(temporary, status.st_uid, status.st_gid)
            os.chmod(temporary, status.st_mode & 0o7777)
        Path(temporary).replace(self.path)

    def undo(self) -> None:
        """Put back what was there. A password in it is root's, whatever was to come after it."""
        text = (self.before or b"").decode("utf-8", "replace")
        mode = 0o600 if self.mode is not None and hidden(text) != text else self.mode
        Change(self.path, self.after, self.before, mode).apply()

    def shown(self) -> dict[str, str]:
        """The difference as Ansible shows it, without passwords."""
        before, after = (
            hidden((text or b"").decode("utf-8", "replace")) for text in (self.before, self.after)
        )
        header = str(self.path)
        return {"before": before, "after": after, "before_header": header, "after_header": header}


class Machine:
    """The files of a machine below a directory, which is / but in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.state = root / STATE
        self.folder = self.state / "bundle"
        self.sources_list = self.state / "bundle.list"
        self.updates_certificates = (root / UPDATE_CERTIFICATES).exists()

    def sources(self) -> Iterator[Path]:
        """Yield the files that name apt's sources."""
        parts = self.root / SOURCES_PARTS
        found = [self.root / SOURCES, *sorted(parts.glob("*.list")), *parts.glob("*.sources")]
        for file in found:
            if file.is_file():
                yield file.resolve()

    def changes(self, wish: Wish) -> tuple[list[Change], list[str]]:
        """Compare the files with a wish.

        Returns:
            What differs, and the addresses that apt is to reach then: the distribution's, or those
            in their place.
        """
        compared, reached, hosts = [], [], set()
        for file in self.sources():
            before = file.read_bytes()
            text, deb822 = before.decode("utf-8", "surrogateescape"), file.suffix == ".sources"
            plain = addresses(with_mirrors(text, deb822, Mirrors()), deb822)
            after = with_mirrors(text, deb822, wish.mirrors)
            compared.append(Change(file, before, after.encode("utf-8", "surrogateescape")))
            # apt names a file with one slash, however many its list has.
            reached += [
                re.sub("^mirror[+]file:/+", "mirror+file:/", wish.mirrors.replacement(uri))
                for uri in plain
                if archive_of(uri)
            ]
            hosts |= {urlsplit(uri).hostname or "" for uri in addresses(after, deb822)}
        if wish.bundle:
            reached = [f"file:{self.folder}"]
        compared += self._certificates(wish)
        ahead = str(self.state / "ca.pem") if self._trusts_ahead(wish) else ""
        text = settings(
            wish.proxies, hosts - {""}, ahead, str(self.sources_list) if wish.bundle else ""
        )
        # Passwords are root's: apt hands what it needs of its settings to the process that fetches.
        # With 0644 everybody's apt-cache reads the file, and warns otherwise.
        compared.append(self._own(self.root / SETTINGS, text, 0o600 if wish.secret else 0o644))
        line = f"deb [trusted=yes] file:{self.folder} ./\n" if wish.bundle else ""
        compared.append(self._own(self.sources_list, line))
        compared.append(
            self._own(
                self.state / "ca.pem", "".join(files(wish.certificates).values()) * bool(ahead)
            )
        )
        return [change for change in compared if change.differs], reached

    def _own(self, path: Path, text: str, mode: int = 0o644) -> Change:
        """A file of the role, which is not there where its text is empty."""
        before = path.read_bytes() if path.is_file() else None
        return Change(path, before, text.encode() or None, mode)

    def _certificates(self, wish: Wish) -> list[Change]:
        """The certificates that the role put here, and those that it is to."""
        folder = self.root / CERTIFICATES
        wanted = files(wish.certificates)
        there = {file.name for file in folder.glob("trainyard-*.crt")}
        return [
            self._own(folder / name, wanted.get(name, "")) for name in sorted({*there, *wanted})
        ]

    def _trusts_ahead(self, wish: Wish) -> bool:
        """Whether apt is to be told whom to trust, because no package tells all programs."""
        return bool(wish.certificates) and not self.updates_certificates

    def untrusted(self, wish: Wish) -> bool:
        """Whether what programs trust lacks a certificate."""
        if not wish.certificates or not self.updates_certificates:
            return False
        store = self.root / TRUSTED
        trusted = set(bodies(store.read_text("utf-8", "replace"))) if store.is_file() else set()
        return not set(bodies(wish.certificates)) <= trusted

    def bundle_lacks(self, wish: Wish) -> bool:
        """Whether files of the repository are missing."""
        if not wish.bundle:
            return False
        if identity(self.folder) != wish.bundle:
            return True
        there = sizes(self.folder)
        packages = read_list((self.folder / LIST).read_text("utf-8"))
        return any(there.get(package.name) != package.size for package in packages)

    def held_files(self) -> dict[str, str]:
        """What is there of a repository, each file with its hash."""
        return {name: sha256(self.folder / name) for name in sizes(self.folder)}

    def take_in(self, incoming: Path) -> None:
        """Complete the repository with what was sent.

        Raises:
            BundleError: a file is missing, or not the one that the list means.
        """
        text = (incoming / LIST).read_text("utf-8")
        packages = read_list(text)
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for package in packages:
            sent, place = incoming / package.name, self.folder / package.name
            if sent.is_file():
                # Moved across file systems, it is not there before it is whole.
                shutil.move(sent, self.folder / ".incoming")
                (self.folder / ".incoming").replace(place)
                os.chown(place, 0, 0)
                place.chmod(0o644)
            if not place.is_file() or sha256(place) != package.sha256:
                place.unlink(missing_ok=True)
                raise BundleError(f"{package.name} is not the file that {LIST} means")
        for name in set(sizes(self.folder)) - {package.name for package in packages}:
            (self.folder / name).unlink()
        # Last: by it the next run sees that all is there.
        Change(self.folder / LIST, None, text.encode("utf-8"), 0o644).apply()

    def outdate(self) -> None:
        """Have the lists fetched before the next package is installed."""
        for name in LISTS:
            if (self.root / name).exists():
                os.utime(self.root / name, (0, 0))

    def tidy(self) -> None:
        """Remove what is not used any more."""
        # Apt's list goes by the wish, and is back with the old settings where those come back.
        if self.folder.exists() and not self.sources_list.is_file():
            shutil.rmtree(self.folder)
        for folder in (self.state, self.state.parent, self.root / CERTIFICATES):
            # The last is of the package that update-ca-certificates comes with.
            ours = folder != self.root / CERTIFICATES or not self.updates_certificates
            if ours and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose status the caller looks at; its words are read, so they are English."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
    )


def fetch_lists() -> subprocess.CompletedProcess[str]:
    """Have apt fetch its lists, when no other apt does."""
    give_up = time.monotonic() + LOCK_TIMEOUT
    while True:
        done = run("apt-get", "update", "--option", "Acquire::Retries=1")
        if "Could not get lock" not in done.stdout or time.monotonic() > give_up:
            return done
        time.sleep(2)


def update_certificates() -> None:
    """Have programs trust what is in the directory of certificates.

    Raises:
        RuntimeError: that failed.
    """
    # Anew: else the links to a certificate that is gone stay.
    done = run(f"/{UPDATE_CERTIFICATES}", "--fresh")
    if done.returncode != 0:
        raise RuntimeError(f"update-ca-certificates: {done.stdout.strip()}")


def bring_about(machine: Machine, wish: Wish, changes: list[Change], reached: list[str]) -> str:
    """Change the machine.

    Returns:
        Why it is as it was before; nothing where all is well.
    """
    certificates = any(change.path.suffix == ".crt" for change in changes)
    try:
        for change in changes:
            change.apply()
        if machine.updates_certificates and (certificates or machine.untrusted(wish)):
            update_certificates()
    except (OSError, RuntimeError) as error:
        why = str(error)
    else:
        if wish.nothing:
            machine.outdate()
            return ""
        done = fetch_lists()
        said = failures(done.stdout, reached)
        if not said and (done.returncode == 0 or "\nE: " in done.stdout):
            # What else did not work is of other sources, and says so when somebody needs them.
            return ""
        # The first ones tell; the others are mostly of the same.
        why = "; ".join(said[:2]) or done.stdout.strip()
    for change in reversed(changes):
        change.undo()
    if machine.updates_certificates and certificates:
        update_certificates()
    machine.outdate()
    machine.tidy()
    shown: str = hidden(why)
    return shown


def main() -> None:
    text = {"type": "str", "default": ""}
    module = AnsibleModule(
        argument_spec={
            # Addresses without what to log in with, and that as it stands in an address
            "http_proxy": text,
            "http_login": {**text, "no_log": True},
            "https_proxy": text,
            "https_login": {**text, "no_log": True},
            "no_proxy": {"type": "list", "elements": "str", "default": []},
            "mirror": text,
            "security_mirror": text,
            "certificates": text,
            # Hash of the list of a repository, which then is all that apt uses; and a directory
            # with files of that repository that are new
            "bundle": text,
            "incoming": {"type": "path", "default": ""},
        },
        supports_check_mode=True,
    )
    wish, machine = Wish.of(module.params), Machine()
    incoming = module.params["incoming"]
    try:
        if incoming:
            machine.take_in(Path(incoming))
        lacks = machine.bundle_lacks(wish)
    except (BundleError, OSError) as error:
        module.fail_json(msg=f"package_sources: {error}. apt uses what it used before.")
    changes, reached = machine.changes(wish)
    left = not wish.bundle and machine.folder.exists()
    changed = bool(changes or lacks or left or incoming) or machine.untrusted(wish)
    result: dict[str, Any] = {
        "changed": changed,
        "diff": [change.shown() for change in changes],
        "lacks_bundle": lacks,
        "held_files": machine.held_files() if lacks else {},
    }
    if changed and not lacks and not module.check_mode:
        if why := bring_about(machine, wish, changes, reached):
            module.fail_json(
                msg="package_sources: apt cannot fetch packages with the new settings, so the "
                f"old ones are back: {why.rstrip('.')}. Correct proxy, mirror and CA in "
                "package_sources_… (or closed_network_…, from which those come)."
            )
        machine.tidy()
    module.exit_json(
        **result,
        ca_certificates_needed=bool(wish.certificates) and not machine.updates_certificates,
        packages=(machine.root / PACKAGES_RECORD).exists(),
    )


if __name__ == "__main__":
    main()
