"""Files of a notebook, back in the folder that they came from."""

import filecmp
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from yard.code.snapshot import FOLDER
from yard.core.errors import OtherVersionError
from yard.runs.folder import list_runs
from yard.runs.manifest import Manifest, read_manifest
from yard.runs.summary import is_over

# Of a run directory: what is new or changed in the working directory of its first node.
WORKDIR = "workdir"


@dataclass
class Returned:
    """What happened to the files of a notebook.

    Attributes:
        folder: where the files are now.
        written: paths below it that are new, or as the notebook left them.
        beside: of files that were changed here meanwhile too: where the notebook's version is.
        failed: what could not be written, with the reason.
    """

    folder: Path
    written: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def notebook_of(manifest: Manifest) -> dict[str, object] | None:
    """What a manifest says of a notebook: `node`, `folder`, `idle_minutes`; None for other runs."""
    return None if manifest.project is None else manifest.project.get("notebook")


def find_notebook(runs: Path, node: str, inventory: Path) -> Path | None:
    """The newest notebook of a node that is not summed up; None where there is none."""
    for run in reversed(list_runs(runs)):
        manifest = _manifest(run)
        about = None if manifest is None else notebook_of(manifest)
        if manifest is None or about is None or about["node"] != node:
            continue
        if manifest.inventory_path == str(inventory) and not is_over(run):
            return run
    return None


def return_files(run: Path, manifest: Manifest) -> Returned | None:
    """Copy what a notebook made or changed into its folder; None where it left nothing.

    A file of the folder is replaced only while it is as it was when the notebook began. Where not,
    the notebook's version goes beside it. Hidden files stay in the run directory: a node could
    send some that programs here obey, like those of git.
    """
    about, changed = notebook_of(manifest), run / WORKDIR
    if about is None or not changed.is_dir():
        return None
    returned = Returned(Path(str(about["folder"])))
    for above, folders, names in os.walk(changed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            source = Path(above, name)
            if name.startswith(".") or source.is_symlink() or "__pycache__" in source.parts:
                continue
            path = source.relative_to(changed)
            try:
                _return_file(source, run / FOLDER / path, path, run.name, returned)
            except OSError as error:
                returned.failed.append(f"{path}: {error.strerror}")
    return returned


def _return_file(source: Path, sent: Path, path: Path, run: str, returned: Returned) -> None:
    target = returned.folder / path
    if _leads_away(returned.folder, path):
        raise OSError(0, "a link is in its place")
    if not target.exists():
        _copy(source, target)
        returned.written.append(str(path))
    elif filecmp.cmp(source, target, shallow=False):
        return
    elif sent.is_file() and filecmp.cmp(sent, target, shallow=False):
        _copy(source, target)
        returned.written.append(str(path))
    else:
        other = path.with_name(f"{path.stem}.{run}{path.suffix}")
        if not (returned.folder / other).exists():
            _copy(source, returned.folder / other)
        returned.beside.append(str(other))


def _leads_away(folder: Path, path: Path) -> bool:
    """Whether a part of a path below a folder is a link: another file would change through it."""
    return any((folder / part).is_symlink() for part in (path, *path.parents[:-1]))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        shutil.copyfile(source, scratch)
        os.replace(scratch, target)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _manifest(run: Path) -> Manifest | None:
    try:
        return read_manifest(run)
    except OtherVersionError:
        return None
