"""Errors that a person can act on. They end the program with a message, without a traceback."""

from typing import Any


class TrainerError(Exception):
    """The run cannot go on; the message says why."""

    exit_status = 1


class ConfigError(TrainerError):
    """What was asked makes no sense; nothing has been computed yet."""

    exit_status = 2


class DataError(TrainerError):
    """A data set is missing, damaged, or not what it should be."""

    exit_status = 2


class WorldError(TrainerError):
    """The ranks are not spread as asked."""


class DivergenceError(TrainerError):
    """The loss is no longer a number."""


class NonFiniteLossError(TrainerError):
    """The loss of a batch is infinite or no number.

    Attributes:
        loss: its value.
        images: the images that gave it.
    """

    def __init__(self, loss: float, images: Any) -> None:
        super().__init__(f"the training loss became {loss}")
        self.loss = loss
        self.images = images
