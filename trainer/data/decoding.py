"""Decodes all images of a data set of files before it is sent: a damaged one would end a run."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from PIL import Image

from trainer.data.folder import UNDECODABLE, classes_of, find_files
from trainer.data.preparation import Report
from trainer.errors import ConfigError, DataError

REPORT_EVERY = 50
# So many folders, or images of one, are named that something is wrong with.
NAMED = 5


def check_folder(directory: Path, report: Report) -> None:
    """Decode all images of a folder of a user's own, one process a core.

    Data without a folder for each class are for a program of the user's own, which may well read
    what this one cannot.

    Raises:
        DataError: some cannot be decoded.
    """
    try:
        sets = find_files(directory, classes_of(directory), seed=0).values()
    except (ConfigError, DataError) as error:
        report(f"no images are looked at: {error}")
        return
    folders = defaultdict(list)
    for part in sets:
        for name in part.files:
            path = part.root / name
            folders[str(path.parent.relative_to(directory))].append(path)
    if failed := in_processes(check_images, folders, report):
        raise damage(
            f"{directory}: in {len(failed)} of {len(folders)} folders images are damaged:",
            failed,
            "replace them or move them away, and give the same command again; where a program of "
            "your own reads them, dataset_images_decoded: false in the inventory sends them as "
            "they are",
        )
    report(f"all {sum(map(len, folders.values())):,} images can be decoded")


def check_images(paths: Sequence[Path]) -> None:
    """Decode images, as small as their format can do that.

    Raises:
        DataError: some cannot be decoded.
    """
    broken = []
    for path in paths:
        try:
            with Image.open(path) as image:
                image.draft("RGB", (1, 1))
                image.load()
        except UNDECODABLE:
            broken.append(path.name)
    if broken:
        more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        names = os.fsencode(", ".join(broken[:NAMED])).decode(errors="backslashreplace")
        raise DataError(f"cannot decode {names}{more}")


def damage(head: str, told: Sequence[str], remedy: str) -> DataError:
    """An error that names the first of what is wrong, a line each."""
    more = [f"and {len(told) - NAMED} more"] if len(told) > NAMED else []
    return DataError("\n".join([head, *told[:NAMED], *more, remedy]))


def in_processes(
    work: Callable[[Any], None], items: Mapping[str, Any], report: Report
) -> list[str]:
    """Do something with each folder, one process a core; returns what is wrong with which.

    Raises:
        DataError: a process was killed.
    """
    failed: list[str] = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures = {pool.submit(work, item): name for name, item in items.items()}
        try:
            for number, future in enumerate(as_completed(futures), start=1):
                try:
                    future.result()
                except DataError as error:
                    failed.append(f"{futures[future]}: {error}")
                if number % REPORT_EVERY == 0 or number == len(items):
                    report(f"{number} of {len(items)} folders")
        except BrokenProcessPool as error:
            raise DataError(
                "a process that decodes was killed, as the kernel does where memory is short: "
                "`dmesg` on this machine says so"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(failed)
