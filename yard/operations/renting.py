"""Runs the playbooks for rented machines: a look, a question, and then what was agreed to."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from yard.core.context import Context
from yard.core.errors import RequestError
from yard.core.files import write_text
from yard.operations.setup import run_operation
from yard.plays.contract import PLAN_MACHINES, TAGGED_MACHINES
from yard.plays.events import Event
from yard.request.site import ROLE

# What the playbooks work on. The inventory that the machines are in may be none yet, or ask AWS.
CONTROL_NODE = ".trainyard/control_node/rented/hosts.yml"
LOCALHOST = """---
all:
  hosts:
    localhost:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""


def check_library() -> None:
    """See that the library of AWS is there, which few sites need.

    Raises:
        RequestError: it is not.
    """
    if importlib.util.find_spec("boto3") is None:
        raise RequestError(
            "boto3 is missing, which talks to AWS; make provision installs it "
            "(./bootstrap.sh .venv requirements-aws.txt)"
        )


def look_for_plan(context: Context, extravars: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask EC2 what is there and what is to be made; nothing is changed.

    Raises:
        ClusterError: AWS refuses, or there is no way to what was asked for; it has been shown.
    """
    plan: dict[str, Any] = {}

    def take(event: Event) -> None:
        if event.kind == "runner_on_ok" and event.module == PLAN_MACHINES:
            plan.update(event.result["plan"])

    _run(context, "provision", {**extravars, f"{ROLE}_apply": False}, take)
    return plan


def make_machines(context: Context, extravars: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    """Do what the plan says, and write the inventory; whether anything was changed."""
    agreed = {f"{ROLE}_apply": True, f"{ROLE}_agreed": dict(plan)}
    return _run(context, "provision", {**extravars, **agreed}) > 0


def look_for_things(context: Context, scope: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ask EC2 what carries the tag of a site; nothing is changed."""
    return _take_things(context, "destroy", {**scope, f"{ROLE}_apply": False})


def remove_things(context: Context, scope: Mapping[str, Any]) -> None:
    """Give back all that carries the tag, and see that nothing is left.

    Raises:
        ClusterError: something is left, or could not be removed; it has been shown.
    """
    _run(context, "destroy", {**scope, f"{ROLE}_apply": True})


def look_for_machines(context: Context, regions: list[str]) -> list[dict[str, Any]]:
    """Ask EC2 for the machines of all sites in some regions."""
    variables = {f"{ROLE}_regions": regions, f"{ROLE}_overdue_fails": False}
    return _take_things(context, "provision_check", variables)


def _take_things(
    context: Context, playbook: str, variables: Mapping[str, Any]
) -> list[dict[str, Any]]:
    things: list[dict[str, Any]] = []

    def take(event: Event) -> None:
        if event.kind in ("runner_on_ok", "runner_item_on_ok") and event.module == TAGGED_MACHINES:
            things.extend(event.result.get("things", []))

    _run(context, playbook, variables, take)
    return things


def _run(
    context: Context, playbook: str, variables: Mapping[str, Any], take: Any = lambda event: None
) -> int:
    """Run a playbook on the control node; how many tasks changed something."""
    file = context.project.root / CONTROL_NODE
    write_text(file, LOCALHOST)
    outcome = run_operation(context, playbook, variables, inventory=file.parent, take=take)
    return sum(stats.changed for stats in outcome.stats.values())
