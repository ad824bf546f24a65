"""A job that leaves what a training leaves: job.py DIRECTORY FATE STEPS.

FATE is `success`, or at half-way `killed` (mpirun reports it) or `mystery` (no known cause). With
`bench` it says where a benchmark is, as that does.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

EPOCHS = 2


def finish(directory: Path, status: int) -> None:
    new = directory / "exit_status.new"
    new.write_text(f"{status}\n")
    new.rename(directory / "exit_status")


def train(directory: Path, fate: str, steps: int) -> Iterator[int]:
    """Yield before each step; the files say all the rest."""

    def log(event: str, step: int, loss: float | None, accuracy: float | None = None) -> None:
        epoch = min(EPOCHS, 1 + step * EPOCHS // (steps + 1))
        record = {"event": event, "time": time.time(), "step": step, "steps": steps, "epoch": epoch}
        record |= {"epochs": EPOCHS, "loss": loss, "accuracy": accuracy}
        record |= {"images_per_second": 120.0 if step else None, "lr": 0.001}
        if fate == "bench":
            record = {"time": time.time(), "done": step, "parts": steps, "what": "allreduce"}
        with (directory / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    hosts = ("node1", "node2")
    for rank, host in enumerate(hosts):
        said = f"rank {rank} of 2 on {host} (pid 17)\n"
        (directory / "logs" / f"rank-{rank}.log").write_text(said)
    ranks = [
        {"rank": rank, "local_rank": 0, "host": host, "pid": 17} for rank, host in enumerate(hosts)
    ]
    world = {"world_size": 2, "ranks": ranks, "versions": {"torch": "2.6.0"}, "model_parameters": 9}
    world |= {"train_images": 10000, "train_images_available": 50000, "test_images": 10000}
    (directory / "world.json").write_text(json.dumps(world))
    (directory / "config.json").write_text(json.dumps({"engine": "horovod", "precision": "fp32"}))
    log("start", 0, None)
    for step in range(1, steps + 1):
        yield step
        log("step", step, 2.4 - step / steps)
        if step == steps // 2 and fate == "killed":
            (directory / "logs" / "mpirun.log").write_text(
                "prterun noticed that process rank 1 with PID 4711 on node node2 exited on\n"
                "signal 9 (Killed).\n"
            )
            return finish(directory, 137)
        if step == steps // 2 and fate == "mystery":
            with (directory / "logs" / "rank-0.log").open("a") as file:
                file.write("the dog ate the gradients\n")
            return finish(directory, 1)
        if step * EPOCHS % steps == 0:
            log("epoch", step, 1.9, 0.4)
    log("end", steps, 1.6, 0.41)
    finish(directory, 0)


if __name__ == "__main__":
    place = Path(sys.argv[1])

    def interrupted(number: int, frame: object) -> None:
        finish(place, 130)
        sys.exit()

    signal.signal(signal.SIGINT, interrupted)
    (place / "pid").write_text(str(os.getpid()))
    for _ in train(place, sys.argv[2], int(sys.argv[3])):
        time.sleep(0.1)
