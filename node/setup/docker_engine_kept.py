"""What an engine ran with before its settings were changed: kept until it runs with the new ones.

Where that file is still there, a run was cut off in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from .docker_engine_plan import read


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
