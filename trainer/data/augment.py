"""Random crops, flips and normalisation, on a whole batch at once."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Normalise:
    """Turns bytes into floats of mean 0 and deviation 1 per channel of the data set.

    Attributes:
        means: per channel, on a scale of 0 to 1.
        deviations: per channel, on a scale of 0 to 1.
    """

    means: tuple[float, ...]
    deviations: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """images: uint8, batch x channels x height x width; float32 of that shape out."""
        means = torch.tensor(self.means).view(1, -1, 1, 1) * 255
        deviations = torch.tensor(self.deviations).view(1, -1, 1, 1) * 255
        return (images.float() - means) / deviations


def crop_and_flip(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Shift every image by its own random offset and mirror half of them.

    This is the common recipe for CIFAR: pad with black on all sides, cut out the original size
    at a random place, flip from left to right with a probability of one half.

    Args:
        images: uint8, batch x channels x height x width.
        padding: largest shift in pixels, in each direction.
        generator: source of the random numbers.

    Returns:
        uint8 of the same shape.
    """
    batch, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    shift = torch.randint(0, 2 * padding + 1, (2, batch, 1), generator=generator)
    flip = torch.rand((batch, 1), generator=generator) < 0.5
    rows = shift[0] + torch.arange(height)
    columns = torch.arange(width)
    columns = shift[1] + torch.where(flip, width - 1 - columns, columns)
    # One gather for crop and flip: sample, then channel, then row, then column. With the index
    # of the channels between two others, advanced indexing keeps the order of dimensions.
    return padded[
        torch.arange(batch)[:, None, None, None],
        torch.arange(images.shape[1])[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]
