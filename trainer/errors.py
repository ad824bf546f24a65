"""Errors that a person can act on. They end the program with a message, without a traceback."""


class TrainerError(Exception):
    """The run cannot go on; the message says why."""

    exit_status = 1


class ConfigError(TrainerError):
    """What was asked makes no sense; nothing has been computed yet."""

    exit_status = 2


class DataError(TrainerError):
    """A data set is missing, damaged, or not what it should be."""


class WorldError(TrainerError):
    """The ranks are not spread as asked."""


class DivergenceError(TrainerError):
    """The loss is no longer a number."""
