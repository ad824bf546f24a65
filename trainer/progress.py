"""Progress of a run, independent of its number of ranks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What was done of a run.

    Attributes:
        step: steps done, counted as if all had been taken by the present world.
        images: training images seen by all ranks of the whole run.
        epoch_images: those of the epoch under way; 0 between two epochs.
        validations: loss and accuracy of each validation, in their order.
    """

    step: int = 0
    epoch: int = 0
    images: int = 0
    epoch_images: int = 0
    validations: tuple[tuple[float, float], ...] = ()

    @property
    def validations_since_best(self) -> int:
        """How many validations there were after the one with the highest accuracy."""
        accuracies = [accuracy for _, accuracy in self.validations]
        return len(accuracies) - 1 - accuracies.index(max(accuracies)) if accuracies else 0
