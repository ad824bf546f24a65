"""`python -m yard`."""

import os
import sys

# Where a stream was closed (`<&-`), Python has none, and the next file would get its number.
for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
    if getattr(sys, stream) is None:
        setattr(sys, stream, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))

# The Makefile keeps Python from writing byte code beside sources that are sent somewhere. Those of
# this package are not, and to compile them is a third of what a short command takes.
sys.dont_write_bytecode = False

from yard.cli import main  # noqa: E402


def is_read(more: str = "") -> bool:
    """Whether somebody reads the output; where nobody does, the rest of it goes nowhere."""
    try:
        print(more, end="", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise SystemExit(f"yard: the output is not whole: {error.strerror}") from None
        return False
    return True


if __name__ == "__main__":
    try:
        status = main()
    except BrokenPipeError:
        # What could not be written is not there any more, so that something has to be.
        if is_read("\n"):
            raise
        status = 0  # `make runs CSV=1 | head`: the reader has seen enough
    is_read()
    raise SystemExit(status)
