"""The verb `probe`: is this node fit for a run, and if not, why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..check.check import Check
from ..check.folder import FolderError, find_mount
from ..check.gpu_fit import GpuFit, look_at_gpus, specification_problems
from ..check.paths import (
    disk,
    is_missing,
    memory,
    open_files,
    readable,
    stray_checks,
    strays,
    trouble_at,
    trouble_in,
    writable,
)
from ..check.problems import Problem, failed_check, no_engine, problem
from ..check.site import SiteError, read_site, use_problems
from ..engine.containers import (
    EngineError,
    containers,
    image,
    is_native,
    require_engine,
    running_containers,
)
from ..forms import LocalPath
from ..machine.account import ranks_account
from ..machine.gpus import NVIDIA
from ..machine.hardware import hardware, interface_of, multiplies_bf16
from ..runs.allocation import free_gpus, free_port, held_gpus, in_the_way, shortage, why_deaf
from ..runs.listing import drained_by
from ..runs.lock import holder_values, holders


class Needs(NamedTuple):
    """What a run needs of a machine.

    Attributes:
        directory: of all runs.
        data: directory of the data sets.
        address, port: that the sshd of the run's container will listen on.
        free_gigabytes: on the disk of the runs, in 10^9 bytes.
        uid, gid: whom the ranks run as.
        memory_gigabytes: that is free, in 2^30 bytes.
        dataset: a directory below `data`; with `own_data` perhaps a folder of the machine.
        own_data: whether that is data of a user's own.
        ports: how many from `port` on the runs that share the machine may take.
        transport: that the image must know; empty for any.
        gpus: that runs may have: all, or numbers with commas between; empty for none.
        gpu_vendor: of them, nvidia or amd.
        gpus_wanted: how many the run takes; 0 for the whole machine.
        site: what those agreed on who use the machine too.
    """

    image: str
    directory: LocalPath
    data: LocalPath
    address: str
    port: int
    free_gigabytes: float
    uid: int
    gid: int
    memory_gigabytes: float
    open_files: int
    dataset: str = ""
    own_data: bool = False
    ports: int = 1
    transport: str = ""
    needs_gpu: bool = False
    gpus: str = ""
    gpu_vendor: str = NVIDIA
    gpus_wanted: int = 0
    site: Mapping[str, Any] = {}
    operator: str = ""
    sys: str = "/sys"


@dataclass
class EngineAnswer:
    """What the engine says.

    Attributes:
        image_id: identity of the image; empty where it is not there.
        labels: of the image; None where it is not there.
        locks: of the live runs that hold the node or parts of it.
        run: one of them, or of which only a container is there; empty where there is none.
        strays: what trains and belongs to no run; None where no engine answered.
    """

    image_id: str = ""
    labels: dict[str, str] | None = None
    locks: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""
    strays: list[Problem] | None = None
    problems: list[Problem] = field(default_factory=list)


def ask_engine(needs: Needs) -> EngineAnswer:
    """Ask the engine for the image, for runs and for what belongs to none."""
    answer = EngineAnswer()
    try:
        require_engine()
        answer.strays = ask_strays(needs.uid)
        ask_image(needs, answer)
        if needs.gpus and needs.gpu_vendor == NVIDIA:
            answer.problems += specification_problems(needs.sys)
        elif needs.gpus and is_native():
            answer.problems.append(problem("gpus_not_native"))
        ask_holder(needs, answer)
    except EngineError as error:
        answer.problems.append(no_engine(error))
    return answer


def ask_strays(uid: int) -> list[Problem]:
    """Return what trains and belongs to no run; an account's own processes may do anything."""
    if is_native():
        return []
    problems: list[Problem] = strays(uid, running_containers())
    return problems


def ask_image(needs: Needs, answer: EngineAnswer) -> None:
    """See whether the image is there and can do the transport."""
    details = image(needs.image)
    if details is None:
        answer.problems.append(problem("image_missing", image=needs.image))
        return
    answer.image_id = details["Id"]
    answer.labels = details["Config"]["Labels"] or {}
    transports = answer.labels.get("trainyard.transports", "").split()
    if needs.transport and needs.transport not in transports:
        answer.problems.append(
            problem(
                "transport_missing",
                image=needs.image,
                transport=needs.transport,
                transports=", ".join(transports) or "none",
            )
        )


def ask_holder(needs: Needs, answer: EngineAnswer) -> None:
    """See which runs have the node: by their locks, or by a container that still runs."""
    if os.path.isdir(needs.directory):
        answer.locks = holders(needs.directory)
    with_lock = [lock["run"] for lock in answer.locks]
    running = [
        entry["Labels"]["trainyard.run"]
        for entry in containers("trainyard.run")
        if entry["State"] == "running"
    ]
    answer.run = next(iter([*with_lock, *running]), "")
    answer.problems += [
        problem("held", **holder_values(lock))
        for lock in in_the_way(answer.locks, needs.gpus_wanted)
    ]
    lockless = [run for run in running if run not in with_lock]
    if lockless and (needs.gpus_wanted or not answer.locks):
        answer.problems.append(problem("held_by_container", run=lockless[0]))


def check_node(needs: Needs) -> list[Check]:
    """Look at what every run needs of a node, engine or not."""
    checks = [memory(needs.memory_gigabytes), open_files(needs.open_files)]
    # Where these directories are missing, set-up is: that is said once.
    if os.path.isdir(needs.directory):
        checks.append(disk(needs.directory, needs.free_gigabytes))
        checks.append(writable(needs.directory, needs.uid, needs.gid))
    if not is_missing(trouble_at(needs.data)):
        checks.append(readable(needs.data, needs.uid, needs.gid))
    return checks


