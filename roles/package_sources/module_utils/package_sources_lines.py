"""Lines of apt's sources: the archive that they name, and the mirror in its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

# Stands above each line that was changed, with the line as it was.
WAS = "# package_sources was: "
# Of Debian's images for clouds, whose sources name a file with the archive's address in it
MIRROR_FILES = {
    "mirror+file:///etc/apt/mirrors/debian.list": "archive",
    "mirror+file:/etc/apt/mirrors/debian.list": "archive",
    "mirror+file:///etc/apt/mirrors/debian-security.list": "security",
    "mirror+file:/etc/apt/mirrors/debian-security.list": "security",
}
# Host and first part of the path of what the two distributions serve, and what it is
ARCHIVES = (
    (r"(?:ftp\d?|cdn)\.(?:[a-z]{2}\.)?debian\.org/debian", "archive"),
    (r"(?:deb|httpredir|http|cdn-fastly\.deb|cdn-aws\.deb)\.debian\.(?:org|net)/debian", "archive"),
    (r"(?:deb|cdn-fastly\.deb|cdn-aws\.deb)\.debian\.org/debian-security", "security"),
    (r"security\.debian\.org(?:/debian-security)?", "security"),
    (r"(?:[a-z0-9.-]+\.)?archive\.ubuntu\.com/ubuntu", "archive"),
    (r"(?:[a-z0-9.-]+\.)?(?:ec2\.|clouds\.)?ports\.ubuntu\.com(?:/ubuntu-ports)?", "archive"),
    (r"security\.ubuntu\.com/ubuntu", "security"),
)
ONE_LINE = re.compile(r"^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)")
FIELD = re.compile(r"^([A-Za-z0-9-]+):")


@dataclass(frozen=True)
class Mirrors:
    """Addresses in place of the distribution's; empty leaves those as they are."""

    archive: str = ""
    security: str = ""

    def replacement(self, uri: str) -> str:
        """Return the address in place of one of a source; the same one where there is none."""
        kind = archive_of(uri)
        wanted = {"archive": self.archive, "security": self.security}.get(kind, "")
        # apt compares addresses with and without a slash as one.
        return wanted.rstrip("/") if wanted else uri


def archive_of(uri: str) -> str:
    """Return which archive of Debian or Ubuntu an address is: archive, security, or nothing."""
    if uri in MIRROR_FILES:
        return MIRROR_FILES[uri]
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return ""
    place = f"{parts.hostname}{parts.path}".rstrip("/")
    return next((kind for pattern, kind in ARCHIVES if re.fullmatch(pattern, place)), "")


def addresses(text: str, deb822: bool) -> list[str]:
    """Return the addresses in a file of sources, in order.

    Args:
        text: what is in it.
        deb822: its form: stanzas (NAME.sources), or a source a line (NAME.list).
    """
    return [
        uri for line, has_uris in _lines(text, deb822) if has_uris for uri in _uris(line, deb822)
    ]


def with_mirrors(text: str, deb822: bool, mirrors: Mirrors) -> str:
    """Return a file of sources with the mirrors in it.

    What an earlier call did to the text is taken back first, so that no mirror at all gives the
    text as it was before.

    Args:
        text: what is in the file.
        deb822: its form, as for `addresses`.
        mirrors: the addresses.
    """
    written = []
    for line, has_uris in _lines(_restored(text), deb822):
        replaced = line
        for uri in _uris(line, deb822) if has_uris else []:
            replaced = _in_place_of(uri, mirrors.replacement(uri), replaced)
        if replaced != line:
            written.append(WAS + line.rstrip("\n") + "\n")
        written.append(replaced)
    return "".join(written)


def _in_place_of(old: str, new: str, line: str) -> str:
    """Return a line that has one address in place of another."""
    return re.sub(rf"(?<!\S){re.escape(old)}(?!\S)", lambda _: new, line)


def _restored(text: str) -> str:
    """Return a text in which the lines are as they were before `with_mirrors`."""
    written = []
    lines = iter(_split(text))
    for line in lines:
        if not line.startswith(WAS):
            written.append(line)
            continue
        changed = next(lines, "")
        # A last line may have had no newline, and then the one that took its place has none.
        end = "\n" if changed.endswith("\n") or not changed else ""
        written.append(line.removeprefix(WAS).rstrip("\n") + end)
    return "".join(written)


def _split(text: str) -> list[str]:
    """Return the lines of a text with their ends; apt knows no other end than this one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _lines(text: str, deb822: bool) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether addresses are in it."""
    field = ""
    for line in _split(text):
        if line.startswith("#"):
            yield line, False
            continue
        if not deb822:
            yield line, bool(ONE_LINE.match(line))
            continue
        if not line.strip():
            field = ""
        elif match := FIELD.match(line):
            field = match[1].lower()
        yield line, field == "uris"


def _uris(line: str, deb822: bool) -> list[str]:
    """Return the addresses in a line that has some."""
    if deb822:
        return FIELD.sub("", line).split()
    match = ONE_LINE.match(line)
    return [match[1]] if match else []
