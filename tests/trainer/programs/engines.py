"""Every engine averages gradients to the same bits as Horovod, and shares one world with others."""

import torch
import torch.distributed as dist

import trainer.engines.horovod as pieces
from trainer.engines import DdpEngine, Engine, HorovodEngine, IndependentEngine
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw
from trainer.step import TrainStep

STEPS = 3
# Debian's PyTorch has MPI, PyPI's has not.
BACKENDS = ("gloo", "mpi") if dist.is_mpi_available() else ("gloo",)

generator = torch.Generator().manual_seed(5)
images = torch.randn(8, 3, 16, 16, generator=generator)
labels = torch.randint(0, 10, (8,), generator=generator)


def train(engine: Engine) -> list[torch.Tensor]:
    """Take some steps and return the parameters."""
    torch.manual_seed(1 + engine.rank)  # only rank 0's parameters shall count
    model = ViT(ViTSize(image_size=16, patch_size=4, width=32, depth=2, heads=2), classes=10)
    wrapped, optimizer = engine.distribute(model, adamw(model, 0.1, 0.05))
    step = TrainStep(wrapped, optimizer, "fp32", exchange=engine)
    for _ in range(STEPS):
        step(images[engine.rank :: 2], labels[engine.rank :: 2], 0.01)
    return [parameter.detach().clone() for parameter in model.parameters()]


# MPI ends with who started it; a Horovod that did would end it for the others.
world = IndependentEngine()
horovod = HorovodEngine()
expected = train(horovod)
rank = horovod.rank
# As a checkpoint travels, whose size is no multiple of a piece's; and one of a single piece.
pieces.PIECE = 1000
for size in (1, 12_345):
    sent = {"rank": rank, "values": torch.full((size,), float(rank))}
    received = horovod.broadcast(sent)
    assert received["rank"] == 0
    assert torch.equal(received["values"], torch.zeros(size))
horovod.close()
for backend in BACKENDS:
    engine = DdpEngine(backend)
    assert (engine.rank, engine.world_size) == (rank, 2)
    assert engine.local_rank == rank
    for one, other in zip(expected, train(engine), strict=True):
        assert torch.equal(one, other), backend
    assert engine.sum(torch.tensor([1.0, rank], dtype=torch.float64)).tolist() == [2.0, 1.0]
    assert engine.gather({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
    assert engine.broadcast({"rank": rank}) == {"rank": 0}
    engine.barrier()
    if backend == BACKENDS[-1]:
        engine.close()
