"""A user's own data on the control node: fetched from servers of all kinds, and unpacked."""

import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from node.data import fetch as dataset_fetch
from node.data import source as dataset_source
from node.data.files import DataError

pytestmark = pytest.mark.process

FILES = {"train/a.bin": os.urandom(300_000), "train/b.txt": b"b\n", "labels.csv": b"1,2\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder."""
    folder = tmp_path / "faces"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache/.own"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("train/ann/1.JPEG", True), ("scan.png", False), ("train/1.npy", False)],
)
def test_it_is_told_whether_images_are_in_folders(
    name: str, is_one: bool, folder: Path, cache: Path
) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()
    assert dataset_source.have(str(folder), str(cache)).images is is_one


def contents(folder: str | Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def packed(folder: Path, suffix: str, inside: str = "") -> Path:
    """An archive of a folder; `inside` is the folder that it has at its top."""
    archive = folder.with_name(f"faces{suffix}")
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name in FILES:
                zipped.write(folder / name, Path(inside) / name)
        return archive
    command = ["tar", "--create", "--auto-compress", "--file", str(archive)]
    command += ["--transform", f"s,^\\.,{inside or '.'},", "--directory", str(folder), "."]
    subprocess.run(command, check=True)
    return archive


SUFFIXES = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".zip"]


