"""What an inventory offers: nodes, models and data sets."""

import codecs
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

import yaml

from yard.core.errors import RequestError
from yard.core.files import read_object
from yard.core.project import OWN_FOLDERS, Project, inventory_name
from yard.plays.fingerprint import RUNTIME, inventory_files
from yard.plays.inventory_cache import recall, remember

# Ansible's words where it has no password for a file of its Vault, or a wrong one.
VAULT_LOCKED = "no vault secrets"
# What a file of it begins with.
VAULT = b"$ANSIBLE_VAULT"
# Machines with GPUs of one vendor each: no host is in both.
GPU_GROUPS = NVIDIA_GROUP, AMD_GROUP = "gpu_nodes", "amd_nodes"
# The image for NVIDIA GPUs until set-up has chosen one, as in group_vars/all/images.yml.
UNCHOSEN_IMAGE = "cuda12"
AMD_IMAGE = "rocm"
# What keeps the ranks apart from the rest of a node (group_vars/all/runtime.yml).
CONTAINER, NATIVE = "container", "native"
VAULT_REMEDY = (
    "    export ANSIBLE_VAULT_PASSWORD_FILE=<file with the password>, as in docs/roles.md#secrets"
)


@dataclass(frozen=True)
class Model:
    """A model and the training it gets unless the request says otherwise.

    `parameters` is the number of them, where the inventory tells.
    """

    name: str
    description: str
    defaults: Mapping[str, Any]
    parameters: int | None = None


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes:
        train_images: size of its training part, where the inventory tells.
        image_size: edge of its images in pixels; None where they are scaled to what is asked for.
        own: whether a user has put it on the nodes.
    """

    name: str
    description: str
    train_images: int | None = None
    image_size: int | None = None
    own: bool = False


@dataclass(frozen=True)
class Option:
    """A key of the trainer's configuration that a request may give.

    Attributes:
        kind: a key of `KINDS`; None where the inventory does not say it.
        least, above, below: limits of a number, the last two not in it.
        choices: the words there are; empty where any is taken.
        default: what the trainer takes where nothing is said, as far as others rely on it.
    """

    about: str
    kind: str | None = None
    least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    default: Any = None

    KINDS: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "number": (int, float),
        "whole number": (int,),
        "true or false": (bool,),
        "word": (str,),
    }

    @classmethod
    def from_entry(cls, entry: Any) -> "Option":
        """Build one from the inventory's entry: a line for people, or a mapping."""
        if not isinstance(entry, Mapping):
            return cls(str(entry))
        values = {name: entry.get(name) for name in ("least", "above", "below", "default")}
        return cls(
            about=str(entry.get("about", "")),
            kind=entry.get("is", "word" if "choices" in entry else None),
            choices=tuple(entry.get("choices", ())),
            **values,
        )

    def problem(self, value: Any) -> str:
        """What is wrong with a value; "" for nothing."""
        if self.choices:
            return "" if value in self.choices else f"choose from {', '.join(self.choices)}"
        if self.kind is None:
            return ""
        # To Python, true and false are whole numbers.
        is_switch = isinstance(value, bool)
        fits = isinstance(value, self.KINDS[self.kind])
        if not fits or is_switch != (self.kind == "true or false"):
            return f"must be {'' if self.kind.startswith('t') else 'a '}{self.kind}"
        if isinstance(value, float) and not math.isfinite(value):
            return "must be finite"
        if self.least is not None and not value >= self.least:
            return f"must be at least {self.least:g}"
        if self.above is not None and not value > self.above:
            return f"must be above {self.above:g}"
        if self.below is not None and not value < self.below:
            return f"must be below {self.below}"
        return ""


