"""Everything a run writes down while it trains."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from trainer.config import TrainConfig
from trainer.engines import Engine
from trainer.metrics import Listener, MetricsWriter
from trainer.tensorboard import EventWriter
from trainer.utilisation import UtilisationSampler, utilisation_file
from trainer.weights_and_biases import start_wandb
from trainer.world import Rank


@contextmanager
def recording(
    config: TrainConfig, engine: Engine, ranks: Sequence[Rank]
) -> Iterator[MetricsWriter]:
    """Yield the writer of metrics; rank 0's writes files, and feeds TensorBoard and W&B.

    Beside it, the first rank of every node samples what the node has to give.
    """
    run_dir = Path(config.run_dir)
    host = socket.gethostname()
    with ExitStack() as stack:
        if engine.local_rank == 0:
            pids = {rank.rank: rank.pid for rank in ranks if rank.host == host}
            sampler = UtilisationSampler(utilisation_file(run_dir), lambda: pids)
            stack.enter_context(sampler)
        if engine.rank > 0:
            yield stack.enter_context(closing(MetricsWriter(Path(os.devnull))))
            return
        events = stack.enter_context(closing(EventWriter(run_dir / "tensorboard")))
        listeners: list[Listener] = [events]
        wandb, refused = start_wandb(run_dir, config.to_json())
        if wandb is not None:
            listeners.append(wandb)
        notes = {"wandb_refused": refused} if refused else {}
        writer = MetricsWriter(run_dir / "metrics.jsonl", listeners, notes)
        yield stack.enter_context(closing(writer))
