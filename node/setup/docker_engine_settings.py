"""What an engine's settings file and the notes of it are to hold, and what it ran with before.

What it ran with before a change is kept until it runs with the new settings. Where that file is
still there, a run was cut off in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .docker_engine_units import Flag

# An engine refuses options of a log driver that is not theirs, so both are one choice.
LOGS = {"log-driver", "log-opts"}
# The driver of an engine that is told none
ENGINE_DRIVER = "json-file"


class SettingsError(Exception):
    """The settings cannot be; the message says why, and what to do."""


@dataclass(frozen=True)
class Plan:
    """The settings as they are and as they are to be.

    Attributes:
        text: what is in the file; None where there is none.
        new: what is to be in it; None where it goes.
        settings: the settings of `new`.
        note: what is to be in the note.
        changed: whether file or note differ from that.
        lost: what the machine has of its own and loses now.
        own: what it has of its own and keeps, in place of a default.
        keeps_containers: whether containers outlive the engine then.
    """

    text: str | None
    new: str | None
    settings: dict[str, Any]
    note: dict[str, Any]
    changed: bool
    lost: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    keeps_containers: bool = False


def read(path: Path) -> str | None:
    """Return the text of a file, None where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def note_file(record: Path) -> Path:
    """Return where the note lies, in the directory that its owner gave."""
    return record / "settings.json"


def with_group(names: Iterable[str]) -> set[str]:
    """Return the names of settings, with what can only be chosen together with them."""
    found = set(names)
    return found | LOGS if found & LOGS else found


def chosen(
    options: Mapping[str, Any], defaults: Mapping[str, Any], said: Iterable[str]
) -> dict[str, Any]:
    """Return what is merged into an engine's settings.

    Args:
        defaults: what is good for machines that say nothing.
        said: names of settings that the machine has already, in its file or in a flag.
    """
    taken = with_group({*said, *options})
    result = {key: value for key, value in defaults.items() if key not in taken}
    if LOGS & set(options):
        result["log-driver"] = ENGINE_DRIVER
    return {**result, **options}


