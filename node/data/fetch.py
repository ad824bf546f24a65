"""Fetches a file by HTTP, and goes on where an earlier try was cut off, if the server can do that.

What has come is only gone on from where it is known to be of the same file: the server's mark of it
(ETag, or the time of its last change) goes along as `If-Range`, or the caller knows the checksum.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from .archive import check_room
from .files import CHUNK, DataError, digest_of, size_shown

# Seconds without a byte.
SILENCE = 60
# How often a connection that was cut is made anew, if it has brought nothing, and how long after.
ATTEMPTS = 5
PAUSE = 2.0
AGENT = "trainyard"

PARTIAL = http.client.PARTIAL_CONTENT
NOT_MODIFIED = http.client.NOT_MODIFIED
NOT_SATISFIABLE = http.client.REQUESTED_RANGE_NOT_SATISFIABLE


class Cut(Exception):
    """The connection ended before the file did."""


@dataclass(frozen=True)
class Fetched:
    """A file that was fetched.

    Attributes:
        path: where it is; None where the server says that it is still the one of `known`.
        sha256: in hexadecimal digits.
        mark: what the server calls this state of the file, as headers.
    """

    path: str | None
    sha256: str
    mark: dict[str, str]


def plain_url(url: str) -> str:
    """An address as it may be shown: what stands behind `?` may be a key."""
    return urllib.parse.urlsplit(url)._replace(query="", fragment="").geturl()


def check_url(url: str) -> None:
    """See that an address can be asked.

    Raises:
        DataError: it cannot, or has a password in it.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, secret = parts.hostname, parts.username is not None or parts.password is not None
        _ = parts.port
    except ValueError as error:
        raise DataError(f"SOURCE= is not an address: {error}") from error
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        raise DataError(
            f"{plain_url(url)!r} is not the address of a file; write blanks in it as %20"
        )
    if secret:
        raise DataError(
            "SOURCE= has a user or password in it, and logs would show it: fetch the file with "
            "curl, and give SOURCE= its path"
        )


def fetch(url: str, folder: str, sha256: str, known: dict[str, Any]) -> Fetched:
    """Fetch a file into `folder`, or go on with that.

    Args:
        sha256: what it must be; empty where nobody knows.
        known: `sha256` and `mark` of what was fetched before and is kept, or nothing.

    Raises:
        DataError: it cannot be had, there is no room for it, or it is another file.
    """
    os.makedirs(folder, exist_ok=True)
    try:
        whole, mark = _fetch_all(url, folder, sha256, known)
    except urllib.error.HTTPError as error:
        raise DataError(
            f"{plain_url(url)}: the server answers {error.code} {error.reason}; see whether the "
            "address is right, and whether this machine may fetch it"
        ) from error
    except (OSError, http.client.HTTPException, Cut) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{plain_url(url)} cannot be fetched: {reason}. The same command resumes the "
            "download; without a network here, bring the file and give SOURCE= its path"
        ) from error
    if not whole:
        return Fetched(None, known["sha256"], mark)
    with open(whole, "rb") as file:
        digest = digest_of(file)
    if sha256 and digest != sha256:
        shutil.rmtree(folder)
        raise DataError(
            f"{plain_url(url)} has the SHA-256 {digest}, and not {sha256}: another file, or a "
            "damaged one. It was removed"
        )
    return Fetched(whole, digest, mark)


def _fetch_all(
    url: str, folder: str, sha256: str, known: dict[str, Any]
) -> tuple[str | None, dict[str, str]]:
    """Fetch a file in as many connections as it takes."""
    failed = 0
    while True:
        part = _Part(folder)
        before = part.size
        try:
            return part.go_on(url, sha256, known)
        except (OSError, http.client.HTTPException, Cut) as error:
            came = _Part(folder).size - before
            failed = 0 if came > 0 else failed + 1
            if failed >= ATTEMPTS or not _may_pass(error, before):
                raise
        time.sleep(PAUSE * max(failed, 1))


def _may_pass(error: Exception, had: int) -> bool:
    """Whether another try may bring more: not where nothing answers, or the disk is full."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500
    if isinstance(error, urllib.error.URLError):
        return had > 0
    return getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT)


class _Part:
    """What has come of a file, with the server's mark of it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "part")
        self._marked = os.path.join(folder, "part.json")
        self.size = os.path.getsize(self._path) if os.path.exists(self._path) else 0
        self.mark: dict[str, str] = _read(self._marked)

    def go_on(
        self, url: str, sha256: str, known: dict[str, Any]
    ) -> tuple[str | None, dict[str, str]]:
        """Fetch the rest; returns where the file is, None if it is still the known one."""
        headers = {"User-Agent": AGENT}
        validator = self.mark.get("ETag") or self.mark.get("Last-Modified")
        # A weak ETag stands for files that are alike, not the same.
        if validator and validator.startswith("W/"):
            validator = self.mark.get("Last-Modified")
        if self.size and (validator or sha256):
            headers["Range"] = f"bytes={self.size}-"
            if validator:
                headers["If-Range"] = validator
        elif not self.size and known:
            headers |= _asks_for_a_change(known["mark"])
        request = urllib.request.Request(url, headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=SILENCE)
        except urllib.error.HTTPError as error:
            if error.code == NOT_MODIFIED:
                return None, known["mark"]
            if error.code == NOT_SATISFIABLE and "Range" in headers:
                if error.headers.get("Content-Range") == f"bytes */{self.size}":
                    return self._path, self.mark  # all of it had come
                self.forget()
                raise Cut("the file is another one now") from error
            raise
        with answer:
            return self._take(answer), self.mark

    def _take(self, answer: http.client.HTTPResponse) -> str:
        """Write what comes behind what has come, or in place of it."""
        goes_on = answer.status == PARTIAL
        if goes_on:
            begins = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
            if not begins or int(begins[1]) != self.size:
                self.forget()
                raise Cut("the server sent another part than it was asked for")
        else:
            self.forget()
            self.mark = {
                name: answer.headers[name]
                for name in ("ETag", "Last-Modified")
                if answer.headers[name]
            }
            with open(self._marked, "w", encoding="utf-8") as file:
                json.dump(self.mark, file)
        length = answer.headers.get("Content-Length")
        expected = None if length is None else int(length)
        check_room(self._folder, expected or 0, "what is fetched")
        came = 0
        with open(self._path, "ab" if goes_on else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                came += len(chunk)
        if expected is not None and came < expected:
            raise Cut(f"{size_shown(came)} of {size_shown(expected)} came, then the server hung up")
        return self._path

    def forget(self) -> None:
        """Remove what has come: it is of another file."""
        for path in (self._path, self._marked):
            if os.path.exists(path):
                os.unlink(path)
        self.size = 0


def _asks_for_a_change(mark: dict[str, str]) -> dict[str, str]:
    """The headers with which a server sends a file only if it has changed."""
    names = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
    return {names[name]: value for name, value in mark.items() if name in names}


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}
