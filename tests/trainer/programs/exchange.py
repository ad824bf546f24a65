"""Horovod averages every gradient exactly once, whatever a backward pass leaves out."""

import pytest
import torch
from torch import Tensor, nn

from trainer.bench.horovod_optimizer import HorovodOptimizerEngine
from trainer.engines import ExchangeOptions, HorovodEngine, tuning
from trainer.optimizer import adamw
from trainer.step import TrainStep

STEPS = 3
BUCKETS = (1, 2, 99)

engine = HorovodEngine()
rank = engine.rank
assert engine.world_size == 2


def parameters() -> nn.ParameterDict:
    """Parameters of all kinds, one of them channels last."""
    return nn.ParameterDict(
        {
            "weight": torch.zeros(4, 3, 3, 3).to(memory_format=torch.channels_last),
            "bias": torch.zeros(5),
            "table": torch.zeros(7, 11),
            "wide": torch.zeros(3, dtype=torch.float64),
            "frozen": nn.Parameter(torch.zeros(2), requires_grad=False),
        }
    )


def place(name: str) -> Tensor:
    """Numbers that differ from element to element, small enough to be added up exactly."""
    parameter = model[name]
    numbers = torch.arange(1, parameter.numel() + 1, dtype=parameter.dtype)
    return numbers.reshape(parameter.shape)


def loss(weights: dict[str, float], reverse: bool = False) -> Tensor:
    """A scalar of which each gradient is `place`, weighted."""
    names = sorted(weights, reverse=reverse)
    terms = [(place(name) * model[name] * weights[name]).sum().double() for name in names]
    return torch.stack(terms).sum()


def check(expected: dict[str, float]) -> None:
    """Compare every gradient with the mean over both ranks of what they have computed."""
    storages = set()
    for name, weight in expected.items():
        parameter = model[name]
        gradient = parameter.grad
        assert torch.equal(gradient, place(name) * weight), (name, gradient, weight)
        assert gradient.stride() == parameter.stride(), name
        storages.add((gradient.dtype, gradient.untyped_storage().data_ptr()))
    assert len(storages) == len({dtype for dtype, _ in storages}), "gradients have left the buffer"
    assert model["frozen"].grad is None


NAMES = ("weight", "bias", "table", "wide")
for buckets in BUCKETS:
    model = parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine.distribute(model, optimizer, ExchangeOptions(buckets=buckets))
    assert engine.gradients is not None
    # Three parameters of one type, one of the other; a bucket has one at least.
    assert engine.gradients.buckets == {1: 2, 2: 3, 99: 4}[buckets]

    # Ranks differ; so do steps, or what the buffer holds from the step before would pass.
    for step in (1, 2, 3):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss({name: float(step * (1 + 2 * rank)) for name in NAMES}).backward()
        with engine.synchronized(optimizer):
            check({name: float(step * 2) for name in NAMES})
            optimizer.step()

    # What one rank leaves out counts as zero there, what both leave out is zero.
    optimizer.zero_grad()
    used = ("bias", "wide") if rank == 0 else ("bias",)
    loss(dict.fromkeys(used, 2.0 + 2 * rank)).backward()
    with engine.synchronized(optimizer):
        check({"weight": 0.0, "bias": 3.0, "table": 0.0, "wide": 1.0})

    # The ranks come to their gradients in opposite order.
    optimizer.zero_grad()
    loss(dict.fromkeys(NAMES, 1.0 + 2 * rank), reverse=rank == 1).backward()
    with engine.synchronized(optimizer):
        check(dict.fromkeys(NAMES, 2.0))

    # Two passes, one exchange; one parameter is in the first pass alone, another in the second.
    optimizer.zero_grad()
    with engine.accumulating(model):
        loss({"weight": 1.0 + 2 * rank, "table": 4.0}).backward()
    loss({"weight": 1.0 + 2 * rank, "bias": 6.0}).backward()
    with engine.synchronized(optimizer):
        check({"weight": 4.0, "bias": 6.0, "table": 4.0, "wide": 0.0})

    # A second pass that nobody has announced would be sent in part.
    optimizer.zero_grad()
    loss(dict.fromkeys(NAMES, 1.0)).backward()
    with pytest.raises(RuntimeError, match="run the first within accumulating"):
        loss(dict.fromkeys(NAMES, 1.0)).backward()
    with engine.synchronized(optimizer):
        pass


def network() -> nn.Module:
    torch.manual_seed(1)
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(1152, 10))
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def train(engine: HorovodEngine, options: ExchangeOptions) -> list[Tensor]:
    """Take some steps and return the parameters."""
    generator = torch.Generator().manual_seed(5 + rank)
    images = torch.randn(STEPS, 4, 3, 16, 16, generator=generator)
    labels = torch.randint(0, 10, (STEPS, 4), generator=generator)
    module = network()
    wrapped, optimizer = engine.distribute(module, adamw(module, 0.1, 0.05), options)
    step = TrainStep(wrapped, optimizer, "fp32", exchange=engine, clip_norm=0.5)
    for number in range(STEPS):
        step(images[number], labels[number], 0.01)
    return [parameter.detach().clone() for parameter in module.parameters()]


# To the bit what Horovod's own optimizer makes of it.
for compression in ("none", "fp16"):
    expected = train(HorovodOptimizerEngine(), ExchangeOptions(compression))
    for buckets in BUCKETS:
        trained = train(engine, ExchangeOptions(compression, buckets))
        assert all(map(torch.equal, expected, trained)), (compression, buckets)

# Both ranks stay with the same number of buckets. What they measure would lead one to two and the
# other to four; together, one is the fastest.
measured = [1.0, 0.5, 2.0] if rank == 0 else [1.0, 2.0, 0.5]
tuning.BucketTuning.medians = lambda _: measured  # type: ignore
large = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
_, optimizer = engine.distribute(large, torch.optim.SGD(large.parameters(), lr=0.0))
assert engine.gradients is not None
counts = []
for _ in range(3 * tuning.ROUNDS + 2):
    optimizer.zero_grad()
    large(torch.full((1, 512), float(1 + rank))).sum().backward()
    counts.append(engine.gradients.buckets)
    with engine.synchronized(optimizer):
        pass
assert engine.gather(counts) == [[1, 2, 4] * tuning.ROUNDS + [1, 1]] * 2, counts
engine.close()
