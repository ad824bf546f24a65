"""Role package_sources: apt's sources with mirrors in them and back, its settings, certificates,
and a repository that comes in parts."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ansible.module_utils.package_sources_apt import Proxies, address_problem, failures, hidden
from ansible.module_utils.package_sources_apt import settings as apt_settings
from ansible.module_utils.package_sources_bundle import BundleError, identity, read_list
from ansible.module_utils.package_sources_certificates import CertificateError, bodies, check, files
from ansible.module_utils.package_sources_lines import Mirrors, addresses, archive_of, with_mirrors
from role_files import ROLES, action_plugin

MIRRORS = Mirrors("https://mirror.site/debian/", "https://mirror.site/security")
ONE_LINE = """\
# deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian/ bookworm main contrib # ours
deb-src [arch=amd64 signed-by=/k.gpg] http://ftp.de.debian.org/debian bookworm main
deb [trusted=yes] https://download.example.org/debian bookworm stable
deb cdrom:[Debian 12]/ bookworm main
deb\thttp://security.debian.org/debian-security bookworm-security main
deb http://security.debian.org/ bookworm-security main"""  # without an end of line
DEB822 = """\
Types: deb deb-src
# http://deb.debian.org/debian is named here, too
URIs: http://deb.debian.org/debian
 http://deb.debian.org/debian-security
Suites: trixie trixie-updates
Components: main

Types: deb
URIs: https://packages.example.org/debian
X-Note: http://deb.debian.org/debian
Suites: trixie
"""
UBUNTU = """\
deb http://de.archive.ubuntu.com/ubuntu noble main
deb http://eu-west-1.ec2.archive.ubuntu.com/ubuntu noble main
deb http://security.ubuntu.com/ubuntu noble-security main
deb http://ports.ubuntu.com/ubuntu-ports noble main
deb https://ppa.launchpadcontent.net/x/y/ubuntu noble main
"""


def load(name: str) -> ModuleType:
    """Import a module of the role from its file."""
    path = ROLES / "package_sources/library" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up there
    specification.loader.exec_module(module)
    return module


write = load("package_sources_write")
action = action_plugin("package_sources", "package_sources")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Certificates: of an authority, of one that ended, of a server, and the first one's key."""
    folder = tmp_path_factory.mktemp("pem")

    def make(name: str, *options: str) -> str:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
                *("-keyout", f"{name}.key", "-out", f"{name}.pem", *options),
            ],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        return (folder / f"{name}.pem").read_text()

    return {
        "authority": make("authority", "-days", "30"),
        "other": make("other", "-days", "30"),
        "server": make("server", "-addext", "basicConstraints=critical,CA:FALSE"),
        "key": (folder / "authority.key").read_text(),
    }


def machine(root: Path) -> Path:
    """A machine with sources of all three kinds."""
    parts = root / "etc/apt/sources.list.d"
    parts.mkdir(parents=True)
    (root / "etc/apt/sources.list").write_text(ONE_LINE)
    (parts / "ubuntu.list").write_text(UBUNTU)
    (parts / "debian.sources").write_text(DEB822)
    (parts / "other.sources").write_bytes(b"# \xe9\nURIs: https://other.example.org/debian\n")
    (parts / "debian.list.save").write_text("deb http://deb.debian.org/debian old main\n")
    (parts / "ubuntu.list").chmod(0o640)
    return root


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and mode of each file."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode)
        for path in root.rglob("*")
        if path.is_file()
    }


def apply(root: Path, wish: object) -> list[str]:
    """Bring a wish about, and return the names of the files that it changed."""
    on = write.Machine(root)
    changes, _ = on.changes(wish)
    for change in changes:
        change.apply()
    on.tidy()
    return sorted(change.path.name for change in changes)


