"""Ansible with modules in one lasting Python a machine, in half of the time that new ones take.

For tests of what a playbook does; what Ansible itself does has its own strategy.
"""

from pathlib import Path

LASTING_PYTHON = {
    "ANSIBLE_STRATEGY": "mitogen_linear",
    "ANSIBLE_STRATEGY_PLUGINS": str(Path(__file__).parents[2] / "molecule/shared/strategy"),
}
