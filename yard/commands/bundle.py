"""`make bundle`: one file with all that set-up and training need, for sites without a network."""

import os
from collections.abc import Sequence
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.core.words import size
from yard.operations.setup import run_operation
from yard.plays.contract import RELEASES
from yard.plays.inventory import read_inventory
from yard.request.resolve import check_dataset

# No data set.
NONE = "none"


def bundle(
    context: Context, releases: Sequence[str], datasets: Sequence[str], archive: Path
) -> Exit:
    """Build the images, fetch all packages and write them to one archive.

    Args:
        releases: Debian releases of the machines that are set up from it, by code name.
        datasets: of those that the inventory knows, or `none`.
        archive: the file to write. One that is there is replaced once the new one is whole.

    Raises:
        RequestError: a release or data set is unknown, or the file cannot be written there.
    """
    inventory = read_inventory(context.project, context.inventory)
    unknown = [name for name in releases if name not in RELEASES]
    problems = [f"RELEASES={name}: not one of {', '.join(RELEASES)}" for name in unknown]
    if not releases:
        problems.append(f"RELEASES=: names none of {', '.join(RELEASES)}")
    archive = archive.expanduser().absolute()
    if archive.is_dir() or not archive.parent.is_dir():
        problems.append(f"OUT={archive}: must be a file in an existing folder")
    elif not os.access(archive.parent, os.W_OK):
        problems.append(f"OUT={archive}: its folder cannot be written to")
    if problems:
        raise RequestError(*problems)
    datasets = [name for name in datasets if name != NONE]
    for name in datasets:
        check_dataset(name, inventory)
    run_operation(
        context,
        "bundle",
        {
            "bundle_releases": list(releases),
            "bundle_datasets": datasets,
            "bundle_archive": str(archive),
        },
    )
    shown = context.project.shown(archive)
    context.console.print(
        f"{shown} is written, {size(archive.stat().st_size)}. Take it to the site without a "
        f"network, with the checkout or the copy in it (docs/closed-networks.md). There:\n"
        f"    make train MODEL=vit NODES=2 BUNDLE={archive.name}",
        soft_wrap=True,
        markup=False,
    )
    return Exit.DONE