@pytest.mark.parametrize(
    ("text", "deb822"), [(ONE_LINE, False), (DEB822, True), (UBUNTU, False)], ids="odu"
)
def test_mirrors_and_back(text: str, deb822: bool) -> None:
    there = with_mirrors(text, deb822, MIRRORS)
    assert there != text
    assert with_mirrors(there, deb822, MIRRORS) == there
    other = with_mirrors(there, deb822, Mirrors("http://10.0.0.1/d"))
    assert other == with_mirrors(text, deb822, Mirrors("http://10.0.0.1/d"))
    assert with_mirrors(there, deb822, Mirrors()) == text
    # What somebody wrote into the mirror's line is made good, and added lines stay.
    spoilt = there.replace("mirror.site", "elsewhere.example.org") + "\n# added\n"
    assert with_mirrors(spoilt, deb822, MIRRORS) == there + "\n# added\n"


def test_which_addresses_are_replaced() -> None:
    assert addresses(with_mirrors(ONE_LINE, False, MIRRORS), False) == [
        "https://mirror.site/debian",
        "https://mirror.site/debian",
        "https://download.example.org/debian",
        "cdrom:[Debian",
        "https://mirror.site/security",
        "https://mirror.site/security",
    ]
    assert addresses(with_mirrors(DEB822, True, MIRRORS), True) == [
        "https://mirror.site/debian",
        "https://mirror.site/security",
        "https://packages.example.org/debian",
    ]
    assert addresses(with_mirrors(UBUNTU, False, Mirrors("http://m/ubuntu")), False) == [
        "http://m/ubuntu",
        "http://m/ubuntu",
        "http://security.ubuntu.com/ubuntu",
        "http://m/ubuntu",
        "https://ppa.launchpadcontent.net/x/y/ubuntu",
    ]
    assert "# ours\n" in with_mirrors(ONE_LINE, False, MIRRORS)
    assert "deb-src [arch=amd64 signed-by=/k.gpg] https://m" in with_mirrors(
        ONE_LINE, False, MIRRORS
    )


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("http://deb.debian.org/debian-security/", "security"),
        ("mirror+file:///etc/apt/mirrors/debian.list", "archive"),
        ("https://cdn-aws.deb.debian.org/debian", "archive"),
        ("http://deb.debian.org/debian-debug", ""),
        ("http://deb.debian.org.example.org/debian", ""),
        ("http://example.org/http://deb.debian.org/debian", ""),
        ("file:/srv/debian", ""),
    ],
)
def test_archives(uri: str, kind: str) -> None:
    assert archive_of(uri) == kind


@pytest.mark.process
def test_a_machine_there_and_back(tmp_path: Path, pem: dict[str, str]) -> None:
    root = machine(tmp_path)
    before = contents(root)
    wish = write.Wish(
        Proxies("http://u:p@proxy:3128", "", ("mirror.site",)), MIRRORS, pem["authority"], "", True
    )
    [certificate] = files(pem["authority"])
    assert apply(root, wish) == [
        *("99trainyard-package-sources", "ca.pem", "debian.sources"),
        *("sources.list", certificate, "ubuntu.list"),
    ]
    assert apply(root, wish) == []
    after = contents(root)
    conf, mode = after["etc/apt/apt.conf.d/99trainyard-package-sources"]
    assert conf.decode().splitlines()[1:] == [
        'Acquire::http::Proxy "http://u:p@proxy:3128";',
        'Acquire::https::Proxy "DIRECT";',
        'Acquire::http::Proxy::mirror.site "DIRECT";',
        'Acquire::https::Proxy::mirror.site "DIRECT";',
        # No package is there that tells all programs whom to trust.
        f'Acquire::https::CaInfo "{root}/var/lib/trainyard/package_sources/ca.pem";',
    ]
    assert mode & 0o777 == 0o600
    assert after["etc/apt/sources.list.d/ubuntu.list"][1] & 0o777 == 0o640
    for other in ("debian.list.save", "other.sources"):
        name = f"etc/apt/sources.list.d/{other}"
        assert after[name] == before[name]
    # Somebody's chmod is noticed.
    (root / "etc/apt/apt.conf.d/99trainyard-package-sources").chmod(0o644)
    assert apply(root, wish) == ["99trainyard-package-sources"]
    # The package has come.
    (root / "usr/sbin").mkdir()
    (root / "usr/sbin/update-ca-certificates").touch()
    assert apply(root, wish) == ["99trainyard-package-sources", "ca.pem"]
    (root / "usr/sbin/update-ca-certificates").unlink()

    assert len(apply(root, write.Wish())) == 5
    assert contents(root) == before
    assert not (root / "var/lib/trainyard").exists()
    assert not (root / "usr/local/share/ca-certificates").exists()


