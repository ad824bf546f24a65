"""The locale of the programs that are started here."""

import locale
import os
from collections.abc import MutableMapping

# Every Debian and RHEL has it, without a file of its own.
PLAIN = "C.UTF-8"
# The first of these that is set decides about characters (POSIX, Base Definitions, 8.2).
NAMES = ("LC_ALL", "LC_CTYPE", "LANG")


def have_utf8(environment: MutableMapping[str, str] = os.environ) -> str:
    """Give programs that are started a locale in UTF-8, where the user's is none or is missing.

    Ansible ends in any other, and says so in words that blame what it was to read.

    Returns:
        The locale that programs get, and what it replaces.
    """
    name = next((name for name in NAMES if environment.get(name)), "")
    named = environment.get(name, "")
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        is_utf8 = (locale.getlocale()[1] or "").lower() in ("utf-8", "utf8")
    except (locale.Error, ValueError):  # it is not generated, or has no name that Python knows
        is_utf8 = False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    if is_utf8:
        return named
    environment["LC_ALL"] = PLAIN
    return (
        f"{PLAIN} in place of {name}={named}, which is not installed or not UTF-8"
        if name
        else PLAIN
    )
