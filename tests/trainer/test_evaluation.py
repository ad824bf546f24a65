"""What an evaluation measures before it judges."""

from collections.abc import Iterator
from types import SimpleNamespace as Fake
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainer.evaluation import STATISTICS_IMAGES, evaluate, settle_batch_norm

BATCH = 64


class Images:
    """Training images whose channels have the mean 3 and the deviation 2."""

    def __init__(self) -> None:
        self.sampler = Fake(batch_per_rank=BATCH, world_size=1)
        self.taken = 0

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(epoch)
        for _ in range(100):
            self.taken += BATCH
            yield 3 + 2 * torch.randn(BATCH, 2, 4, 4, generator=generator), torch.zeros(BATCH)


@pytest.fixture
def images() -> Images:
    return Images()


def settle(network: nn.Module, images: Images) -> None:
    learner: Any = Fake(network=network, evaluated=network)
    data: Any = Fake(train=images)
    engine: Any = Fake(world_size=1)
    settle_batch_norm(learner, data, engine, "fp32", 1)


def test_batch_normalisation_knows_the_images_however_few_the_steps(images: Images) -> None:
    """MNASNet's momentum of 0.0003 leaves the running means where they began for a whole run."""
    network = nn.Sequential(nn.BatchNorm2d(2, momentum=0.0003))
    parameters = [parameter.clone() for parameter in network.parameters()]
    settle(network, images)
    buffers = dict(network[0].named_buffers())
    assert buffers["running_mean"].tolist() == pytest.approx([3, 3], abs=0.1)
    assert buffers["running_var"].tolist() == pytest.approx([4, 4], abs=0.2)
    assert network[0].momentum == 0.0003
    assert images.taken == STATISTICS_IMAGES
    # What is learned stays.
    assert all(map(torch.equal, parameters, network.parameters()))


def test_top_five_and_the_matrix_of_answers() -> None:
    """The answer of this network is its image: of ten classes, in the order of their likelihood."""
    likely = torch.tensor([[9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]).float()
    labels = torch.tensor([4, 4])
    network = nn.Linear(10, 10, bias=False)
    network.weight.data = torch.eye(10)
    engine: Any = Fake(sum=lambda values: values)
    result = evaluate(network, [(likely, labels)], engine, "fp32", classes=10)
    assert (result.accuracy, result.top5, result.images) == (0.0, 0.5, 2)
    assert result.confusion is not None
    assert result.confusion.nonzero().tolist() == [[4, 0], [4, 9]]


def test_without_batch_normalisation_no_image_is_looked_at(images: Images) -> None:
    settle(nn.Sequential(nn.Conv2d(2, 2, 1), nn.LayerNorm(4)), images)
    assert images.taken == 0
