"""A training run from start to end."""

import math
import os
import socket
import time
from pathlib import Path

import torch
from torch import Tensor

from trainer.checkpoint import Checkpoint, CheckpointFolder, load_newest
from trainer.config import TrainConfig
from trainer.data.loading import Data, load_data
from trainer.device import pick_device
from trainer.divergence import first_non_finite
from trainer.engines import Engine, start_engine
from trainer.errors import ConfigError, DivergenceError, NonFiniteLossError
from trainer.evaluation import average_buffers, evaluate
from trainer.heartbeat import WAITS, beat
from trainer.learner import Learner, build_learner, random_state
from trainer.meter import Meter, StepTime
from trainer.metrics import Progress
from trainer.models import parameter_count
from trainer.recording import recording
from trainer.schedule import WarmupCosine
from trainer.world import check_ranks, gather_ranks, write_world


def train(config: TrainConfig) -> None:
    """Train a model as configured; leave metrics and checkpoints in the run directory.

    Every rank calls it. Only rank 0 writes files, but for what each node's first rank samples.

    Raises:
        TrainerError: the world, the data or the request is not as it should be, or the loss
            stops being a number.
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
    check_ranks(ranks, config.world_size, config.hosts)
    is_first = engine.rank == 0
    device = pick_device(engine.local_rank)
    data = load_data(config, engine, device)
    resumed = load_resumed(config, engine)
    classes = len(data.description.classes)
    learner = build_learner(config, classes, data.image_size, engine, device, resumed)
    steps = config.epochs * len(data.train)
    schedule = WarmupCosine(config.peak_learning_rate, steps, round(steps * config.warmup_fraction))
    run_dir = Path(config.run_dir)
    checkpoints = CheckpointFolder(run_dir / "checkpoints", config.keep_checkpoints)
    if is_first:
        write_world(run_dir / "world.json", ranks, facts(learner, data))
    print(describe(config, learner, data), flush=True)

    with recording(config, engine, ranks) as metrics:
        step, epochs_done, best = 0, 0, -1.0
        if resumed is not None:
            step, epochs_done, best = resumed.step, resumed.epoch, resumed.best_accuracy
        steady = Meter()  # all steps but the first, which pays for allocation and connections
        first_step = step + 1
        metrics.write("start", Progress(step, steps, epochs_done + 1, config.epochs))
        for epoch in range(epochs_done + 1, config.epochs + 1):
            learner.train_step.model.train()
            window, whole_epoch = Meter(), Meter()
            mark = ready = time.perf_counter()
            for images, labels in data.train.epoch(epoch):
                loaded = time.perf_counter()
                step += 1
                try:
                    loss = learner.step(images, labels, schedule(step))
                except NonFiniteLossError as error:
                    raise diverged(error.loss, error.images, step, learner, engine) from error
                now = time.perf_counter()
                spent = StepTime(
                    loaded - ready, learner.train_step.communication_seconds, now - mark
                )
                mark = now
                for meter in (window, whole_epoch, *([steady] if step > first_step else [])):
                    meter.add(loss, len(labels), spent)
                if step == first_step or step % config.log_every_steps == 0:
                    mean = window.mean_loss(engine)
                    if not math.isfinite(mean):
                        raise diverged(mean, images, step, learner, engine)
                    metrics.write(
                        "step",
                        Progress(step, steps, epoch, config.epochs),
                        loss=mean,
                        images_per_second=window.images_per_second(engine.world_size),
                        learning_rate=schedule(step),
                        seconds_per_step=window.seconds_per_step(),
                    )
                    window = Meter()
                ready = time.perf_counter()

            train_loss = whole_epoch.mean_loss(engine)
            for model in dict.fromkeys((learner.network, learner.evaluated)):
                average_buffers(model, engine)
            test = evaluate(learner.evaluated, data.test, engine, config.precision)
            if test.images != data.description.test_images:
                raise AssertionError(f"evaluated {test.images} of the test images")
            metrics.write(
                "epoch",
                Progress(step, steps, epoch, config.epochs),
                loss=test.loss,
                accuracy=test.accuracy,
                images_per_second=whole_epoch.images_per_second(engine.world_size),
                learning_rate=schedule(step),
                seconds_per_step=whole_epoch.seconds_per_step(),
            )
            print(
                f"epoch {epoch} of {config.epochs}: training loss {train_loss:.4f}, "
                f"test loss {test.loss:.4f}, test accuracy {test.accuracy:.4f}",
                flush=True,
            )
            rng = engine.gather(random_state())
            if is_first:
                is_best, best = test.accuracy > best, max(test.accuracy, best)
                checkpoint = Checkpoint(
                    model=learner.network.state_dict(),
                    optimizer=learner.train_step.optimizer.state_dict(),
                    scaler=learner.train_step.scaler.state_dict(),
                    ema=learner.averaged.state_dict() if learner.averaged else None,
                    rng=rng,
                    sampler={"seed": config.seed, "epoch": epoch},
                    step=step,
                    epoch=epoch,
                    accuracy=test.accuracy,
                    best_accuracy=best,
                    config=config.to_json(),
                )
                checkpoints.add(checkpoint, is_best)

        metrics.write(
            "end",
            Progress(step, steps, epoch, config.epochs),
            loss=train_loss,
            accuracy=test.accuracy,
            images_per_second=steady.images_per_second(engine.world_size),
            learning_rate=schedule(step),
        )


def set_process_up(config: TrainConfig) -> None:
    """Set what must be set before the engine starts."""
    if config.timeline:
        os.environ["HOROVOD_TIMELINE"] = str(Path(config.run_dir) / "timeline.json")
    if config.deterministic:
        torch.use_deterministic_algorithms(True)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # Which tensors Horovod fuses depends on timing, and with it the order of additions.
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"


def load_resumed(config: TrainConfig, engine: Engine) -> Checkpoint | None:
    """Read the checkpoint to go on from on rank 0, and hand it to every rank.

    Raises:
        DataError: there is no good one.
        ConfigError: it belongs to another kind of run, or has as many epochs as are asked for.
    """
    if config.resume_dir is None:
        return None
    checkpoint: Checkpoint | None = None
    if engine.rank == 0:
        checkpoint = load_newest(Path(config.resume_dir), report=print)
    checkpoint = engine.broadcast(checkpoint)
    assert checkpoint is not None
    for name in ("model", "dataset", "optimizer", "seed"):
        before, now = checkpoint.config[name], getattr(config, name)
        if before != now:
            raise ConfigError(f"{name} {now!r}: the checkpoint was trained with {before!r}")
    if checkpoint.epoch >= config.epochs:
        raise ConfigError(
            f"epochs {config.epochs}: the checkpoint has {checkpoint.epoch} already; ask for more"
        )
    print(f"going on after epoch {checkpoint.epoch}, step {checkpoint.step}", flush=True)
    return checkpoint


def facts(learner: Learner, data: Data) -> dict[str, int]:
    """What `world.json` says beside the ranks and the versions."""
    return {
        "model_parameters": parameter_count(learner.network),
        "train_images": data.train_images,
        "train_images_available": data.description.train_images,
        "test_images": data.description.test_images,
    }


def describe(config: TrainConfig, learner: Learner, data: Data) -> str:
    """A line for the log."""
    return (
        f"{config.model}, {parameter_count(learner.network):,} parameters; "
        f"{config.epochs} epochs of {len(data.train)} steps on {data.train_images} of "
        f"{data.description.train_images} training images"
    )


def diverged(
    loss: float, images: Tensor, step: int, learner: Learner, engine: Engine
) -> DivergenceError:
    """Say where the loss stopped being a number: it never becomes one again."""
    precision = learner.train_step.precision
    return DivergenceError(
        f"the training loss became {loss} at step {step} on rank {engine.rank} "
        f"({socket.gethostname()}): {first_non_finite(learner.network, images, precision)}; "
        "a smaller learning rate or a longer warm-up usually helps"
    )
