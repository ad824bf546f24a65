"""`python3 -I FOLDER/node < request.json`, for whoever has a package that lies on a machine."""

import sys
from os.path import abspath, dirname

# Python puts this folder itself on its path, and not the one that has it.
sys.path[0] = dirname(dirname(abspath(__file__)))

from node.calls import main  # noqa: E402  # found through the line above

if __name__ == "__main__":
    sys.exit(main())