@pytest.mark.parametrize("inside", ["", "faces-1.0"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_archive_is_unpacked_once_without_its_own_folder(
    suffix: str, inside: str, folder: Path, cache: Path
) -> None:
    if suffix == ".tar.zst" and shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    archive = packed(folder, suffix, inside)
    had = dataset_source.have(str(archive), str(cache))
    assert had.changed
    assert contents(had.folder) == FILES
    assert had.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    again = dataset_source.have(str(archive), str(cache), sha256=had.sha256)
    assert (again.folder, again.changed) == (had.folder, False)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("cut", [0.999, 0.5, 0])
def test_an_archive_that_is_cut_short_is_told_and_leaves_nothing(
    suffix: str, cut: float, folder: Path, cache: Path
) -> None:
    if suffix == ".tar.zst" and shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    archive = packed(folder, suffix)
    size = archive.stat().st_size
    if suffix == ".tar" and cut == 0.999:
        # Where tarfile itself sees no harm: between two members
        with tarfile.open(archive) as opened:
            size = opened.getmembers()[-1].offset
    else:
        size = int(size * cut)
    os.truncate(archive, size)
    with pytest.raises(DataError, match="is broken, or no archive of its name"):
        dataset_source.have(str(archive), str(cache))
    assert not list(cache.glob("*"))


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz", ".tar.xz"])
def test_an_archive_with_a_wrong_byte_is_told(suffix: str, folder: Path, cache: Path) -> None:
    archive = packed(folder, suffix)
    whole = bytearray(archive.read_bytes())
    whole[len(whole) // 2] ^= 1
    archive.write_bytes(whole)
    with pytest.raises(DataError, match="is broken, or no archive of its name"):
        dataset_source.have(str(archive), str(cache))
    assert not list(cache.glob("*"))


def tar_of(path: Path, **member: Any) -> None:
    info = tarfile.TarInfo()
    for name, value in member.items():
        setattr(info, name, value)
    content = b"planted"
    info.size = len(content) if info.isfile() else 0
    with tarfile.open(path, "w") as archive:
        archive.addfile(info, io.BytesIO(content))
        if not info.isdir():
            archive.addfile(tarfile.TarInfo("harmless"))


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside", "a/./../b"])
@pytest.mark.parametrize("suffix", [".tar", ".zip"])
def test_a_member_that_leads_out_is_refused(
    name: str, suffix: str, tmp_path: Path, cache: Path
) -> None:
    archive = tmp_path / f"evil{suffix}"
    if suffix == ".tar":
        tar_of(archive, name=name)
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr(zipfile.ZipInfo(name), "planted")
    with pytest.raises(DataError, match="leads out of the folder"):
        dataset_source.have(str(archive), str(cache))
    assert not list(tmp_path.rglob("outside"))


def test_a_link_whose_target_fills_the_memory_is_refused(tmp_path: Path, cache: Path) -> None:
    archive = tmp_path / "evil.zip"
    link = zipfile.ZipInfo("way")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a", "a")
        zipped.writestr(link, b"x" * (64 << 20), zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(DataError, match="is broken"):
        dataset_source.have(str(archive), str(cache))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("target", ["/etc", "../../..", "/etc/passwd"])
def test_a_link_of_an_archive_leads_nothing_out(target: str, tmp_path: Path, cache: Path) -> None:
    archive = tmp_path / "evil.tar"
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tarfile.TarInfo("way")
    link.type, link.linkname = tarfile.SYMTYPE, target
    through = tarfile.TarInfo("way/planted")
    through.size = 7
    with tarfile.open(archive, "w") as opened:
        opened.addfile(link)
        opened.addfile(through, io.BytesIO(b"planted"))
    with pytest.raises(DataError):
        dataset_source.have(str(archive), str(cache))
    assert not Path("/etc/planted").exists()
    tar_of(archive, name="way", type=tarfile.SYMTYPE, linkname=target)
    with pytest.raises(DataError, match=r"evil\.tar:\nway is a link to .*, out of the folder"):
        dataset_source.have(str(archive), str(cache))
    assert not list(cache.glob("*"))
    tar_of(archive, name="way", type=tarfile.LNKTYPE, linkname=target)
    with pytest.raises(DataError, match=r"leads out of the folder|is broken"):
        dataset_source.have(str(archive), str(cache))


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_device_in_an_archive_is_refused(kind: bytes, tmp_path: Path, cache: Path) -> None:
    tar_of(tmp_path / "odd.tar", name="odd", type=kind)
    with pytest.raises(DataError, match="odd is a device or a pipe"):
        dataset_source.have(str(tmp_path / "odd.tar"), str(cache))


def test_links_within_an_archive_are_copies(tmp_path: Path, cache: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a").write_text("a")
    os.link(inside / "a", inside / "hard")
    (inside / "soft").symlink_to("a")
    archive = tmp_path / "inside.tar"
    subprocess.run(["tar", "-cf", str(archive), "-C", str(tmp_path), "inside"], check=True)
    had = dataset_source.have(str(archive), str(cache))
    assert contents(had.folder) == {"a": b"a", "hard": b"a", "soft": b"a"}


def zip_of(archive: Path, *names: bytes) -> Path:
    """A zip of files with such names, of which it says no encoding."""
    standing_for = [bytes([ord("a") + number]) * len(name) for number, name in enumerate(names)]
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in standing_for:
            zipped.writestr(name.decode(), "" if name == standing_for[-1] else "1")
    content = archive.read_bytes()
    for stand, name in zip(standing_for, names, strict=True):
        content = content.replace(stand, name)
    archive.write_bytes(content)
    return archive


DESKTOP = [
    *("__MACOSX/._faces", "faces/__MACOSX/._a.jpg", ".DS_Store", "faces/.DS_Store"),
    *(
        "$RECYCLE.BIN/a",
        "faces/.Trashes/b",
        "faces/.AppleDouble/a.jpg",
        "faces/a.jpg:Zone.Identifier",
    ),
]


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_what_a_desktop_adds_is_no_data(suffix: str, tmp_path: Path, cache: Path) -> None:
    """So the one folder is the only one at the top. What only looks like it stays."""
    names = [*DESKTOP, "faces/._a.jpg", "faces/a.jpg", "faces/Thumbs.db", "faces/._own"]
    archive = tmp_path / f"mac{suffix}"
    if suffix == ".zip":
        zip_of(archive, *map(str.encode, names), b"faces/")
    else:
        with tarfile.open(archive, "w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
    had = dataset_source.have(str(archive), str(cache))
    assert list(contents(had.folder)) == ["._own", "a.jpg"]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (b"faces\\train\\1.jpg", "train/1.jpg"),
        ("faces/caf\u00e9.jpg".encode(), "caf\u00e9.jpg"),
        ("faces/cafe\u0301.jpg".encode(), "cafe\u0301.jpg"),
        ("faces/ch\u00e2teau.jpg".encode("cp437"), "ch\u00e2teau.jpg"),
        ("faces/\u00fcber \u00e9t\u00e9.jpg".encode("cp437"), "\u00fcber \u00e9t\u00e9.jpg"),
        ("faces/\u00e9l\u00e8ve.jpg".encode("cp437"), "\u00e9l\u00e8ve.jpg"),
    ],
)
def test_names_of_other_systems_are_read_as_they_were(
    name: bytes, read: str, tmp_path: Path, cache: Path
) -> None:
    """Backslashes, and encodings where a zip does not say which."""
    had = dataset_source.have(str(zip_of(tmp_path / "other.zip", name, b"faces\\")), str(cache))
    assert list(contents(had.folder)) == [read]


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("cp932", "猫の写真 テスト画像"),  # with kana
        ("cp932", "検証用 画像 正常 異常"),  # without
        ("cp932", "東京"),
        ("gb18030", "训练集 测试集 猫的照片 缺陷"),
        ("gb18030", "飞机 汽车"),  # valid in Big5 and CP949 too
        ("big5", "訓練集 圖片 測試 標籤"),
        ("cp949", "학습 고양이 강아지 새로운"),  # all of it valid in GB18030 too
        ("cp949", "정상 불량"),
        ("cp866", "обучение кошка Тест"),
        ("cp437", "MÜLLER façade Größe señal"),
    ],
)
def test_names_of_windows_in_other_languages_are_read(
    encoding: str, names: str, tmp_path: Path, cache: Path
) -> None:
    archive = zip_of(
        tmp_path / "other.zip", *(f"{name}.png".encode(encoding) for name in names.split())
    )
    had = dataset_source.have(str(archive), str(cache))
    assert list(contents(had.folder)) == sorted(f"{name}.png" for name in names.split())


@pytest.mark.parametrize(
    "name", [*("faces.7z", "faces.RAR", "faces.zip.001"), *("a.dmg", "a.tar.Z", "a.tar.gz.aa")]
)
def test_an_archive_of_another_kind_is_told(name: str, tmp_path: Path, cache: Path) -> None:
    (tmp_path / name).write_bytes(b"7z\xbc\xaf\x27\x1c")
    with pytest.raises(DataError, match=r"of another kind: unpack it, and give SOURCE= the folder"):
        dataset_source.have(str(tmp_path / name), str(cache))


def test_a_zip_that_is_packed_as_windows_packs_large_files_is_told(
    tmp_path: Path, cache: Path
) -> None:
    """Deflate64 has number 9."""
    whole = zip_of(tmp_path / "large.zip", b"faces/1.jpg", b"faces/").read_bytes()
    central = whole.index(b"PK\x01\x02") + 10
    (tmp_path / "large.zip").write_bytes(whole[:central] + b"\x09" + whole[central + 1 :])
    with pytest.raises(DataError, match=r"unusual way \(.*\): unpack it, and give SOURCE="):
        dataset_source.have(str(tmp_path / "large.zip"), str(cache))


def test_an_encrypted_archive_is_told(tmp_path: Path, cache: Path) -> None:
    archive = tmp_path / "secret.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a", "a")
    whole = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(signature) + offset] |= 1
    archive.write_bytes(whole)
    with pytest.raises(DataError, match=r"is encrypted: unpack it"):
        dataset_source.have(str(archive), str(cache))


