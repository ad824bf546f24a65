"""`make notebook` under way: its address, its token, and Ctrl-C."""

import re

from commands import BackgroundMake

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab\?token=([0-9a-f]{48})\n")


def opened(node: str, **variables: object) -> tuple[BackgroundMake, str, str]:
    """A `make notebook` whose way is open, its address, and the token."""
    command = BackgroundMake("notebook", NODE=node, **variables)
    found = command.wait_for("an address", lambda: ADDRESS.search(command.output), 300)
    return command, found[0].strip(), found[1]


def close(command: BackgroundMake) -> None:
    """Press Ctrl-C, which closes the way and no more."""
    command.interrupt()
    command.wait_for_output("The notebook keeps running")
    command.put_an_end_to()