@pytest.mark.process
def test_a_certificate_that_programs_do_not_trust_is_noticed(
    tmp_path: Path, pem: dict[str, str]
) -> None:
    wish = write.Wish(certificates=f"{pem['authority']}{pem['other']}")
    assert not write.Machine(tmp_path).untrusted(wish)  # nothing tells all programs there
    for name in ("usr/sbin/update-ca-certificates", "etc/ssl/certs/ca-certificates.crt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(pem["authority"])
    on = write.Machine(tmp_path)
    assert on.untrusted(wish)
    assert not on.untrusted(write.Wish(certificates=pem["authority"]))
    assert not on.untrusted(write.Wish())
    (tmp_path / "etc/ssl/certs/ca-certificates.crt").unlink()
    assert on.untrusted(write.Wish(certificates=pem["authority"]))


def test_what_differs_is_shown_without_passwords(tmp_path: Path) -> None:
    wish = write.Wish(Proxies("http://u:secret@proxy:3128"), secret=True)
    [change] = write.Machine(machine(tmp_path)).changes(wish)[0]
    assert "http://…@proxy:3128" in change.shown()["after"]
    assert "secret" not in str(change.shown())


def test_undo_puts_back_bytes_and_absence(tmp_path: Path) -> None:
    root = machine(tmp_path)
    before = contents(root)
    changes, _ = write.Machine(root).changes(write.Wish(Proxies("http://p:1"), MIRRORS))
    for change in changes:
        change.apply()
    assert contents(root) != before
    for change in reversed(changes):
        change.undo()
    assert contents(root) == before


def test_undo_keeps_a_password_for_root(tmp_path: Path) -> None:
    root = machine(tmp_path)
    apply(root, write.Wish(Proxies("http://u:secret@proxy:3128"), secret=True))
    before = contents(root)
    changes, _ = write.Machine(root).changes(write.Wish(Proxies("http://proxy:312")))
    for change in changes:
        change.apply()
    for change in reversed(changes):
        change.undo()
    assert contents(root) == before


def test_addresses_that_apt_is_to_reach(tmp_path: Path) -> None:
    root = machine(tmp_path)
    _, reached = write.Machine(root).changes(write.Wish(mirrors=MIRRORS))
    assert set(reached) == {"https://mirror.site/debian", "https://mirror.site/security"}
    _, reached = write.Machine(root).changes(write.Wish(bundle="1234"))
    assert reached == [f"file:{root}/var/lib/trainyard/package_sources/bundle"]
    # apt's words have one slash there.
    (root / "etc/apt/sources.list").write_text(
        "deb mirror+file:///etc/apt/mirrors/debian.list bookworm main\n"
    )
    _, reached = write.Machine(root).changes(write.Wish(Proxies("http://p:1")))
    assert "mirror+file:/etc/apt/mirrors/debian.list" in reached


@pytest.mark.parametrize(
    ("entry", "host", "passes"),
    [
        ("mirror.site", "mirror.site", True),
        ("mirror.site", "deb.mirror.site", True),
        (".site", "mirror.site", True),
        ("*.site", "mirror.site", True),
        ("site", "mirrorsite", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "mirror.site", False),
        ("*", "anything", True),
    ],
)
def test_no_proxy(entry: str, host: str, passes: bool) -> None:
    assert Proxies(no_proxy=(entry,)).passes_by(host) is passes


def test_settings_of_nothing_are_nothing() -> None:
    assert apt_settings(Proxies(no_proxy=("a",)), ["a"]) == ""


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("http://proxy:3128", True),
        ("https://user:pass@proxy.example.org:3128/", True),
        ("proxy:3128", False),
        ("http://", False),
        ("http://proxy:3128 ", False),
        ('http://p";Dir "/', False),
        ("ftp://mirror/debian", False),
    ],
)
def test_addresses(address: str, good: bool) -> None:
    assert (address_problem(address) == "") is good


