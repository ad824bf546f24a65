"""The Docker engine of a machine, compared with what is to be there."""

from __future__ import annotations

import grp
import hashlib
import json
import pwd
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.docker import EngineError, ask, image
from ..failure import VerbError
from .docker_engine_settings import SettingsError, is_pending, make_plan, read
from .docker_engine_units import (
    SERVICE,
    Units,
    is_stopped,
    masked_units,
    network_lines,
    read_units,
    replaced_units,
    runs_and_starts,
    unit_flags,
)
from .files import is_roots
from .packages_records import (
    DIRECTORY,
    LIST_COMMAND,
    bare_name,
    names_with,
    output_of,
    parse_packages,
    read_records,
    unsettled,
)

# Where an engine without systemd has its options.
OPTIONS_FILE = Path("/etc/default/docker")
GROUP = "docker"
OWNER = "docker_engine"
# Seconds that an engine may take. One that its socket has just started takes some; one that runs
# needs none to say that it does.
PATIENCE, PATIENCE_WITH_RUNNING = 30.0, 15.0


class EngineFile(NamedTuple):
    """A file of root's: with this text, or with this checksum (algorithm:digest); or not there."""

    path: str
    text: str | None = None
    checksum: str | None = None
    mode: str = "0644"


class Image(NamedTuple):
    """An image that the engine is to have; in a dry run there may be no engine yet."""

    reference: str
    dry: bool = False


class Engine(NamedTuple):
    """What is to be there.

    Attributes:
        other_package: what goes when the packages come.
        conflicts: packages that cannot be beside them.
        options: settings of the engine.
        defaults: settings where neither options nor machine say anything.
        settings: file of its settings.
        record: directory with what was there before.
        kept: file with what it ran with before a change, until it runs with what is written.
        users: who may talk to it; with `exclusive` nobody else.
        adopt: leave one that answers as it is.
        systemd: whether units start it.
    """

    other_package: str
    settings: str
    record: str
    kept: str
    systemd: bool
    packages: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    files: Sequence[EngineFile] = ()
    options: Mapping[str, Any] = {}
    defaults: Mapping[str, Any] = {}
    users: Sequence[str] = ()
    exclusive: bool = False
    adopt: bool = False
    state: str = "present"


@dataclass(frozen=True)
class Note:
    """What the role did to the group, so that it can be taken back.

    Attributes:
        before: who was in it when the role first came.
        let_in: whom the role let in.
        put_out: who was in it before and left it for the role.
    """

    before: list[str]
    let_in: list[str]
    put_out: list[str]


@dataclass(frozen=True)
class GroupPlan:
    """Who joins, who leaves, who is in it then without being named, and the note of it."""

    joins: list[str]
    leaves: list[str]
    unnamed: list[str]
    note: Note


def is_as_wanted(file: EngineFile) -> bool:
    """Whether a file is what it is to be."""
    path = Path(file.path)
    if file.text is None and file.checksum is None:
        return not path.exists()
    if not is_roots(path, file.mode):
        return False
    content = path.read_bytes()
    if file.text is not None:
        return content == file.text.encode()
    algorithm, _, digest = (file.checksum or "").partition(":")
    return hashlib.new(algorithm, content).hexdigest() == digest


def members() -> list[str] | None:
    """Return who is in the group that may talk to the engine; None where there is no such group."""
    try:
        return sorted(grp.getgrnam(GROUP).gr_mem)
    except KeyError:
        return None


