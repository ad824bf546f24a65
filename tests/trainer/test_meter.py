import pytest
import torch

from trainer.engines import IndependentEngine
from trainer.meter import Meter, StepTime
from trainer.metrics import SecondsPerStep


def test_loss_is_the_mean_over_images_and_speed_that_of_the_world() -> None:
    meter = Meter()
    assert meter.images_per_second(world_size=2) is None
    meter.add(
        torch.tensor(2.0), torch.tensor(6), 30, StepTime(data=0.25, communication=0.25, total=1.0)
    )
    meter.add(
        torch.tensor(1.0), torch.tensor(4), 10, StepTime(data=0.75, communication=0.25, total=3.0)
    )
    assert meter.means(IndependentEngine(), 3) == pytest.approx((1.75, 0.25, 3))
    assert Meter(**meter.sums()).means(IndependentEngine()) == pytest.approx((1.75, 0.25, 0))
    assert meter.images_per_second(world_size=2) == pytest.approx(20.0)
    assert meter.seconds_per_step() == SecondsPerStep(
        data_seconds=0.5, compute_seconds=1.25, communication_seconds=0.25
    )