def test_an_archive_without_a_file_is_told(tmp_path: Path, cache: Path) -> None:
    tar_of(tmp_path / "void.tar", name="folder", type=tarfile.DIRTYPE)
    with pytest.raises(DataError, match="there is no file in it"):
        dataset_source.have(str(tmp_path / "void.tar"), str(cache))


def test_a_file_that_is_no_archive_goes_as_it_is(tmp_path: Path, cache: Path) -> None:
    table = tmp_path / "table.npz"  # a zip file inside, as many formats are
    with zipfile.ZipFile(table, "w") as zipped:
        zipped.writestr("a.npy", "a")
    assert dataset_source.have(str(table), str(cache)).folder == str(table)


def test_another_checksum_than_was_said_is_told(folder: Path, cache: Path) -> None:
    archive = packed(folder, ".tar.gz")
    with pytest.raises(DataError, match=f"and not {'0' * 64}"):
        dataset_source.have(str(archive), str(cache), sha256="0" * 64)
    with pytest.raises(DataError, match="SOURCE= is a folder"):
        dataset_source.have(str(folder), str(cache), sha256="0" * 64)


@pytest.mark.parametrize("source", ["/nowhere", ""])
def test_a_source_that_is_not_there_is_told(source: str, cache: Path) -> None:
    with pytest.raises(DataError, match="there is no folder or file"):
        dataset_source.have(source, str(cache))


