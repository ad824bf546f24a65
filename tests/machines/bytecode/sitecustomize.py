"""Has the Pythons that tests start keep byte code as nodes do, in .trainyard/bytecode.

Python imports this module by itself where its folder is in PYTHONPATH (`kept_bytecode.py`). On a
node the folder leaves PYTHONPATH again; here it stays, for tests start what starts Ansible.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = str(ROOT / ".trainyard/bytecode")
HOOK = str(ROOT / "roles/bytecode/module_utils")

sys.path.insert(0, HOOK)
from bytecode_hook import keep  # type: ignore[import-not-found]  # noqa: E402  # on a node it is this file

sys.path.remove(HOOK)
os.makedirs(FOLDER, exist_ok=True)
keep(FOLDER)