def user_exists(name: str) -> bool:
    """Whether the machine knows a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def unknown_users(wanted: Engine) -> list[str]:
    """Return who is to be let in and is no user; those of a directory service are."""
    return [name for name in wanted.users if not user_exists(name)]


def note_of_members(before: Collection[str], now: Collection[str]) -> Note:
    """Return the note of a role that kept only who was there before, and let nobody else in."""
    earlier, members = set(before), set(now)
    return Note(sorted(earlier), sorted(members - earlier), sorted(earlier - members))


def make_group_plan(
    now: Collection[str], note: Note, users: Collection[str], *, exclusive: bool, absent: bool
) -> GroupPlan:
    """Compare the members with those that are to be.

    Args:
        exclusive: nobody else stays.
        absent: the role goes: whom it let in leaves, and whom it put out comes back.
    """
    members, named, let_in = set(now), set(users), set(note.let_in) & set(now)
    others = members - let_in
    stay = set() if exclusive and not absent else others
    wanted = stay | (set(note.put_out) if absent else named)
    put_out = (set(note.put_out) | (others - wanted)) & set(note.before) - wanted
    return GroupPlan(
        joins=sorted(wanted - members),
        leaves=sorted(members - wanted),
        unnamed=sorted(wanted - named),
        note=Note(note.before, sorted((let_in & named) | (named - members)), sorted(put_out)),
    )


def group_plan(wanted: Engine) -> GroupPlan | None:
    """Compare who may talk to the engine; None where the role goes and never touched the group."""
    now, record = members() or [], Path(wanted.record)
    absent = wanted.state == "absent"
    noted, before = read(record / "group.json"), read(record / "members")
    if noted is not None:
        note = Note(**json.loads(noted))
    elif before is not None:
        # Of a role before this one, which had nobody in the group but who was named.
        note = note_of_members(before.replace(",", " ").split(), now)
    elif absent:
        return None
    else:
        note = note_of_members(now, now)
    return make_group_plan(now, note, wanted.users, exclusive=wanted.exclusive, absent=absent)


def access_differences(wanted: Engine, plan: GroupPlan | None) -> Iterator[str]:
    """Compare who may talk to the engine."""
    record = Path(wanted.record)
    if unknown := unknown_users(wanted):
        yield f"there is no user {', '.join(unknown)}"
    if members() is None or (plan and (plan.joins or plan.leaves)):
        yield f"the group {GROUP} has other members"
    noted = json.loads(read(record / "group.json") or "null")
    if not is_roots(record, "0755") or noted != (plan and asdict(plan.note)):
        yield "there is no record of who was in the group before"


# Packages that are the engine: where one came with the role, the engine goes with it.
ENGINES = frozenset({"docker.io", "docker-ce", "containerd", "containerd.io"})


def ends_containers(wanted: Engine, ours: Iterable[str]) -> bool:
    """Whether the engine goes with the role, or has to be restarted without its settings.

    Args:
        ours: the packages that came with the role.
    """
    record = Path(wanted.record)
    try:
        plan = make_plan(Path(wanted.settings), record, {}, True)
    except SettingsError:
        return True
    return bool(ENGINES & set(ours)) or plan.new != plan.text or (record / "proxy.env").exists()


def held(packages: Iterable[str]) -> list[str]:
    """Return those of the packages that apt holds."""
    holds = {bare_name(name) for name in output_of(["apt-mark", "showhold"]).split()}
    return sorted(holds & set(packages))


def ask_engine(runs: bool = False) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the engine tells of itself, None where none answers, and what was wrong.

    Args:
        runs: whether its unit has started.

    Raises:
        TimeoutError: it runs and says nothing.
    """
    try:
        if ask("GET", "/_ping", PATIENCE_WITH_RUNNING if runs else PATIENCE)[0] != HTTPStatus.OK:
            return None, []
    except EngineError as error:
        if runs and isinstance(error.__cause__, TimeoutError):
            raise error.__cause__ from error
        return None, []
    try:
        status, answer = ask("GET", "/info", PATIENCE)
        told = json.loads(answer) if status == HTTPStatus.OK else None
    except (EngineError, ValueError) as error:
        return {}, [f"the engine does not tell of itself: {error}"]
    if not isinstance(told, dict):
        return {}, [f"the engine does not tell of itself: status {status}"]
    return told, []


def is_in_swarm(told: Mapping[str, Any]) -> bool:
    """Whether an engine that tells of itself is part of a swarm, or about to be."""
    return bool(told) and told.get("Swarm", {}).get("LocalNodeState") != "inactive"


