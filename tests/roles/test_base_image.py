"""What role base_image puts into the image for a site, and when the image is made anew."""

from pathlib import Path

import pytest
from ansible_here import Host
from role_files import ROLES

KEY = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def made(**variables: str) -> dict[str, object]:
    """What the role would write."""
    host = Host("base_image", variables)
    template = str(ROLES / "base_image/templates/Dockerfile.j2")
    return {
        **{name: host.value(f"base_image_{name}") for name in ("files", "settings", "sources")},
        "dockerfile": host.value("lookup('template', file)", file=template),
    }


def test_without_settings_the_image_is_as_it_comes() -> None:
    found = made()
    assert found["settings"] == ""
    assert found["sources"] == []
    assert found["files"] == {"sources.list": "", "apt.conf": "", "ca.crt": ""}


def test_a_site_with_mirrors_and_an_authority(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    variables = {
        "base_image_release": "bookworm",
        "base_image_mirror": "https://mirror.site:8443/debian/",
        "base_image_ca": str(tmp_path / "ca.pem"),
    }
    found = made(**variables)
    assert found["files"] == {
        "sources.list": f"deb {KEY} https://mirror.site:8443/debian bookworm main\n"
        f"deb {KEY} https://mirror.site:8443/debian bookworm-updates main\n"
        f"deb {KEY} http://security.debian.org/debian-security bookworm-security main\n",
        "apt.conf": 'Acquire::https::mirror.site::CaInfo "/usr/local/share/ca-certificates/'
        'trainyard-site.crt";\n',
        "ca.crt": PEM,
    }
    assert str(found["dockerfile"]).splitlines() == [
        "FROM trainyard/base:bookworm",
        "RUN rm -f /etc/apt/sources.list.d/debian.sources",
        "COPY sources.list /etc/apt/sources.list",
        "COPY apt.conf /etc/apt/apt.conf.d/99trainyard-site",
        "# update-ca-certificates takes it from there, once an image has it.",
        "COPY ca.crt /usr/local/share/ca-certificates/trainyard-site.crt",
        f"LABEL trainyard.base.settings={found['settings']}",
    ]
    # With another certificate behind the same name the image is another one.
    (tmp_path / "ca.pem").write_text(PEM.replace("AAAA", "BBBB"))
    assert made(**variables)["settings"] not in ("", found["settings"])


@pytest.mark.parametrize("mirror", ["", "http://mirror.site/debian"])
def test_an_authority_alone_is_for_what_is_built_on_the_image(tmp_path: Path, mirror: str) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    found = made(base_image_mirror=mirror, base_image_ca=str(tmp_path / "ca.pem"))
    assert "apt.conf" not in str(found["dockerfile"])
    assert ("sources.list" in str(found["dockerfile"])) is bool(mirror)
    assert "COPY ca.crt" in str(found["dockerfile"])
