"""The data sets that can be prepared, by name."""

from functools import partial
from pathlib import Path

from trainer.data import cifar10, cifar100, fashion_mnist, imagenet, synthetic
from trainer.errors import ConfigError

# Made from one archive each.
ARCHIVED = {
    "cifar10": cifar10.prepare,
    "cifar100": cifar100.prepare,
    "fashion_mnist": fashion_mnist.prepare,
}


def prepare_dataset(
    name: str,
    source: Path | None,
    out: Path,
    counts: str | None = None,
    validation_classes: Path | None = None,
) -> bool:
    """Prepare a data set from the source it is published as.

    Args:
        name: "cifar10", "cifar100", "fashion_mnist", "imagenet" or "synthetic".
        source: its archive; the folder of the two archives for imagenet; None for synthetic.
        out: directory to write.
        counts: for imagenet: "classes,training images,validation images"; None for the real ones.
        validation_classes: for imagenet: a file with the class of each validation image; None
            for the real ones.

    Returns:
        Whether anything was written.

    Raises:
        ConfigError: the request makes no sense.
        DataError: the source is missing, damaged, or another one.
    """
    report = partial(print, flush=True)
    if name == "synthetic":
        return synthetic.prepare(out, report)
    if source is None:
        raise ConfigError(f"{name} needs --source")
    if name in ARCHIVED:
        return ARCHIVED[name](source, out, report)
    return imagenet.prepare(
        source,
        out,
        report,
        _counts(counts) if counts else imagenet.Counts(),
        validation_classes or imagenet.VALIDATION_CLASSES,
    )


def _counts(text: str) -> imagenet.Counts:
    try:
        classes, train, validation = map(int, text.split(","))
    except ValueError as error:
        raise ConfigError(f"--counts {text!r} is not CLASSES,TRAINING,VALIDATION") from error
    return imagenet.Counts(classes, train, validation)