def test_an_archive_without_room_is_told_before_it_is_unpacked(folder: Path, cache: Path) -> None:
    archive = packed(folder, ".tar.gz")
    cache.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(cache)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(DataError, match=r"has 20\d kB free, and to unpack .* takes 300 kB"):
            dataset_source.have(str(archive), str(cache))
        assert not list(cache.glob("*"))
    finally:
        subprocess.run(["umount", str(cache)], check=True)


@dataclass
class Server:
    """A server of one file.

    Attributes:
        ranges: whether it can send a part.
        mark: its ETag for the file, if it has one.
        cuts: after how many bytes each connection ends, in turn; then it sends all.
        asked: the headers of each request.
        sent: bytes of the content that were sent, by request.
    """

    content: bytes
    ranges: bool = True
    mark: str | None = '"1"'
    status: int = 200
    cuts: list[int] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    port: int = 0

    def url(self, name: str = "faces.tar.gz") -> str:
        return f"http://127.0.0.1:{self.port}/sets/{name}?key=secret"


class Handler(BaseHTTPRequestHandler):
    """Answers for a `Server`."""

    protocol_version = "HTTP/1.1"
    about: Server

    def do_GET(self) -> None:
        about, content = self.about, self.about.content
        about.asked.append(dict(self.headers))
        if about.status != 200:
            self.send_error(about.status)
            return
        if about.mark and self.headers.get("If-None-Match") == about.mark:
            self.send_response(304)
            self.end_headers()
            return
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        begin = 0
        if wanted and about.ranges and condition in (None, about.mark):
            begin = int(wanted[1])
            if begin >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if about.mark:
            self.send_header("ETag", about.mark)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = min(len(content), begin + about.cuts.pop(0)) if about.cuts else len(content)
        self.wfile.write(content[begin:end])
        about.sent.append(end - begin)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of an archive of the folder."""
    monkeypatch.setattr(dataset_fetch, "PAUSE", 0)
    about = Server(packed(folder, ".tar.gz", "faces").read_bytes())
    handler = type("OneServer", (Handler,), {"about": about})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        about.port = listening.server_address[1]
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield about
        listening.shutdown()


def test_what_is_fetched_is_kept_and_asked_for_again_only_if_it_changed(
    server: Server, cache: Path
) -> None:
    had = dataset_source.have(server.url(), str(cache))
    assert contents(had.folder) == FILES
    assert dataset_source.have(server.url(), str(cache)).folder == had.folder
    assert server.asked[1]["If-None-Match"] == '"1"'
    assert len(server.sent) == 1
    server.content, server.mark = server.content[:-9], '"2"'
    with pytest.raises(DataError, match=r"sets/faces\.tar\.gz is broken") as caught:
        dataset_source.have(server.url(), str(cache))
    assert str(cache) not in str(caught.value)


@pytest.mark.parametrize("known", ["checksum", "kept"])
def test_what_is_known_is_not_asked_for(known: str, server: Server, cache: Path) -> None:
    had = dataset_source.have(server.url(), str(cache))
    how = {"sha256": had.sha256} if known == "checksum" else {"kept": True}
    assert dataset_source.have(server.url(), str(cache), **how).folder == had.folder
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_is_cut_goes_on(ranges: bool, server: Server, cache: Path) -> None:
    server.ranges, server.cuts = ranges, [100_000, 50_000]
    had = dataset_source.have(server.url(), str(cache))
    assert contents(had.folder) == FILES
    left = len(server.content) - 150_000 if ranges else len(server.content)
    assert server.sent == [100_000, 50_000, left]


def test_the_command_goes_on_where_the_one_before_had_to_stop(server: Server, cache: Path) -> None:
    server.cuts = [100_000] + [0] * dataset_fetch.ATTEMPTS
    with pytest.raises(DataError, match="The same command resumes the download") as caught:
        dataset_source.have(server.url(), str(cache))
    assert "secret" not in str(caught.value)
    assert contents(dataset_source.have(server.url(), str(cache)).folder) == FILES
    assert server.sent[-1] == len(server.content) - 100_000


def test_it_does_not_go_on_with_another_file(server: Server, cache: Path) -> None:
    whole = server.content
    server.content, server.mark = os.urandom(200_000), '"old"'
    server.cuts = [100_000] + [0] * dataset_fetch.ATTEMPTS
    with pytest.raises(DataError):
        dataset_source.have(server.url(), str(cache))
    server.content, server.mark = whole, '"new"'
    assert contents(dataset_source.have(server.url(), str(cache)).folder) == FILES
    assert server.sent[-1] == len(whole)


def test_without_a_mark_only_a_checksum_lets_it_go_on(server: Server, cache: Path) -> None:
    server.mark, server.cuts = None, [100_000]
    dataset_source.have(server.url(), str(cache))
    assert server.sent == [100_000, len(server.content)]
    shutil.rmtree(cache)
    server.cuts, server.sent = [100_000], []
    digest = hashlib.sha256(server.content).hexdigest()
    dataset_source.have(server.url(), str(cache), sha256=digest)
    assert server.sent == [100_000, len(server.content) - 100_000]


def test_what_is_another_file_than_was_said_is_removed(server: Server, cache: Path) -> None:
    with pytest.raises(DataError, match="another file, or a damaged one"):
        dataset_source.have(server.url(), str(cache), sha256="0" * 64)
    assert not contents(cache)


def test_a_file_that_is_no_archive_keeps_its_name(server: Server, cache: Path) -> None:
    had = dataset_source.have(server.url("ta%20ble.parquet"), str(cache))
    assert contents(had.folder) == {"ta ble.parquet": server.content}


@pytest.mark.parametrize("status", [404, 403, 503])
def test_an_answer_that_is_no_file_is_told(status: int, server: Server, cache: Path) -> None:
    server.status = status
    with pytest.raises(DataError, match=f"the server answers {status}") as caught:
        dataset_source.have(server.url(), str(cache))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/x.tar", "cannot be fetched"),
        ("http://ada:word@127.0.0.1/x.tar", "user or password"),
        ("http:///x.tar", "is not the address of a file"),
        ("http://127.0.0.1/a b.tar", "is not the address"),
        ("http://127.0.0.1:port/x.tar", "is not an address"),
    ],
)
def test_an_address_that_cannot_be_asked_is_told(url: str, said: str, cache: Path) -> None:
    with pytest.raises(DataError, match=said) as caught:
        dataset_source.have(url, str(cache))
    assert "word@" not in str(caught.value)


def test_what_is_kept_is_the_owners_to_read(folder: Path, cache: Path) -> None:
    had = dataset_source.have(str(packed(folder, ".zip")), str(cache))
    modes = [path.stat().st_mode for path in Path(had.folder).rglob("*") if path.is_file()]
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH) for mode in modes)
