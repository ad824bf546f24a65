"""Records what nvidia-smi says of machines: `python tests/roles/record_gpus.py`.

Each file in data/gpus has the answers of one machine to the questions that the project asks.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import gpu_machines

from node.machine import gpus as training_node_gpus

FOLDER = Path(__file__).parent / "data/gpus"
# The first line of the table.
DATE = re.compile(r"\A\w{3} \w{3} [ \d]\d [\d:]+ \d{4} *\n")
LOST: dict[str, Any] = {"failure": {"mode": "fallen_off_bus"}}
ECC: dict[str, Any] = {"failure": {"mode": "ecc_uncorrectable"}}
HOT: dict[str, Any] = {"thermal": {"temperature_gpu_c": 91}}
BUSY: dict[str, Any] = {"processes": [{"pid": 4711, "type": "C", "name": "python3"}]}
# Profile, number and driver, and how its GPU 1 differs.
MACHINES: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    "t4-535": ("t4", 4, "535.183.01", {}),
    "a100-550": ("a100", 2, "550.163.01", {}),
    "h100-580": ("h100", 2, "580.65.06", {}),
    "a100-550-lost": ("a100", 3, "550.163.01", LOST),
    "a100-550-ecc-errors": ("a100", 3, "550.163.01", ECC),
    "a100-550-hot": ("a100", 3, "550.163.01", HOT),
    "a100-550-busy": ("a100", 3, "550.163.01", BUSY),
}


def ask(name: str, root: Path) -> dict[str, str]:
    """Return the answers of a machine.

    Args:
        name: of MACHINES.
        root: a folder for its driver.
    """
    profile, count, driver, change = MACHINES[name]
    machine = gpu_machines.FakeDriver(root / name, profile, count, driver)
    if change:
        machine.change(1, **change)

    def query(what: str, fields: tuple[str, ...]) -> str:
        return machine.smi(f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")

    return {
        "gpus": query("gpu", training_node_gpus.FIELDS),
        "users": query("compute-apps", training_node_gpus.USER_FIELDS),
        "table": DATE.sub("", machine.smi()),
    }


def main() -> None:
    """Write all files."""
    with tempfile.TemporaryDirectory() as root:
        for name in MACHINES:
            text = json.dumps(ask(name, Path(root)), indent=2)
            (FOLDER / f"{name}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
