import pytest
import torch

from trainer.engine import IndependentEngine
from trainer.meter import Meter


def test_loss_is_the_mean_over_images_and_speed_that_of_the_world() -> None:
    meter = Meter()
    assert meter.images_per_second(world_size=2) is None
    meter.add(torch.tensor(2.0), images=30, seconds=1.0)
    meter.add(torch.tensor(1.0), images=10, seconds=3.0)
    assert meter.mean_loss(IndependentEngine()) == pytest.approx(1.75)
    assert meter.images_per_second(world_size=2) == pytest.approx(20.0)
