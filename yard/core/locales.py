"""The locale of the programs that are started here."""

import locale
import os
from collections.abc import MutableMapping

# Every Debian and RHEL has it, without a file of its own.
PLAIN = "C.UTF-8"


def have_utf8(environment: MutableMapping[str, str] = os.environ) -> None:
    """Give programs that are started a locale in UTF-8, where the user's is none or is missing.

    Ansible ends in any other, and says so in words that blame what it was to read.
    """
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        is_utf8 = (locale.getlocale()[1] or "").lower() in ("utf-8", "utf8")
    except (locale.Error, ValueError):  # it is not generated, or has no name that Python knows
        is_utf8 = False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    if not is_utf8:
        environment["LC_ALL"] = PLAIN
