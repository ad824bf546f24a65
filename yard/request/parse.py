"""Reads the values of options that are no plain numbers or words."""

from collections.abc import Callable
from typing import Any

from yard.request.job import AS_EACH_HAS
from yard.request.training import ALL_IMAGES, AUTO


def parse_train_images(text: str) -> int | str:
    """Read `--train-images`: a count, or `all`.

    Raises:
        ValueError: it is neither.
    """
    return ALL_IMAGES if text == ALL_IMAGES else int(text)


def parse_checkpoint_seconds(text: str) -> int | str:
    """Read `--checkpoint-seconds`: a number, or `auto`.

    Raises:
        ValueError: it is neither.
    """
    return AUTO if text == AUTO else int(text)


def parse_procs_per_node(text: str) -> int | str:
    """Read `--procs-per-node`: a number, or `node` for as many as each node carries.

    Raises:
        ValueError: it is neither.
    """
    return AS_EACH_HAS if text == AS_EACH_HAS else int(text)


def parse_nodes(text: str) -> tuple[int, int]:
    """Read `--nodes`: a count, or the least and the most, as in `2..4`.

    Raises:
        ValueError: it is neither, or the least is above the most.
    """
    least, _, most = text.partition("..")
    nodes = (int(least), int(most or least))
    if nodes[0] > nodes[1]:
        raise ValueError(text)
    return nodes


def parse_option(text: str, load: Callable[[str], Any]) -> tuple[str, Any]:
    """Read one `--set key=value`; `load` turns the value's text into a number, boolean or string.

    Raises:
        ValueError: there is no `=`, or no key before it.
    """
    key, separator, value = text.partition("=")
    if not (separator and key.isidentifier()):
        raise ValueError(f"{text!r} is not key=value")
    return key, load(value)
