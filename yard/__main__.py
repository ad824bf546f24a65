"""`python -m yard`."""

from yard.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
