#!/usr/bin/env python3
"""Measures trainings without root and containers beside those in containers: tests/speed/native.py

Makes a local cluster of its own, as setup.py does, with an account that has no root, and removes
both again. The same training takes turns in both runtimes. Prints the medians of rate, time to the
first step and accuracy, and leaves all turns as .trainyard/speed/native.json.
"""

import argparse
import json
import os
import statistics
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from setup import CHECKOUT, DIRECTORY, cluster, make, run

sys.path.append(str(CHECKOUT / "tests/machines"))

from ordinary_account import add_account, remove_account, write_native_inventory

NODES = ("node1", "node2")
CONTAINER, NATIVE = "container", "native"


@dataclass
class Turn:
    """A training.

    Attributes:
        runtime: what it ran in.
        images_per_second, seconds_to_first_step, test_accuracy: as its summary has them.
        load: of the machine before, over one minute.
    """

    runtime: str
    images_per_second: float
    seconds_to_first_step: float
    test_accuracy: float
    load: float


@dataclass
class Measured:
    """All turns, in their order."""

    turns: list[Turn] = field(default_factory=list)

    def median(self, runtime: str, name: str) -> float:
        """The median of a field over the turns of a runtime."""
        values = [float(getattr(turn, name)) for turn in self.turns if turn.runtime == runtime]
        return statistics.median(values)

    def __str__(self) -> str:
        lines = [f"{'':10} {'images/s':>9} {'first step':>11} {'accuracy':>9}"]
        for runtime in (CONTAINER, NATIVE):
            rate, first, accuracy = (
                self.median(runtime, name)
                for name in ("images_per_second", "seconds_to_first_step", "test_accuracy")
            )
            lines.append(f"{runtime:10} {rate:9.1f} {first:9.1f} s {100 * accuracy:7.1f} %")
        ratio = self.median(NATIVE, "images_per_second") / self.median(
            CONTAINER, "images_per_second"
        )
        return "\n".join([*lines, f"native over container, rate: {ratio:.3f}"])


def in_node(node: str, command: str) -> None:
    """Run a command as root on a node."""
    run(["docker", "exec", f"trainyard-speed-{node}", "sh", "-c", command])


def take_turn(runtime: str, inventory: Path, training: list[str]) -> Turn:
    """Train once."""
    load = os.getloadavg()[0]
    run(make("train", inventory, *training))
    summary = json.loads((CHECKOUT / "runs/latest/summary.json").read_text(encoding="utf-8"))
    return Turn(
        runtime,
        images_per_second=summary["images_per_second"],
        seconds_to_first_step=summary["seconds_to_first_step"],
        test_accuracy=summary["test_accuracy"],
        load=load,
    )


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description="Measures RUNTIME=native beside containers.")
    parser.add_argument("--turns", type=int, default=5, help="pairs of trainings (%(default)s)")
    parser.add_argument("--model", default="vit", help="what is trained (%(default)s)")
    parser.add_argument("--images", type=int, default=5000, help="of one epoch (%(default)s)")
    options = parser.parse_args()
    training = [f"MODEL={options.model}", f"TRAIN_IMAGES={options.images}", "EPOCHS=1"]
    training.append(f"NODES={len(NODES)}")
    measured = Measured()
    with ExitStack() as stack:
        inventory = stack.enter_context(cluster(len(NODES)))
        run(make("setup", inventory))
        run(make("data", inventory, "DATASET=cifar10"))
        for node in NODES:
            add_account(partial(in_node, node))
            stack.callback(remove_account, partial(in_node, node))
        students = DIRECTORY / "students"
        write_native_inventory(students, inventory / "nodes.yml", NODES)
        run(make("setup", students))
        for _ in range(options.turns):
            for runtime, hosts in ((CONTAINER, inventory), (NATIVE, students)):
                measured.turns.append(take_turn(runtime, hosts, training))
    print(measured)
    results = DIRECTORY / "native.json"
    results.write_text(json.dumps(asdict(measured), indent=2) + "\n")
    print(f"{results.relative_to(CHECKOUT)} has all turns, with the load before each")


if __name__ == "__main__":
    main()