def differences(
    wanted: Engine,
    units: Units,
    group: GroupPlan | None,
    missing: list[str],
    told: Mapping[str, Any] | None,
) -> Iterator[str]:
    """Compare the machine with what the role would make of it.

    Args:
        told: what the engine tells of itself; None where it does not answer.
    """
    if missing:
        yield f"packages: {', '.join(missing)}"
    yield from access_differences(wanted, group)
    if told is None:
        yield "no engine answers"
    if wanted.systemd and not runs_and_starts(units):
        yield "the engine does not run as a unit that starts with the machine"
    try:
        settings, record = Path(wanted.settings), Path(wanted.record)
        flags = unit_flags(units)
        plan = make_plan(settings, record, wanted.options, False, wanted.defaults, flags)
    except SettingsError as error:
        yield str(error)
        return
    if plan.changed:
        yield f"{settings} has other settings"
    elif plan.keeps_containers and is_in_swarm(told or {}):
        yield "the engine is part of a swarm"


def look_at_engine(wanted: Engine) -> dict[str, Any]:
    """Return what differs, and what the tasks that change it need to know.

    Raises:
        VerbError: `failed`: the engine hangs.
    """
    units = read_units() if wanted.systemd else {}
    try:
        told, found = ask_engine(units.get(SERVICE, {}).get("ActiveState") == ["active"])
    except TimeoutError as error:
        raise VerbError(
            "failed",
            message=f"docker_engine: the engine runs and says nothing for {PATIENCE_WITH_RUNNING:g}"
            " s. Nothing was changed. `systemctl restart docker` there starts it anew; `journalctl"
            " --unit docker` tells more.",
        ) from error
    group = group_plan(wanted)
    masked = masked_units(units)
    absent = wanted.state == "absent"
    result: dict[str, Any] = {
        "answers": told is not None,
        "stopped": is_stopped(units),
        # An engine that runs needs no socket of systemd's.
        "masked": masked if told is None or SERVICE in masked else [],
        "unknown_users": unknown_users(wanted),
        "files": [file.path for file in wanted.files if not is_as_wanted(file)],
        "network": network_lines(units, OPTIONS_FILE),
        "replaced": replaced_units(units),
        "pending": is_pending(Path(wanted.kept)),
        # Without a group nobody comes back into it. One who is gone would be refused.
        "joins": [name for name in group.joins if user_exists(name)]
        if group and not (absent and members() is None)
        else [],
        "leaves": group.leaves if group else [],
        "unnamed": group.unnamed if group and not (absent or wanted.adopt) else [],
        "group_note": asdict(group.note) if group else {},
    }
    installed: list[str] = []
    ours: set[str] = set()
    holds: list[str] = []
    try:
        installed = names_with("installed", parse_packages(output_of(LIST_COMMAND)))
        missing = unsettled(OWNER, wanted.packages)
        ours = set(read_records(DIRECTORY).get(OWNER, []))
        others = set(wanted.conflicts) & set(installed)
        holds = held({*map(bare_name, missing), *others}) if missing else []
        found += differences(wanted, units, group, missing, told)
    except RuntimeError as error:
        # What cannot be read here is said by the task that needs it.
        found.append(str(error))
    result["ends_containers"] = absent and ends_containers(wanted, ours)
    other = wanted.other_package
    result["other_installed"] = other in installed
    result["unmanaged"] = sorted(set(wanted.conflicts) & set(installed) - ours)
    result["held"] = holds
    # Of a snap, say, or unpacked by hand: one of a package would take its socket.
    engines = {"docker.io", "docker-ce", *map(bare_name, wanted.packages[:1])}
    result["unpackaged"] = bool(told is not None and installed and engines.isdisjoint(installed))
    found += [f"{other} is installed"] if result["other_installed"] else []
    found += [f"{path} is not as it is to be" for path in result["files"]]
    found += [*result["network"], *(f"{unit} was replaced" for unit in result["replaced"])]
    found += ["the engine was not started with what is written"] if result["pending"] else []
    differs = not result["answers"] if wanted.adopt else absent or bool(found)
    return {"differs": differs, "differences": found, **result}


def look_for_image(wanted: Image) -> dict[str, Any]:
    """Tell whether it is missing.

    Raises:
        VerbError: `failed`: the engine does not answer.
    """
    try:
        return {"differs": image(wanted.reference) is None}
    except EngineError as error:
        if wanted.dry:
            return {"differs": True}
        raise VerbError("failed", message=f"trainer_image: {error}") from error
