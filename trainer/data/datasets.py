"""The data sets that can be prepared, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainer.data import cifar10, cifar100, fashion_mnist, imagenet, synthetic
from trainer.data.preparation import Published, Report
from trainer.errors import ConfigError


@dataclass(frozen=True)
class PreparationRequest:
    """What a data set is made from.

    Attributes:
        source: its archive; the folder of the two archives for imagenet; None for synthetic.
        counts: for imagenet: "classes,training images,validation images"; None for the real ones.
        validation_classes: for imagenet: a file with the class of every validation image; None
            for the real ones.
    """

    source: Path | None
    out: Path
    counts: str | None = None
    validation_classes: Path | None = None


@dataclass(frozen=True)
class Dataset:
    """A data set that can be prepared.

    Attributes:
        prepare: writes it and returns whether anything was written.
    """

    train_images: int
    prepare: Callable[[PreparationRequest, Report], bool]


def _prepare_archive(
    prepare: Callable[[Path, Path, Report], bool], request: PreparationRequest, report: Report
) -> bool:
    return prepare(_source(request), request.out, report)


def _prepare_imagenet(request: PreparationRequest, report: Report) -> bool:
    return imagenet.prepare(
        _source(request),
        request.out,
        report,
        _counts(request.counts) if request.counts else imagenet.Counts(),
        request.validation_classes or imagenet.VALIDATION_CLASSES,
    )


def _archived(published: Published, prepare: Callable[[Path, Path, Report], bool]) -> Dataset:
    return Dataset(published.counts["train"], partial(_prepare_archive, prepare))


DATASETS: Mapping[str, Dataset] = {
    "cifar10": _archived(cifar10.PUBLISHED, cifar10.prepare),
    "cifar100": _archived(cifar100.PUBLISHED, cifar100.prepare),
    "fashion_mnist": _archived(fashion_mnist.PUBLISHED, fashion_mnist.prepare),
    "imagenet": Dataset(imagenet.Counts().train, _prepare_imagenet),
    "synthetic": Dataset(
        synthetic.COUNTS["train"], lambda request, report: synthetic.prepare(request.out, report)
    ),
}


def prepare_dataset(name: str, request: PreparationRequest) -> bool:
    """Prepare a data set from the source it is published as.

    Args:
        name: a key of `DATASETS`.

    Returns:
        Whether anything was written.

    Raises:
        ConfigError: the request makes no sense.
        DataError: the source is missing, damaged, or another one.
    """
    if name not in DATASETS:
        raise ConfigError(f"no data set {name!r}; there are: {', '.join(DATASETS)}")
    return DATASETS[name].prepare(request, partial(print, flush=True))


def _source(request: PreparationRequest) -> Path:
    if request.source is None:
        raise ConfigError("this data set needs --source")
    return request.source


def _counts(text: str) -> imagenet.Counts:
    try:
        classes, train, validation = map(int, text.split(","))
    except ValueError as error:
        raise ConfigError(f"--counts {text!r} is not CLASSES,TRAINING,VALIDATION") from error
    return imagenet.Counts(classes, train, validation)