def test_passwords_are_hidden_everywhere() -> None:
    assert hidden("http://u:p@ss@h:1/") == "http://…@h:1/"
    assert hidden("a http://u:p@h/x https://q@h2 http://h3/a@b") == (
        "a http://…@h/x https://…@h2 http://h3/a@b"
    )


def test_what_apt_did_not_reach() -> None:
    # As apt 3.0 and 2.6 wrote it
    output = (
        "Err:1 http://m/debian trixie InRelease\n"
        "W: Failed to fetch http://m/debian/dists/trixie/InRelease  Could not connect to m:80\n"
        "W: Failed to fetch https://other.org/x/InRelease  Could not resolve 'other.org'\n"
        "E: The repository 'http://m/debian trixie Release' does not have a Release file.\n"
        "E: The repository 'http://other.org/x y Release' does not have a Release file.\n"
        "E: Some index files failed to download. They have been ignored, or old ones used.\n"
        "W: http://m/debian/dists/trixie/InRelease: Key is stored in legacy keyring\n"
    )
    assert failures(output, ["http://m/debian"]) == [
        "http://m/debian/dists/trixie/InRelease Could not connect to m:80",
        "The repository 'http://m/debian trixie Release' does not have a Release file.",
    ]
    assert failures(output, ["https://m/debian"]) == []
    assert failures("E: Could not get lock /var/lib/apt/lists/lock.\n", []) == [
        "Could not get lock /var/lib/apt/lists/lock."
    ]


@pytest.mark.process
def test_certificates(pem: dict[str, str]) -> None:
    both = f"subject=CN=authority\n{pem['authority']}\n{pem['other']}"
    check(both)
    assert sorted(files(both)) == sorted([*files(pem["authority"]), *files(pem["other"])])
    assert bodies("".join(files(both).values())) == bodies(both)


@pytest.mark.process
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "no certificate in it"),
        (["authority", "key"], "a private key in it"),
        (["authority", "server"], "not of an authority"),
    ],
)
def test_what_is_no_certificate(pem: dict[str, str], parts: list[str], said: str) -> None:
    with pytest.raises(CertificateError, match=said):
        check("".join(pem[part] for part in parts))


@pytest.mark.process
def test_certificates_that_are_spoilt_or_old(pem: dict[str, str]) -> None:
    spoilt = pem["authority"].replace("MII", "MIX", 1)
    assert spoilt != pem["authority"]
    with pytest.raises(CertificateError, match=r"cannot be read|not of an authority"):
        check(spoilt)
    with pytest.raises(CertificateError, match="ended on"):
        check(pem["authority"], now=4e9)


