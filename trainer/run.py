"""A training run from start to end."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.data.loading import Data, load_data
from trainer.device import pick_device
from trainer.engines import Engine, start_engine
from trainer.heartbeat import WAITS, beat
from trainer.learner import build_learner
from trainer.loop import TrainingLoop
from trainer.metrics import Position
from trainer.models import parameter_count
from trainer.recording import recording
from trainer.resuming import StartingPoint, load_resumed
from trainer.world import Rank, Scale, check_ranks, gather_ranks, write_world


def train(config: TrainConfig) -> None:
    """Train a model as configured; leave metrics and checkpoints in the run directory.

    Every rank calls it. Only rank 0 writes files, but for what the first rank of a node samples.

    Raises:
        TrainerError: the world, the data or the request is not as it should be, or the loss became
            infinite or NaN.
    """
    set_process_up(config)
    engine = start_engine(config.engine, config.backend)
    _train(config, engine)
    # From here to its end the rank only waits for the others; MPI's wait uses a processor.
    beat(WAITS)
    # Not before the wrapped model is gone, which holds on to what the engine gives up.
    engine.close()


def _train(config: TrainConfig, engine: Engine) -> None:
    ranks = gather_ranks(engine)
    check_ranks(ranks, config.ranks_by_host)
    device = pick_device(engine.local_rank)
    if config.test_only:
        _test(config, engine, ranks, device)
        return
    data = load_data(config, engine, device)
    resumed = load_resumed(config, engine, data)
    classes = len(data.description.classes)
    learner = build_learner(config, classes, data.image_size, engine, device, resumed)
    start = StartingPoint.of(resumed, data.train.sampler)
    scale = Scale(
        model_parameters=parameter_count(learner.network),
        train_images=data.train_images,
        train_images_available=data.description.train_images,
        test_images=data.description.test_images,
        validation_images=data.validation_images,
        classes=classes,
    )
    if engine.rank == 0:
        write_world(Path(config.run_dir) / "world.json", ranks, scale, start.resumed)
    print(describe(config, data, scale), flush=True)
    made_for = {**data.dimensions, "description": asdict(data.description)}
    checkpointer = Checkpointer(config, engine, learner, made_for, start.best_accuracy)
    with recording(config, engine, ranks) as metrics, checkpointer:
        TrainingLoop(config, engine, data, learner, metrics, checkpointer).run(start)


def _test(config: TrainConfig, engine: Engine, ranks: Sequence[Rank], device: torch.device) -> None:
    # Its imports take other ranks a second.
    from trainer.predict import evaluate_together

    with recording(config, engine, ranks) as metrics:
        there = Position(step=0, steps=1, epoch=1, epochs=1, images=0)
        metrics.write("start", there)
        scale, results = evaluate_together(config, engine, device)
        if engine.rank == 0:
            write_world(Path(config.run_dir) / "world.json", ranks, scale, None)
        metrics.write("end", there, results=results)


def set_process_up(config: TrainConfig) -> None:
    """Set what must be set before the engine starts."""
    if config.timeline:
        os.environ["HOROVOD_TIMELINE"] = str(Path(config.run_dir) / "timeline.json")
    if config.deterministic:
        torch.use_deterministic_algorithms(True)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # Which tensors Horovod fuses depends on timing, and with it the order of additions.
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"


def describe(config: TrainConfig, data: Data, scale: Scale) -> str:
    """A line for the log."""
    return (
        f"{config.model}, {scale.model_parameters:,} parameters; "
        f"{config.epochs} epochs of {data.train.sampler.batches} steps on {scale.train_images} of "
        f"{scale.train_images_available} training images; {scale.validation_images} others are "
        "held out for validation"
    )
