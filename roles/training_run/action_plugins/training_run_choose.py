"""Ansible action: chooses the nodes of a run, from what the look at each node came to.

Runs on the control node and connects to none. Returns C(nodes), the first fit ones in the order of
the play; C(left_out), why others had no part, a sentence each; and C(name). Fails where a run
cannot start, with a C(msg) for people and C(problems) for programs: a list of host
(null where it is the whole gang's), code, values and text.

Arguments:
    probes: by host in the order of the play, what the verb C(probe) of the node program came to.
    node_count: how many nodes the run gets at the most.
    node_minimum: with how many nodes it is done at the least.
    failed: how often each node was at fault in attempts of this run before, by name.
    image: the image that all of them must hold, with its tag.
    transport: name of the transport.
    transports: names of those that there are.
    slots: how many ranks each node gets, by host.
    name: what the run is called.
    is_name_made: whether nobody gave it a name.
    collect_dir: where its files go on the control node.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

# Sentences by code. What a node says about itself comes with its own.
SENTENCES = {
    "foreign_folder": "{folder} holds files of another run: training_run_collect_dir must be a "
    "folder of this run's own.",
    "unknown_transport": "Transport {transport} is not known; there are {transports}.",
    "too_few_nodes": "Too few nodes: {minimum} needed, {fit} fit. Nothing was started.",
    "failed_twice": "it was at fault in {failures} attempts of this run",
    "images_differ": "The nodes hold different images under the name {image}. Nothing was started.",
    "unreachable": "unreachable: {message}",
    "no_answer": "{message}",
    "no_slots": "it gives no GPUs to runs, and training_node_slots does not say how many ranks it "
    "carries",
    "strange_answer": "what it says of its {name} is of no form that a node has: look at it",
}

# What goes into files and commands of all nodes, or is calculated with, by name. A node may answer
# anything, and an address with a line break would be a setting of ssh in the containers of others.
ADDRESS = re.compile(r"[0-9A-Za-z._:%-]{1,255}")
IMAGE = re.compile(r"[0-9A-Za-z:]{0,100}")
MOST = 10**6
MOST_GPUS = 256

# After so many failures in one run a node has no part in it any more.
MOST_FAILURES = 2


@dataclass(frozen=True)
class Problem:
    """Why a run cannot start.

    Attributes:
        host: the node; None where it is the whole gang's.
        code: a key of `SENTENCES`, or of the table of role training_node.
        values: scalars by name.
        text: the sentence for people.
    """

    host: str | None
    code: str
    values: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Choice:
    """The nodes that a run gets, and what keeps it from starting there, if anything.

    Attributes:
        nodes: in the order of the play.
        problems: empty where it can start.
        message: the same for people.
        left_out: why others are not among them, a sentence for each node.
    """

    nodes: tuple[str, ...]
    problems: tuple[Problem, ...]
    message: str
    left_out: tuple[str, ...] = ()


def problem(host: str | None, code: str, **values: Any) -> Problem:
    """Return a problem with its sentence."""
    return Problem(host, code, values, SENTENCES[code].format(**values))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_count_of_gpus(value: Any) -> bool:
    # A run may start a rank for each.
    return _is_count(value) and value <= MOST_GPUS


def _is_problem(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.keys() == {"code", "values", "text"}
        and isinstance(entry["code"], str)
        and isinstance(entry["values"], Mapping)
        and isinstance(entry["text"], str)
    )


FORMS: Mapping[str, Callable[[Any], bool]] = {
    "problems": lambda value: isinstance(value, list) and all(map(_is_problem, value)),
    "image_id": lambda value: isinstance(value, str) and IMAGE.fullmatch(value) is not None,
    "address": lambda value: isinstance(value, str) and ADDRESS.fullmatch(value) is not None,
    "cores": _is_count,
    "gpus": _is_count_of_gpus,
    "gpu_devices": lambda value: isinstance(value, list),
    "gpus_idle": lambda value: isinstance(value, list),
    "hardware": lambda value: isinstance(value, Mapping),
    "bf16": lambda value: isinstance(value, bool),
}


def node_problems(host: str, probe: Mapping[str, Any]) -> list[Problem]:
    """Why a node is not fit; empty where it is."""
    if probe.get("unreachable", False):
        message = str(probe.get("msg", "no answer")).strip().removeprefix("Task failed: ")
        return [problem(host, "unreachable", message=message)]
    if "problems" not in probe:
        return [problem(host, "no_answer", message=probe.get("msg", "could not be looked at"))]
    for name, fits in FORMS.items():
        if name in probe and not fits(probe[name]):
            return [problem(host, "strange_answer", name=name)]
    return [Problem(host, **entry) for entry in probe["problems"]]


def choose(
    probes: Mapping[str, Mapping[str, Any]],
    node_count: int,
    node_minimum: int,
    image: str,
    failed: Mapping[str, int],
    slots: Mapping[str, int],
) -> Choice:
    """Choose the first fit nodes; those that failed before come last, and after two failures never.

    They keep the order of the inventory, and the hostfile has it too: started from node2 over
    node2, node4, node3, node1, mpirun of Open MPI 5.0.7 hung before the first rank 6 times in 20;
    in ascending order, never in 40.
    """
    unfit = {host: node_problems(host, probe) for host, probe in probes.items()}
    for host, problems in unfit.items():
        if not problems and slots[host] < 1:
            problems.append(problem(host, "no_slots"))
    for host, failures in failed.items():
        if host in unfit and failures >= MOST_FAILURES:
            unfit[host].append(problem(host, "failed_twice", failures=failures))
    fit = [host for host, problems in unfit.items() if not problems]
    chosen = sorted(fit, key=lambda host: failed.get(host, 0) > 0)[:node_count]
    nodes = tuple(host for host in fit if host in chosen)
    if len(nodes) < node_minimum:
        gang = problem(None, "too_few_nodes", minimum=node_minimum, fit=len(nodes))
    elif len({probes[host]["image_id"] for host in nodes}) > 1:
        gang = problem(None, "images_differ", image=image)
    else:
        behind = [host for host in fit if host not in chosen and failed.get(host, 0)]
        reasons = {host: _texts(problems) for host, problems in unfit.items() if problems}
        reasons |= dict.fromkeys(behind, "it was at fault in an attempt before")
        return Choice(nodes, (), "", tuple(f"{host}: {text}" for host, text in reasons.items()))
    lines = [gang.text]
    for host, problems in unfit.items():
        told = _texts(problems) or f"fit, image {probes[host]['image_id']}"
        lines.append(f"{host}: {told}")
    entries = [entry for problems in unfit.values() for entry in problems]
    return Choice(nodes, (gang, *entries), "\n".join(lines))


def _texts(problems: Sequence[Problem]) -> str:
    return "; ".join(entry.text for entry in problems)


def check_transport(transport: str, transports: Sequence[str]) -> Problem | None:
    """Return what is wrong with the name of a transport, if anything is."""
    if transport in transports:
        return None
    names = ", ".join(transports)
    return problem(None, "unknown_transport", transport=transport, transports=names)


def check_folder(folder: Path, name: str, is_name_made: bool) -> Problem | None:
    """Return what is wrong with the folder for the files of a run, if anything is.

    A run that is launched again has its own there, but not one whose name has just been made. What
    holds folders with manifests is the folder of all runs.
    """
    manifests = [folder / "manifest.json", *folder.glob("*/manifest.json")]
    others = [manifest for manifest in manifests if manifest.exists() and _run_of(manifest) != name]
    if others or (is_name_made and folder.is_dir() and any(folder.iterdir())):
        return problem(None, "foreign_folder", folder=str(folder))
    return None


def _run_of(manifest: Path) -> Any:
    """The run that a manifest is of; None where it does not say."""
    try:
        document = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return None
    return document.get("run_id") if isinstance(document, dict) else None


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """The action `training_run_choose`."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the chosen nodes, or the failure."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "probes": {"type": "dict", "required": True},
                "node_count": {"type": "int", "required": True},
                "node_minimum": {"type": "int", "required": True},
                "failed": {"type": "dict", "default": {}},
                "image": {"type": "str", "required": True},
                "transport": {"type": "str", "required": True},
                "transports": {"type": "list", "elements": "str", "required": True},
                "slots": {"type": "dict", "required": True},
                "name": {"type": "str", "required": True},
                "is_name_made": {"type": "bool", "required": True},
                "collect_dir": {"type": "path", "required": True},
            }
        )
        folder = Path(arguments["collect_dir"])
        wrong = check_transport(arguments["transport"], arguments["transports"]) or check_folder(
            folder, arguments["name"], arguments["is_name_made"]
        )
        if wrong is not None:
            choice = Choice((), (wrong,), wrong.text)
        else:
            choice = choose(
                {
                    # A task that failed has no answer.
                    host: {**told, **(told.get("answer") or {})}
                    for host, told in arguments["probes"].items()
                },
                arguments["node_count"],
                arguments["node_minimum"],
                arguments["image"],
                {host: int(count) for host, count in arguments["failed"].items()},
                arguments["slots"],
            )
        result["nodes"] = list(choice.nodes)
        result["left_out"] = list(choice.left_out)
        result["name"] = arguments["name"]
        if choice.problems:
            result["failed"] = True
            result["msg"] = choice.message
            result["problems"] = [asdict(entry) for entry in choice.problems]
        return result