def bundle(folder: Path, **packages: bytes) -> Path:
    """A repository with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = []
    for name, content in packages.items():
        (folder / f"{name}.deb").write_bytes(content)
        stanzas.append(
            f"Package: {name}\nFilename: ./{name}.deb\nSize: {len(content)}\n"
            f"Description: something\n of several lines\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    (folder / "Packages").write_text("\n".join(stanzas))
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
def test_a_repository_comes_in_parts(tmp_path: Path) -> None:
    on = write.Machine(tmp_path / "root")
    first = bundle(tmp_path / "first", a=b"1", b=b"22")
    wish = write.Wish(bundle=identity(first))
    assert on.bundle_lacks(wish)
    on.take_in(shutil.copytree(first, tmp_path / "incoming"))
    assert not on.bundle_lacks(wish)
    # Of the next one, only what is new is sent. What nobody names goes.
    second = bundle(tmp_path / "second", b=b"22", c=b"333")
    wish = write.Wish(bundle=identity(second))
    assert on.bundle_lacks(wish)
    assert sorted(on.held_files()) == ["Packages", "a.deb", "b.deb"]
    (second / "b.deb").unlink()
    on.take_in(second)
    assert sorted(on.held_files()) == ["Packages", "b.deb", "c.deb"]
    assert not on.bundle_lacks(wish)
    (on.folder / "c.deb").write_bytes(b"")
    assert on.bundle_lacks(wish)
    on.tidy()
    assert not (tmp_path / "root/var/lib/trainyard").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
def test_settings_that_do_not_work_leave_the_bundle_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine(tmp_path / "root")
    on = write.Machine(root)
    repository = bundle(tmp_path / "bundle", a=b"1")
    on.take_in(shutil.copytree(repository, tmp_path / "incoming"))
    apply(root, write.Wish(bundle=identity(repository)))
    before = contents(root)
    failed = subprocess.CompletedProcess([], 100, "E: Failed to fetch http://mirror.invalid/debian")
    monkeypatch.setattr(write, "fetch_lists", lambda: failed)
    wish = write.Wish(mirrors=write.Mirrors("http://mirror.invalid/debian", ""))
    assert write.bring_about(on, wish, *on.changes(wish)) != ""
    assert contents(root) == before
    assert (on.folder / "a.deb").read_bytes() == b"1"
    # One that was never in use goes with the settings that did not work.
    apply(root, write.Wish())
    on.take_in(shutil.copytree(repository, tmp_path / "again"))
    wish = write.Wish(bundle=identity(repository))
    assert write.bring_about(on, wish, *on.changes(wish)) != ""
    assert not on.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
def test_a_package_that_was_changed_on_its_way(tmp_path: Path) -> None:
    on = write.Machine(tmp_path / "root")
    sent = bundle(tmp_path / "sent", a=b"1")
    (sent / "a.deb").write_bytes(b"2")
    wish = write.Wish(bundle=identity(sent))
    with pytest.raises(BundleError, match=r"a\.deb is not the file that Packages means"):
        on.take_in(sent)
    assert on.bundle_lacks(wish)


@pytest.mark.parametrize(
    ("stanza", "said"),
    [
        ("Filename: ../a.deb\nSize: 1\nSHA256: 0\n", "must be one beside it"),
        ("Filename: pool/a.deb\nSize: 1\nSHA256: 0\n", "must be one beside it"),
        ("Filename: a.deb\nSize: 1\n", "no SHA256 of a.deb"),
    ],
)
def test_lists_that_are_refused(stanza: str, said: str) -> None:
    with pytest.raises(BundleError, match=said):
        read_list(stanza)


def test_releases_of_a_bundle_are_named(tmp_path: Path) -> None:
    for release in ("trixie", "bookworm"):
        bundle(tmp_path / "debian" / release, a=b"1")
    assert action.repository(str(tmp_path), "trixie") == tmp_path / "debian/trixie"
    with pytest.raises(action.Refused, match="for release noble; it has bookworm, trixie"):
        action.repository(str(tmp_path), "noble")
    with pytest.raises(action.Refused, match="it has none"):
        action.repository(str(tmp_path / "debian"), "noble")


@pytest.mark.process
def test_login_is_apart(pem: dict[str, str], tmp_path: Path) -> None:
    assert action.split_login("http://u:p@proxy:3128/") == ("http://proxy:3128/", "u:p")
    assert action.split_login("http://proxy:3128") == ("http://proxy:3128", "")
    parameters = dict.fromkeys(
        ("http_login", "https_proxy", "https_login", "mirror", "security_mirror"), ""
    )
    wish = write.Wish.of(
        {
            **parameters,
            **{"http_proxy": "http://proxy:3128", "http_login": "u:p", "no_proxy": ["a"]},
            **{"certificates": "", "bundle": ""},
        }
    )
    assert wish.proxies.http == "http://u:p@proxy:3128"
    assert wish.secret
    assert not wish.nothing
    assert write.Wish(Proxies(no_proxy=("a",))).nothing
    with pytest.raises(action.Refused, match=r"ca\.pem on the control node: No such file"):
        action.read_certificates(str(tmp_path / "ca.pem"))
    (tmp_path / "ca.pem").write_text(pem["key"])
    with pytest.raises(action.Refused, match="private key"):
        action.read_certificates(str(tmp_path / "ca.pem"))
