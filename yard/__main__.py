"""`python -m yard`."""

import sys

# The Makefile keeps Python from writing byte code beside sources that are sent somewhere. Those of
# this package are not, and to compile them is a third of what a short command takes.
sys.dont_write_bytecode = False

from yard.cli import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