def look_for_gpus(needs: Needs, engine: EngineAnswer) -> GpuFit:
    """Compare the GPUs that a run can have with those that it needs."""
    if not needs.gpus:
        lacking = [problem("gpu_not_given", transport=needs.transport)] if needs.needs_gpu else []
        return GpuFit(problems=[*lacking, *shortage([], needs.gpus_wanted, 0, 0)])
    fit: GpuFit = look_at_gpus(
        needs.gpus,
        needs.image,
        engine.labels,
        needs.sys,
        needs.gpus_wanted,
        held_gpus(engine.locks),
        needs.gpu_vendor,
    )
    # Of a node that somebody has as a whole that is said. What computes there are that one's ranks:
    # nobody is to kill them.
    if in_the_way(engine.locks, needs.gpus_wanted) or "held_by_container" in [
        found.code for found in engine.problems
    ]:
        return replace(fit, problems=[found for found in fit.problems if found.code != "gpu_busy"])
    # Of GPUs that cannot be asked that is said.
    if fit.gpus:
        few = shortage(engine.locks, needs.gpus_wanted, len(fit.idle), len(fit.gpus))
        return replace(fit, problems=[*few, *fit.problems])
    return fit


def computes_in_bf16(gpus: GpuFit) -> bool:
    """Whether what computes on this node multiplies bfloat16: its GPUs, else the processor."""
    if gpus.gpus:
        # One that is lost says nothing, and computes nothing.
        return all(gpu.multiplies_bf16 for gpu in gpus.gpus if not gpu.trouble)
    processor: bool = multiplies_bf16()
    return processor


def path_problems(needs: Needs) -> list[Problem]:
    """Look for the directory of the runs and for the data set."""
    problems = []
    if not os.path.isdir(needs.directory):
        problems.append(problem("no_directory", path=needs.directory))
    path, reason = drained_by(needs.directory)
    if path:
        problems.append(problem("drained", path=path, reason=reason))
    if not needs.dataset:
        return problems
    if needs.own_data and os.path.isabs(needs.dataset):
        try:
            find_mount(needs.dataset, needs.uid, needs.gid, needs.directory)
        except FolderError as error:
            problems.append(error.problem)
        return problems
    path = os.path.join(needs.data, needs.dataset)
    # Data is put in place as a whole; what comes from elsewhere has at least something in it.
    # As the ranks will: root may look into everything.
    user = needs.uid, needs.gid
    if needs.own_data:
        trouble = trouble_in(path, *user)
    else:
        trouble = trouble_at(os.path.join(path, "dataset.json"), *user)
        if is_missing(trouble):
            # Of images that came as folders.
            trouble = trouble_at(os.path.join(path, "train"), *user)
    if is_missing(trouble) and needs.own_data:
        problems.append(problem("own_data_missing", path=path, dataset=needs.dataset))
    elif is_missing(trouble):
        problems.append(problem("dataset_missing", path=path, dataset=needs.dataset))
    elif trouble:
        problems.append(problem("dataset_unreadable", path=path, message=trouble))
    return problems


def site_problems(needs: Needs) -> list[Problem]:
    """Compare with what those agreed on who use this node too."""
    try:
        problems: list[Problem] = use_problems(read_site(), needs.site, needs.operator)
    except SiteError as error:
        return [problem("site_unreadable", message=str(error))]
    return problems


def port_problems(needs: Needs, engine: EngineAnswer) -> list[Problem]:
    """See whether there is a port for the run's sshd."""
    address, first = needs.address, needs.port
    if needs.gpus_wanted or is_native():
        last = first + needs.ports - 1
        if free_port(address, range(first, last + 1), engine.locks) is None:
            return [problem("ports_taken", address=address, first=first, last=last)]
        return []
    # While a run holds the node, its own sshd holds the port: one cause is named once.
    message = "" if engine.run else why_deaf(address, first)
    return [problem("port_taken", address=address, port=first, message=message)] if message else []


def probe(needs: Needs) -> dict[str, Any]:
    """Tell whether this machine is fit for a run, and what it has.

    Returns:
        `problems`: why it is not, code, values and text of each; none where it is. `checks`: what
        was looked at, value beside threshold. `hardware`: see machine.hardware. `image_id` of the
        image, `run` that has the machine, else empty; `address` and `interface` for the run's sshd;
        `cores`; `gpus`: how many runs may have, `gpu_devices`: what is known of each, `gpus_idle`:
        index and uuid of those that nobody has; and `bf16`: whether what computes multiplies it.
    """
    uid, gid = ranks_account(needs.uid, needs.gid)
    needs = needs._replace(uid=uid, gid=gid)
    checks = check_node(needs)
    engine = ask_engine(needs)
    gpus = look_for_gpus(needs, engine)
    problems = [
        *engine.problems,
        *gpus.problems,
        *path_problems(needs),
        *site_problems(needs),
        *port_problems(needs, engine),
        *(failed_check(check) for check in checks if not check.ok),
        *(engine.strays or []),
    ]
    if engine.strays is not None:
        checks += stray_checks(engine.strays)
    return {
        "problems": [entry.asdict() for entry in problems],
        "checks": [check.asdict() for check in checks],
        "hardware": hardware(needs.data),
        "image_id": engine.image_id,
        "run": engine.run,
        "address": needs.address,
        "interface": interface_of(needs.address),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": len(gpus.gpus),
        "gpu_devices": [gpu.asdict() for gpu in gpus.gpus],
        "gpus_idle": free_gpus([gpu.asdict() for gpu in gpus.idle], engine.locks),
        "bf16": computes_in_bf16(gpus),
    }
