"""Certificates of authorities, as PEM."""

import hashlib
import re
import ssl
import time
from typing import Any

PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s+(.+?)\s+-----END CERTIFICATE-----", re.DOTALL)


class CertificateError(Exception):
    """The text is not certificates of authorities; the message says why."""


def bodies(text: str) -> list[str]:
    """Return the certificates in a text: each its base64, without spaces."""
    return ["".join(body.split()) for body in PEM.findall(text)]


def files(text: str) -> dict[str, str]:
    """Return the certificates in a text, each as a file of its own by its name.

    update-ca-certificates(8) wants one in a file.
    """
    named = {}
    for body in bodies(text):
        lines = [body[start : start + 64] for start in range(0, len(body), 64)]
        name = f"trainyard-{hashlib.sha256(body.encode()).hexdigest()[:12]}.crt"
        named[name] = "\n".join(
            ["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]
        )
    return named


def check(text: str, now: float | None = None) -> None:
    """See that a text holds certificates of authorities that are good now.

    Args:
        text: PEM.
        now: seconds since the epoch; the clock's unless given.

    Raises:
        CertificateError: it does not.
    """
    if "PRIVATE KEY" in text:
        raise CertificateError("has a private key in it, which is for nobody but its authority")
    if not bodies(text):
        raise CertificateError("has no certificate in it (-----BEGIN CERTIFICATE-----)")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        # Alone: what else stands in such files, such as a subject above each, is no matter.
        context.load_verify_locations(cadata="".join(files(text).values()))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"has a certificate that cannot be read: {error}") from error
    authorities: list[dict[str, Any]] = context.get_ca_certs()
    if len(authorities) < len(files(text)):
        raise CertificateError("has a certificate that is not of an authority (CA:TRUE)")
    for authority in authorities:
        if ssl.cert_time_to_seconds(authority["notAfter"]) < (now or time.time()):
            raise CertificateError(f"has a certificate that ended on {authority['notAfter']}")
