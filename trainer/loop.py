"""A training run from start to end."""

import math
import os
import time
from pathlib import Path

import torch

from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.data import store
from trainer.data.augment import Normalise
from trainer.data.memory import EvaluationBatches, ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler
from trainer.engine import start_engine
from trainer.errors import DivergenceError
from trainer.evaluation import evaluate
from trainer.meter import Meter
from trainer.metrics import MetricsWriter, Progress
from trainer.models import build_model, parameter_count
from trainer.optimizer import adamw
from trainer.schedule import WarmupCosine
from trainer.step import TrainStep
from trainer.world import check_ranks, gather_ranks, write_world


def train(config: TrainConfig) -> None:
    """Train a model as configured; leave metrics and a checkpoint in the run directory.

    Every rank calls it. Only rank 0 writes files.

    Raises:
        TrainerError: the world, the data or the request is not as it should be, or the loss
            stops being a number.
    """
    engine = start_engine(config.engine)
    ranks = gather_ranks(engine)
    check_ranks(ranks, config.world_size, config.hosts)
    is_first = engine.rank == 0

    data_dir = Path(config.data_dir) / config.dataset
    description = store.read_description(data_dir)
    train_set = ImageSet.load(data_dir, "train", config.train_images, config.seed)
    test_set = ImageSet.load(data_dir, "test")
    normalise = Normalise(description.channel_means, description.channel_deviations)
    sampler = ShardedSampler(
        len(train_set), config.batch_per_rank, engine.rank, engine.world_size, config.seed
    )
    batches = TrainingBatches(train_set, sampler, normalise)
    test_batches = EvaluationBatches(test_set.shard(engine.rank, engine.world_size), normalise)

    torch.manual_seed(config.seed)
    model = build_model(config.model, len(description.classes), train_set.images.shape[-1])
    parameters = parameter_count(model)
    optimizer = adamw(model, config.learning_rate, config.weight_decay)
    model, optimizer = engine.distribute(model, optimizer)
    train_step = TrainStep(model, optimizer, config.precision, config.label_smoothing, engine)
    steps = config.epochs * len(batches)
    schedule = WarmupCosine(config.learning_rate, steps, round(steps * config.warmup_fraction))

    run_dir = Path(config.run_dir)
    if is_first:
        facts = {
            "model_parameters": parameters,
            "train_images": len(train_set),
            "train_images_available": description.train_images,
            "test_images": len(test_set),
        }
        write_world(run_dir / "world.json", ranks, facts)
    print(
        f"{config.model}, {parameters:,} parameters; {config.epochs} epochs of {len(batches)} "
        f"steps on {len(train_set)} of {description.train_images} training images",
        flush=True,
    )

    with MetricsWriter(run_dir / "metrics.jsonl" if is_first else Path(os.devnull)) as metrics:
        step = 0
        steady = Meter()  # all steps but the first, which pays for allocation and connections
        metrics.write("start", Progress(step, steps, 1, config.epochs))
        for epoch in range(1, config.epochs + 1):
            model.train()
            window, whole_epoch = Meter(), Meter()
            mark = time.perf_counter()
            for images, labels in batches.epoch(epoch):
                step += 1
                loss = train_step(images, labels, schedule(step))
                now = time.perf_counter()
                for meter in (window, whole_epoch, steady) if step > 1 else (window, whole_epoch):
                    meter.add(loss, len(labels), now - mark)
                mark = now
                if step == 1 or step % config.log_every_steps == 0:
                    metrics.write(
                        "step",
                        Progress(step, steps, epoch, config.epochs),
                        loss=_finite(window.mean_loss(engine), step),
                        images_per_second=window.images_per_second(engine.world_size),
                        learning_rate=schedule(step),
                    )
                    window = Meter()

            train_loss = _finite(whole_epoch.mean_loss(engine), step)
            test = evaluate(model, test_batches, engine, config.precision)
            if test.images != len(test_set):
                raise AssertionError(f"evaluated {test.images} of {len(test_set)} test images")
            metrics.write(
                "epoch",
                Progress(step, steps, epoch, config.epochs),
                loss=test.loss,
                accuracy=test.accuracy,
                images_per_second=whole_epoch.images_per_second(engine.world_size),
                learning_rate=schedule(step),
            )
            print(
                f"epoch {epoch} of {config.epochs}: training loss {train_loss:.4f}, "
                f"test loss {test.loss:.4f}, test accuracy {test.accuracy:.4f}",
                flush=True,
            )

        if is_first:
            checkpoint = Checkpoint(
                model=model.state_dict(),
                optimizer=optimizer.state_dict(),
                step=step,
                epoch=epoch,
                config=config.to_json(),
            )
            checkpoint.save(run_dir / "checkpoints" / "last.pt")
        metrics.write(
            "end",
            Progress(step, steps, epoch, config.epochs),
            loss=train_loss,
            accuracy=test.accuracy,
            images_per_second=steady.images_per_second(engine.world_size),
            learning_rate=schedule(step),
        )
    engine.close()


def _finite(loss: float, step: int) -> float:
    """Return the loss, or end the run: once it is not a number, it never becomes one again."""
    if not math.isfinite(loss):
        raise DivergenceError(
            f"the training loss became {loss} at or shortly before step {step}; "
            "a smaller learning rate or a longer warm-up usually helps"
        )
    return loss
