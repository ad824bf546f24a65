"""Errors that a person can act on. They end the program with a message, without a traceback."""

from typing import Any, ClassVar

from trainer.problems import Problem, Scalar


class TrainerError(Exception):
    """The run cannot go on; code and values say why, and the message is made from them.

    Attributes:
        code: a key of `problems.SENTENCES`.
    """

    code: ClassVar[str]
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str | None = None, **values: Scalar) -> None:
        said = {} if message is None else {"message": message}
        self.problem = Problem(self.code, {**values, **said})
        super().__init__(self.problem.text)


class ConfigError(TrainerError):
    """The request makes no sense; nothing has been computed yet."""

    code = "wrong_configuration"
    exit_status = 2


class DataError(TrainerError):
    """A data set is damaged, or not what it should be."""

    code = "dataset_damaged"
    exit_status = 2


class DatasetMissingError(DataError):
    """There is no prepared data set in a directory."""

    code = "dataset_missing"


class ShareGoneError(DataError):
    """The file system of a data set no longer answers."""

    code = "share_gone"


class FileDeniedError(DataError):
    """The account of the ranks may not read or write a file."""

    code = "file_denied"


class CheckpointError(DataError):
    code = "checkpoint_unusable"


class GpuError(TrainerError):
    """PyTorch cannot compute on the GPUs that the run was given."""

    code = "gpu_unusable"


class WorldError(TrainerError):
    """The ranks are not spread as the configuration says."""

    code = "wrong_world"


class ClusterAddressError(WorldError):
    """A host has no address in the training network, a CIDR."""

    code = "no_cluster_address"


class DivergenceError(TrainerError):
    """The loss became infinite or NaN."""

    code = "loss_not_a_number"


class NonFiniteLossError(DivergenceError):
    """The loss of a batch, the tensor `images`, is infinite or NaN."""

    def __init__(self, loss: float, images: Any) -> None:
        super().__init__(f"the training loss became {loss}")
        self.loss = loss
        self.images = images
