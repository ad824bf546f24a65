"""Trains as the configurations of several run directories say, one after the other.

Every line at which a checkpoint may be taken takes one, where checkpoints are taken by time at
all, and a copy of each stays in `taken/<step>/`. `dealt-<rank>.jsonl` has the images that a rank
was dealt to train on, a list for every step with its epoch in front.
"""

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from trainer import checkpointing, loop, run
from trainer.checkpoint import Checkpoint, CheckpointFolder
from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.data.sampler import ShardedSampler
from trainer.engines import start_engine
from trainer.evaluation import settle_batch_norm

add, deal = CheckpointFolder.add, ShardedSampler.epoch
# Images that batch normalisation is measured on are looked at a second time, and not trained on.
is_settling = False
seconds = itertools.count(step=1000)
run_dir = Path()


def add_and_copy(self: CheckpointFolder, checkpoint: Checkpoint, *further: Any) -> None:
    """Add a checkpoint and keep a copy."""
    add(self, checkpoint, *further)
    if checkpoint.epoch_images:
        copies = run_dir / "taken" / str(checkpoint.step)
        copies.mkdir(parents=True)
        for path in self.path.glob(f"{checkpoint.name}*"):
            shutil.copy(path, copies)


def deal_and_note(self: ShardedSampler, epoch: int, seen: int = 0) -> Iterator[Tensor]:
    """Deal the images of an epoch out and write down which."""
    if is_settling:
        yield from deal(self, epoch, seen)
        return
    with (run_dir / f"dealt-{self.rank}.jsonl").open("a") as stream:
        for indices in deal(self, epoch, seen):
            stream.write(json.dumps([epoch, *indices.tolist()]) + "\n")
            yield indices


def settle_unnoted(*arguments: Any) -> None:
    """Measure what batch normalisation uses."""
    global is_settling
    is_settling = True
    settle_batch_norm(*arguments)
    is_settling = False


class Patient(Checkpointer):
    """Misses no checkpoint because of one that is still being written."""

    def is_due(self) -> bool:
        """Whether it is time."""
        self.finish()
        return super().is_due()


checkpointing.monotonic = lambda: float(next(seconds))  # type: ignore[attr-defined]
CheckpointFolder.add = add_and_copy  # type: ignore[assignment,method-assign]
loop.settle_batch_norm = settle_unnoted  # type: ignore[attr-defined,assignment]
ShardedSampler.epoch = deal_and_note  # type: ignore[method-assign]
run.Checkpointer = Patient  # type: ignore[attr-defined]
configs = [TrainConfig.from_file(Path(path) / "config.json") for path in sys.argv[1:]]
run.set_process_up(configs[0])
engine = start_engine(configs[0].engine)
for config in configs:
    run_dir = Path(config.run_dir)
    run._train(config, engine)