def merged(settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the options in them; dictionaries in both are merged."""
    result = dict(settings)
    for key, value in options.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        else:
            result[key] = deepcopy(value)
    return result


def without(
    settings: Mapping[str, Any], options: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings with the options taken out of them again.

    Args:
        options: what was merged into it. A key that has another value by now is not ours any more.
        before: the file as it was before that; a key that it had gets its value back.
    """
    result = dict(settings)
    for key, value in options.items():
        if key not in result:
            continue
        old = before.get(key)
        if result[key] == value:
            left = old
        elif isinstance(result[key], dict) and isinstance(value, dict):
            left = without(result[key], value, old if isinstance(old, dict) else {})
        else:
            continue
        if left or key in before:
            result[key] = left
        else:
            del result[key]
    return result


def parsed(text: str | None) -> dict[str, Any]:
    """Return the settings of a file's text, none for a file that is missing or empty.

    Raises:
        ValueError: the text is not a JSON object.
    """
    settings = json.loads(text) if text and text.strip() else {}
    if not isinstance(settings, dict):
        raise ValueError("not a JSON object")
    return settings


def shown(key: str, value: object) -> str:
    """Name a setting of somebody's; of several values, which may be secret, only the names."""
    if isinstance(value, dict):
        return f"{key} ({', '.join(value)})"
    return f"{key} ({len(value)})" if isinstance(value, list) else f"{key} {json.dumps(value)}"


def refuse_flags(path: Path, options: Mapping[str, Any], flags: Mapping[str, Flag]) -> None:
    """Refuse options of the site that a flag sets.

    Raises:
        SettingsError: there are such.
    """
    settings_file = flags.get("--config-file")
    if settings_file and settings_file.value != str(path):
        raise SettingsError(
            f"docker_engine: the engine reads other settings than {path}: {settings_file}. "
            "Nothing was changed. Take that out, and move the settings there."
        )
    for key in sorted(with_group(options) & set(flags)):
        raise SettingsError(
            f"docker_engine: {key} is to be in {path}, and the engine is started with "
            f"{flags[key]}: with both it does not start. Nothing was changed. Take it out there, "
            "or out of docker_engine_daemon_options (data-root: docker_engine_data_root; "
            "registry-mirrors: docker_engine_registry_mirrors)."
        )


def make_plan(
    path: Path,
    record: Path,
    options: Mapping[str, Any],
    absent: bool,
    defaults: Mapping[str, Any] | None = None,
    flags: Mapping[str, Flag] | None = None,
) -> Plan:
    """Compare the settings file with the options that are to be in it.

    Args:
        absent: the options are taken out, not put in.
        defaults: what is merged too, where neither file nor flags nor options say anything.
        flags: what the engine's unit says.

    Raises:
        SettingsError: the file is not JSON, the engine would listen on the network, or it would
            not start.
    """
    defaults, flags = defaults or {}, flags or {}
    text = read(path)
    noted = json.loads(read(note_file(record)) or "null")
    if absent and noted is None:
        return Plan(text, text, {}, {}, changed=False)
    before = noted["before"] if noted else text
    try:
        now, earlier = parsed(text), parsed(before)
    except ValueError as error:
        raise SettingsError(
            f"docker_engine: {path} cannot be read as JSON: {error}. Nothing was changed. "
            "Mend it, or move it away."
        ) from error
    others = without(now, noted["options"], earlier) if noted else now
    wished = {} if absent else chosen(options, defaults, {*others, *flags})
    driver = others.get("log-driver", ENGINE_DRIVER)
    stay = dict(others)
    if wished.get("log-driver", driver) != driver and stay.pop("log-opts", None):
        wished.setdefault("log-opts", {})  # named, so that those of before come back
    settings = merged(stay, wished)
    hosts = settings.get("hosts") or []
    network = [host for host in hosts if not host.startswith(("unix:", "fd:"))]
    if network and not absent:
        raise SettingsError(
            f"docker_engine: with hosts {', '.join(network)} in {path} the engine would listen "
            "on the network, where whoever reaches it is root. Nothing was changed. Take them out."
        )
    if not absent:
        refuse_flags(path, options, flags)
    new: str | None
    if absent and settings == earlier:
        new = before
    elif absent and not settings:
        new = None  # what others had merged in before is gone too
    elif settings == now and text is not None:
        new = text
    else:
        new = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    # Of what is merged from now on, before is now.
    fresh = wished.keys() - noted["options"].keys() if noted else set()
    then = {key: value for key, value in earlier.items() if key not in fresh}
    then |= {key: others[key] for key in fresh & others.keys()}
    if then != earlier:
        before = json.dumps(then)
    note = {"before": before, "options": wished}
    live = flags.get("live-restore")
    return Plan(
        text,
        new,
        settings,
        note,
        changed=new != text or absent or note != noted,
        lost=[
            f"{shown(key, value)} becomes {shown(key, settings[key])}"
            if key in settings
            else f"{shown(key, value)} goes"
            for key, value in others.items()
            if now.get(key) == value and settings.get(key) != value
        ],
        own=[
            shown(key, others[key]) if key in others else str(flags[key])
            for key in defaults
            if key not in wished and (key in others or key in flags)
        ],
        keeps_containers=live.on if live else bool(settings.get("live-restore")),
    )


def write_for_root(
    path: Path, text: str, mode: int = 0o600, owner: tuple[int, int] = (0, 0)
) -> None:
    """Replace a file at once; until it is there nobody else can read it. A link stays one."""
    path = path.resolve()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if os.geteuid() == 0:
        os.chown(new, *owner)
    new.chmod(mode)
    new.rename(path)


def keep(kept: Path, paths: Iterable[Path]) -> None:
    """Note what is in files that are about to change, unless an earlier change still waits.

    Args:
        kept: the file for it. It may hold a proxy's password.
        paths: the files; that one is not there is noted too.
    """
    if kept.exists():
        return
    files = {}
    for path in paths:
        state = path.stat() if path.exists() else None
        files[str(path)] = state and [
            read(path),
            state.st_mode & 0o7777,
            state.st_uid,
            state.st_gid,
        ]
    write_for_root(kept, json.dumps(files))


def is_pending(kept: Path) -> bool:
    """Whether files differ from what the engine was last started with."""
    files = json.loads(read(kept) or "{}")
    return any(read(Path(path)) != (file and file[0]) for path, file in files.items())


def put_back(kept: Path, settings: Path, tried: Path) -> list[str]:
    """Put back what was kept, and return the files that had changed.

    Args:
        tried: where those are left that are in it now.
    """
    changed = []
    for name, file in json.loads(read(kept) or "{}").items():
        path = Path(name)
        text = read(path)
        if text == (file and file[0]):
            continue
        changed.append(name)
        if path == settings and text is not None:
            write_for_root(tried, text)
        if file is None:
            path.unlink()
        else:
            content, mode, user, group = file
            write_for_root(path, content, mode, (user, group))
    kept.unlink(missing_ok=True)
    return changed