@dataclass(frozen=True)
class Inventory:
    """What a request can ask for.

    Attributes:
        name: its short name, see `inventory_name`.
        trainers: machines that train, in order.
        defaults: the inventory's `training_run_*` variables, without that prefix.
        options: the trainer's further options; empty where the inventory does not list them.
        choices: what an option may be, where the inventory says so (`training_engines` → engine).
        container_hosts: machines on which the nodes are containers that set-up makes.
        max_nodes: how many nodes set-up can make; None where nodes are given.
        cluster_size: how many it makes unasked; None where nodes are given.
        image_target: which image the nodes get: `runtime`, or where some have GPUs the one that
            set-up chose for them; beside nodes with NVIDIA's those with AMD's get another one.
        amd_image_target: which one that is.
        gpus: of each trainer, how many GPUs runs get of it; None where the inventory does not tell.
        slots: of each trainer, how many ranks it carries in a run that takes as many as each has:
            what the inventory says, or one for each of those GPUs.
        runtime: whether the ranks are in containers, or, of an account without root, in namespaces
            that it makes itself ("native").
        native_roots: of each trainer, where such an account has its files, as the inventory says
            it: a template is not filled in. Empty where it says nothing.
    """

    path: Path
    name: str
    trainers: tuple[str, ...]
    models: Mapping[str, Model]
    datasets: Mapping[str, Dataset]
    defaults: Mapping[str, Any]
    choices: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Option] = field(default_factory=dict)
    container_hosts: tuple[str, ...] = ()
    max_nodes: int | None = None
    cluster_size: int | None = None
    gpus: Mapping[str, int | None] = field(default_factory=dict)
    slots: Mapping[str, int | None] = field(default_factory=dict)
    image_target: str = "runtime"
    amd_image_target: str = AMD_IMAGE
    runtime: str = CONTAINER
    native_roots: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def select(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes that names stand for, in their order; all where there is no name.

        Args:
            names: of nodes or of groups, or patterns of either, such as `gpu0*`.

        Raises:
            RequestError: one stands for no node.
        """
        if not names:
            return self.trainers
        chosen: set[str] = set()
        unknown = []
        for name in names:
            hosts = {host for host in self.trainers if fnmatchcase(host, name)}
            if not hosts:
                groups = [hosts for group, hosts in self.groups.items() if fnmatchcase(group, name)]
                hosts = {host for group in groups for host in group}
            chosen |= hosts
            if not hosts:
                unknown.append(name)
        if unknown:
            there = ", ".join(self.trainers) or "none"
            raise RequestError(f"no node or group {', '.join(unknown)}; there are: {there}")
        return tuple(host for host in self.trainers if host in chosen)

    def narrowed(self, names: Sequence[str]) -> "Inventory":
        """The same with the nodes alone that names stand for; see `select`."""
        if not names:
            return self
        chosen = self.select(names)
        return replace(self, trainers=chosen, max_nodes=None, image_target=self.image_of(chosen))

    @property
    def has_two_images(self) -> bool:
        """Whether some nodes have NVIDIA's GPUs and some AMD's."""
        return all(self.groups.get(group) for group in GPU_GROUPS)

    def image_of(self, nodes: Collection[str]) -> str:
        """Which image nodes with GPUs of one vendor have, or without."""
        is_of_amd = self.has_two_images and not set(nodes).isdisjoint(self.groups[AMD_GROUP])
        return self.amd_image_target if is_of_amd else self.image_target

    @property
    def gpus_per_node(self) -> int:
        """How many GPUs every node has at the least; 0 where one has none, or is not told of."""
        return min((self.gpus.get(host) or 0 for host in self.trainers), default=0)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes a request can have: those there are, or those set-up can make."""
        if self.max_nodes is None:
            return self.trainers
        makeable = tuple(f"node{number}" for number in range(1, self.max_nodes + 1))
        return self.trainers + makeable[len(self.trainers) :]


def read_inventory(project: Project, path: Path) -> Inventory:
    """Ask Ansible for an inventory, unless it would say what it said last time.

    Asking takes most of a second and touches no machine.

    Raises:
        RequestError: there is no such inventory, its name is taken, or Ansible cannot read it.
    """
    path = path.absolute()
    if not path.exists():
        raise RequestError(f"no inventory at {project.shown(path)}")
    name = inventory_name(path)
    if not name or name in OWN_FOLDERS:
        raise RequestError(
            f"{project.shown(path)}: an inventory cannot be called {name!r}: .trainyard/{name} "
            "is Trainyard's own; give it another name"
        )
    remembered = recall(project, path)
    if remembered is not None:
        return _parse(project, remembered, path)
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "--list"]
    command += ["--inventory", str(path), "--playbook-dir", str(project.root)]
    # In a task of Ansible's stdin is a pipe that does not block, which Ansible refuses.
    answer = subprocess.run(
        command,
        cwd=project.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        mistakes = _mistakes(project, path) or _mistakes_in_vaults(project, path)
        mistakes = mistakes or [
            f"{project.shown(file)}: begins with a byte order mark, which Ansible takes for text; "
            "save it as UTF-8 without one"
            for file in inventory_files(path)
            if file.read_bytes().startswith(codecs.BOM_UTF8)
        ]
        strays = re.findall(r"Completely failed to parse inventory source (.+)", answer.stderr)
        mistakes = mistakes or [
            f"{project.shown(Path(file))}: is not an inventory, but Ansible reads every file in "
            "the folder; keep it elsewhere, or name the inventory's own file in INVENTORY="
            for file in strays
            if Path(file) != path
        ]
        mistakes = mistakes or answer.stderr.strip().split("\n")
        if VAULT_LOCKED in answer.stderr:
            mistakes.append(VAULT_REMEDY)
        raise RequestError(f"cannot read {project.shown(path)}", *mistakes)
    document = json.loads(answer.stdout)
    remember(project, path, document)
    return _parse(project, document, path)


def _parse(project: Project, document: Mapping[str, Any], path: Path) -> Inventory:
    """Build an inventory; a variable of a wrong type is named with its place."""
    try:
        return parse_inventory(document, path, project.image_fits(path))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        mistakes = _mistakes(project, path)
        if not mistakes:
            raise
        raise RequestError(*mistakes) from error


def _mistakes(project: Project, path: Path) -> list[str]:
    """Name the mistakes in an inventory's files, each with line and remedy.

    Ansible gives up at the first one that keeps it from reading a file, and often does not say
    where. So the role's own look at the files is asked, as the program that it is.
    """
    program = project.root / "roles/inventory_check/files/check_files.py"
    command = [sys.executable, str(program), str(path)]
    answer = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()


def _mistakes_in_vaults(project: Project, path: Path) -> list[str]:
    """Name encrypted files that are no YAML, which Ansible does not; nothing of them is shown."""
    program = str(Path(sys.executable).with_name("ansible-vault"))
    mistakes = []
    for file in inventory_files(path):
        with file.open("rb") as opened:
            if opened.read(len(VAULT)) != VAULT:
                continue
        answer = subprocess.run(
            [program, "view", str(file)], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        try:
            if answer.returncode == 0:
                yaml.compose(answer.stdout.decode(errors="replace"), yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            mistakes.append(
                f"{project.shown(file)}: its decrypted content is not YAML{line}: {error.problem}\n"
                f"    ansible-vault edit {project.shown(file)}"
            )
    return mistakes


def parse_inventory(
    document: Mapping[str, Any], path: Path, image_fits: Path | None = None
) -> Inventory:
    """Build an inventory from the output of `ansible-inventory --list`.

    Args:
        image_fits: the folder of what set-up chose for nodes with GPUs, where there is one.
    """
    hostvars: Mapping[str, Mapping[str, Any]] = document.get("_meta", {}).get("hostvars", {})
    trainers = tuple(dict.fromkeys(_hosts(document, "trainers")))
    container_hosts = tuple(dict.fromkeys(_hosts(document, "container_hosts")))
    # Site-wide variables are the same on every host. The first node is asked, and before there
    # is one, the machine that will hold the nodes.
    speaker = next(iter((*trainers, *container_hosts, *hostvars)), "")
    variables = hostvars.get(speaker, {})
    making = hostvars.get(container_hosts[0], {}) if container_hosts else {}
    prefix = "training_run_"
    with_gpus = {host for group in GPU_GROUPS for host in _hosts(document, group)}
    gpus = _gpus_by_host(trainers, with_gpus, hostvars)
    return Inventory(
        path=path,
        name=inventory_name(path),
        trainers=trainers,
        models=_models(variables),
        datasets={
            name: Dataset(
                name,
                str(entry.get("description", "")),
                entry.get("train_images"),
                entry.get("image_size"),
            )
            for name, entry in variables.get("training_datasets", {}).items()
        },
        defaults={
            name.removeprefix(prefix): value
            for name, value in variables.items()
            if name.startswith(prefix)
        },
        choices={
            option: tuple(variables[plural])
            for option, plural in (
                ("engine", "training_engines"),
                ("precision", "training_precisions"),
                ("transport", "training_transports"),
            )
            if plural in variables
        },
        options={
            name: Option.from_entry(entry)
            for name, entry in variables.get("training_options", {}).items()
        },
        container_hosts=container_hosts,
        max_nodes=making.get("local_cluster_max_nodes"),
        cluster_size=making.get("local_cluster_size"),
        gpus=gpus,
        slots={host: _slots(hostvars.get(host, {}), gpus[host]) for host in trainers},
        image_target=_image_target(document, variables, image_fits),
        amd_image_target=_said_image(variables) or AMD_IMAGE,
        runtime=_runtime(variables),
        native_roots={
            host: str(hostvars.get(host, {}).get("trainyard_native_root", "")) for host in trainers
        },
        groups={
            group: [host for host in _hosts(document, group) if host in trainers]
            for group in document
            if group != "_meta"
        },
    )


def _runtime(variables: Mapping[str, Any]) -> str:
    """What the inventory says, or else the environment."""
    said, told = str(variables.get("trainyard_runtime", "{{")), os.environ.get(RUNTIME)
    is_said = "{{" not in said
    runtime = said if is_said else told or CONTAINER
    if runtime not in (CONTAINER, NATIVE):
        raise RequestError(f"runtime {runtime}: there are {CONTAINER} and {NATIVE}")
    if told and told != runtime:
        raise RequestError(
            f"runtime {told}: the inventory says trainyard_runtime: {runtime}, which decides. "
            "Leave RUNTIME= out, or take that line out of the inventory."
        )
    return runtime


def _said_image(variables: Mapping[str, Any]) -> str:
    """What the site says; empty where it leaves it to group_vars/all/images.yml."""
    said = str(variables.get("trainer_image_target", "{{"))
    return "" if "{{" in said else said


def _image_target(
    document: Mapping[str, Any], variables: Mapping[str, Any], image_fits: Path | None
) -> str:
    """What the site says, or else what group_vars/all/images.yml makes of the groups."""
    if said := _said_image(variables):
        return said
    with_gpus = sorted(set(_hosts(document, NVIDIA_GROUP)))
    if not with_gpus:
        return AMD_IMAGE if any(_hosts(document, AMD_GROUP)) else "runtime"
    key = hashlib.sha256(" ".join(with_gpus).encode()).hexdigest()
    chosen = read_object(image_fits / f"{key}.json") if image_fits else {}
    return str(chosen.get("target", UNCHOSEN_IMAGE))


def _gpus_by_host(
    trainers: Sequence[str], with_gpus: Collection[str], hostvars: Mapping[str, Mapping[str, Any]]
) -> dict[str, int | None]:
    return {host: _gpus(hostvars.get(host, {})) if host in with_gpus else 0 for host in trainers}


def _gpus(variables: Mapping[str, Any]) -> int | None:
    named = str(variables.get("training_node_gpus", "all"))
    if named != "all" and "{{" not in named:
        return len({name.strip() for name in named.split(",") if name.strip()})
    count = variables.get("cluster_check_gpu_count")
    return count if isinstance(count, int) and count > 0 else None


def _slots(variables: Mapping[str, Any], gpus: int | None) -> int | None:
    said = variables.get("training_node_slots")
    return said if isinstance(said, int) and said > 0 else gpus


def _models(variables: Mapping[str, Any]) -> dict[str, Model]:
    """Models with an entry of their own, then those that share one, by their layers."""
    entries = variables.get("training_models", {})
    common = variables.get("training_model_defaults", {})
    with_adamw = {**common, **variables.get("training_adamw_defaults", {})}
    adamw = variables.get("training_adamw_models", ())
    parameters = variables.get("training_parameters", {})
    models = {}
    for name in dict.fromkeys((*entries, *parameters)):
        entry = entries.get(name, with_adamw if name in adamw else common)
        description = str(entry.get("description", ""))
        models[name] = Model(name, description, entry, parameters.get(name))
    return models


def _hosts(document: Mapping[str, Any], group: str) -> Iterator[str]:
    """Yield the hosts of a group and of the groups below it, in inventory order."""
    entry = document.get(group, {})
    yield from entry.get("hosts", [])
    for child in entry.get("children", []):
        yield from _hosts(document, child)
