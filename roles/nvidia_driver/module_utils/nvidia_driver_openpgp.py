# Copyright Trainyard. Apache-2.0
"""Fingerprints of OpenPGP keys, without a program that nodes may lack."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

PUBLIC_KEY = 6  # tag of the packet (RFC 9580, section 5)
ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:.+\n)*\n((?:[A-Za-z0-9+/=]+\n)+?)(?:=.{4}\n)?"
    r"-----END PGP PUBLIC KEY BLOCK-----"
)


class KeyFileError(ValueError):
    """The text is no key in ASCII armour, or of a version that is not known here."""


def fingerprints(text: str) -> list[str]:
    """The fingerprints of all primary keys of a file in ASCII armour, in upper-case hexadecimal.

    A fingerprint is SHA-1 of 0x99, the length in two bytes, and the packet (RFC 9580, section
    5.5.4.2).

    Raises:
        KeyFileError: it is no such file.
    """
    blocks = ARMOUR.findall(text.replace("\r", ""))
    if not blocks:
        raise KeyFileError("it is no OpenPGP key in ASCII armour")
    found = []
    for block in blocks:
        try:
            data = base64.b64decode(block, validate=False)
            bodies = [body for tag, body in packets(data) if tag == PUBLIC_KEY]
        except (binascii.Error, IndexError) as error:
            raise KeyFileError("the key is damaged") from error
        for body in bodies:
            if body[:1] != b"\x04":
                raise KeyFileError("the key is not of version 4")
            frame = b"\x99" + len(body).to_bytes(2, "big") + body
            found.append(hashlib.sha1(frame, usedforsecurity=False).hexdigest().upper())
    if not found:
        raise KeyFileError("there is no public key in it")
    return found


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet, of both formats of headers (RFC 9580, section 4.2).

    Raises:
        IndexError: the data ends within a header.
    """
    position = 0
    while position < len(data):
        header = data[position]
        if header & 0x40:
            tag, length, position = header & 0x3F, *_new_length(data, position + 1)
        else:
            tag, octets = header >> 2 & 0x0F, 1 << (header & 3)
            length = int.from_bytes(data[position + 1 : position + 1 + octets], "big")
            position += 1 + octets
        yield tag, data[position : position + length]
        position += length


def _new_length(data: bytes, position: int) -> tuple[int, int]:
    """Length of a packet in the new format, and where its body begins."""
    first = data[position]
    if first < 192:
        return first, position + 1
    if first < 224:
        return (first - 192 << 8) + data[position + 1] + 192, position + 2
    return int.from_bytes(data[position + 1 : position + 5], "big"), position + 5
