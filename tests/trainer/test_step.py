import math

import pytest
import torch
from torch import nn

from trainer.divergence import first_non_finite
from trainer.errors import NonFiniteLossError
from trainer.optimizer import adamw, sgd
from trainer.step import TrainStep, loss_scaler


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))


def batch(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(count, 3, 2, 2, generator=generator)
    return images, torch.randint(0, 3, (count,), generator=generator)


def test_update_is_clipped_to_the_norm() -> None:
    model = network()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = TrainStep(model, torch.optim.SGD(model.parameters()), "fp32", clip_norm=0.01)
    step(*batch(), 1.0)
    pairs = zip(model.parameters(), before, strict=True)
    moved = torch.cat([(after - start).detach().flatten() for after, start in pairs])
    assert moved.norm() == pytest.approx(0.01, rel=1e-3)


def test_fp16_scales_the_loss_and_skips_a_step_that_overflows() -> None:
    model = network()
    scaler = loss_scaler("fp16")
    step = TrainStep(model, adamw(model, 0.01, 0.0), "fp16", clip_norm=1.0, scaler=scaler)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    start = scaler.get_scale()
    assert start == 65536
    step(*batch(), 0.01)
    changed = [not torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True)]
    assert all(changed)
    # Scaled by 2^127, every gradient is beyond what fp16 can hold.
    scaler.update(2.0**127)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step(*batch(), 0.01)
    assert all(map(torch.equal, model.parameters(), before))
    assert scaler.get_scale() == 2.0**126


@pytest.mark.parametrize("accumulate", [1, 2])
def test_says_how_many_images_were_right(accumulate: int) -> None:
    model = network()
    images, labels = batch()
    right = (model(images).argmax(dim=1) == labels).sum()
    mixed = 0.6 * nn.functional.one_hot(labels, 3) + 0.4 / 3
    for targets in labels, mixed:
        step = TrainStep(model, torch.optim.SGD(model.parameters()), "fp32", accumulate=accumulate)
        step(images, targets, 0.0)
        assert step.right == right


def test_sgd_has_nesterov_momentum_and_spares_biases() -> None:
    optimizer = sgd(network(), 0.1, 0.05, 0.9)
    decayed, kept = optimizer.param_groups
    assert [parameter.ndim for parameter in decayed["params"]] == [2, 2]
    assert [parameter.ndim for parameter in kept["params"]] == [1, 1]
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.05, 0.0)
    assert decayed["nesterov"]


def test_loss_that_is_no_number_stops_before_the_update() -> None:
    model = network()
    step = TrainStep(model, adamw(model, 0.1, 0.0), "fp32")
    with torch.no_grad():
        model[3].weight.fill_(3e38)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(NonFiniteLossError) as raised:
        step(*batch(), 0.1)
    assert not math.isfinite(raised.value.loss)
    assert all(map(torch.equal, model.parameters(), before))


def test_layer_that_overflows_is_named() -> None:
    model = network()
    images, _ = batch()
    assert "every layer's output is finite" in first_non_finite(model, images, "fp32")
    with torch.no_grad():
        model[3].weight.fill_(3e38)
    assert "that of layer 3 (Linear)" in first_non_finite(model, images, "fp32")
    with torch.no_grad():
        model[1].bias[2] = math.nan
    assert "parameter 1.bias" in first_non_finite(model, images, "fp32")
    images[5] = math.inf
    assert "images of its batch" in first_non_finite(model, images, "fp32")
