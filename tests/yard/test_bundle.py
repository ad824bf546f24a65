"""`yard bundle`: what is handed to the playbook, and what is refused before it runs.

`unbundle.sh`: what it wrote is unpacked, checked and remembered, or refused.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from yard_command import REPOSITORY, Yard, made

RELEASE = next(
    line.partition("=")[2].strip()
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    if line.startswith("VERSION_CODENAME=")
)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--releases", "trixie,potato"), "RELEASES=potato: not one of bookworm, trixie"),
        (("--releases", ","), "RELEASES=: names none of bookworm, trixie"),
        (("--datasets", "cifra10"), "cifra10"),
        (("--out", "not/there/bundle.tar"), "must be a file in an existing folder"),
        (("--out", "."), "must be a file in an existing folder"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_touched(
    fresh: Yard, arguments: tuple[str, ...], said: str
) -> None:
    done = fresh("bundle", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (fresh.root / ".trainyard").exists()


def test_the_playbook_is_told_what_was_asked_for(fresh: Yard) -> None:
    arguments = ("--releases", "trixie", "--datasets", "none", "--out", "here.tar")
    done = fresh("bundle", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (fresh.root / "here.tar").read_text() == "trixie, \n"
    assert "here.tar is written, 9 bytes" in done.stdout
    assert "BUNDLE=here.tar" in done.stdout


@pytest.mark.process
def test_make_hands_on_what_is_typed() -> None:
    asked = made("bundle", "RELEASES=trixie", "DATASETS=cifar10,synthetic", "OUT=a b.tar")
    assert "bundle --releases='trixie' --datasets='cifar10,synthetic' --out='a b.tar'" in asked
    used = made("setup", "BUNDLE=/media/stick/a b.tar")
    assert "./unbundle.sh '/media/stick/a b.tar'" in used
    assert "unbundle.sh" not in made("setup")


class Site:
    """A checkout of its own, and a bundle as `make bundle` writes them, in small."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.root.mkdir()
        shutil.copy2(REPOSITORY / "unbundle.sh", self.root)
        self.content = folder / "content"
        self.archive = folder / "bundle.tar"
        self.bundle = self.root / ".trainyard" / "bundle"
        self.write("bundle.json", '{\n    "datasets": [],\n    "format": 1,\n    "images": []\n}\n')
        self.write("wheels/a.whl", "a wheel")
        self.write("data/cifar10/dataset.json", "from the bundle")
        self.write(f"debian/{RELEASE}/Packages", "")

    def write(self, name: str, text: str) -> None:
        path = self.content / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def pack(self, sums: bool = True) -> None:
        """Write the archive, with checksums of what is there now."""
        if sums:
            command = "find . -type f ! -name SHA256SUMS -exec sha256sum {} + > SHA256SUMS"
            subprocess.run(command, shell=True, cwd=self.content, check=True)
        subprocess.run(["tar", "-cf", self.archive, "-C", self.content, "."], check=True)

    def unpack(self, archive: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "unbundle.sh", archive or str(self.archive)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def left(self) -> list[str]:
        """What of a bundle is in the checkout's folder, temporary folders too."""
        return sorted(path.name for path in self.root.glob(".trainyard/*bundle*"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.process
def test_it_is_unpacked_and_apt_and_data_sets_use_it(site: Site) -> None:
    site.pack()
    done = site.unpack()
    assert done.returncode == 0, done.stderr
    assert (site.bundle / "wheels/a.whl").read_text() == "a wheel"
    assert (site.root / ".trainyard/data/cifar10/dataset.json").read_text() == "from the bundle"
    # The real apt, told so by its environment, has these packages alone as its source.
    asked = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"],
        env={**os.environ, "APT_CONFIG": str(site.bundle / "apt/apt.conf")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(asked.stdout.splitlines()) == {f"file:{site.bundle}/debian/{RELEASE}/"}


@pytest.mark.process
def test_the_same_archive_is_not_unpacked_again_and_another_one_is(site: Site) -> None:
    site.pack()
    assert "Unpacking" in site.unpack().stderr
    (site.bundle / "mark").touch()
    assert site.unpack().stderr == ""
    assert (site.bundle / "mark").exists()
    site.write("wheels/b.whl", "another wheel")
    site.pack()
    assert "Unpacking" in site.unpack().stderr
    assert (site.bundle / "wheels/b.whl").exists()
    assert not (site.bundle / "mark").exists()


@pytest.mark.process
def test_what_apt_does_not_take_is_unpacked_again(site: Site) -> None:
    site.write(f"debian/{RELEASE}/Packages", "Package\n")
    site.pack()
    done = site.unpack()
    assert done.returncode == 1
    assert "apt does not take the packages" in done.stderr.splitlines()[-1]
    assert "Unpacking" in site.unpack().stderr


@pytest.mark.process
def test_none_lets_go_of_it_and_not_of_data_sets(site: Site) -> None:
    site.pack()
    site.unpack()
    assert site.unpack("none").returncode == 0
    assert site.left() == []
    assert (site.root / ".trainyard/data/cifar10").is_dir()


@pytest.mark.process
def test_a_data_set_that_is_there_stays(site: Site) -> None:
    own = site.root / ".trainyard/data/cifar10/dataset.json"
    own.parent.mkdir(parents=True)
    own.write_text("of this machine")
    site.pack()
    assert site.unpack().returncode == 0
    assert own.read_text() == "of this machine"


@pytest.mark.process
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("changed", "are not what make bundle wrote"),
        ("missing", "are not what make bundle wrote"),
        ("no_sums", "is not an archive of make bundle"),
        ("broken_off", "is not a whole archive"),
        ("format", "was made by another version of Trainyard"),
        ("not_there", "there is no file"),
    ],
)
def test_what_is_no_whole_bundle_is_refused_and_the_earlier_one_stays(
    site: Site, damage: str, said: str
) -> None:
    site.pack()
    site.unpack()
    if damage == "changed":
        site.write("wheels/a.whl", "b wheel")
        site.pack(sums=False)
    elif damage == "missing":
        (site.content / "wheels/a.whl").unlink()
        site.pack(sums=False)
    elif damage == "no_sums":
        (site.content / "SHA256SUMS").unlink()
        site.pack(sums=False)
    elif damage == "broken_off":
        site.write("wheels/b.whl", "b" * 100_000)
        site.pack()
        site.archive.write_bytes(site.archive.read_bytes()[:50_000])
    elif damage == "format":
        site.write("bundle.json", '{\n    "datasets": [],\n    "format": 2,\n    "images": []\n}\n')
        site.pack()
    else:
        site.archive.unlink()
    done = site.unpack()
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert site.left() == ["bundle"]
    assert (site.bundle / "wheels/a.whl").read_text() == "a wheel"


@pytest.mark.process
def test_a_machine_whose_release_it_has_not_is_told(site: Site) -> None:
    (site.content / f"debian/{RELEASE}").rename(site.content / "debian/potato")
    site.pack()
    done = site.unpack()
    assert done.returncode == 0, done.stderr
    assert f"no packages for {RELEASE}" in done.stderr
    assert not (site.bundle / "apt").exists()
