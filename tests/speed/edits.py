#!/usr/bin/env python3
"""Measures a launch to its first step after an edit: tests/speed/edits.py [--nodes 2,8]

Makes local clusters of its own, as setup.py does, and removes them again. On each, `make train` of
a project (200 modules) and of the trainer's smallest model takes turns, a launch with nothing
changed and one after an edit of one file. Prints the medians and leaves all turns as
.trainyard/speed/edits.json. Meanwhile one file of trainer/ has a comment more.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from setup import CHECKOUT, DIRECTORY, cluster, make, run

# The file of the trainer that is edited; every rank imports it.
TRAINER_FILE = CHECKOUT / "trainer/errors.py"
MODULES = 200
# The first step is the first statement.
PROGRAM = """import json, os, time
if os.environ["RANK"] == "0":
    with open(os.environ["TRAINYARD_METRICS"], "a") as metrics:
        metrics.write(json.dumps({"step": 1, "time": time.time()}) + "\\n")
"""


@dataclass
class Turns:
    """What was measured of one kind of launch.

    Attributes:
        what: the kind, and on how many nodes.
        unchanged, edited: seconds from the command to the first step, a turn each.
        loads: of the machine before each pair of turns, over one minute.
    """

    what: str
    unchanged: list[float] = field(default_factory=list)
    edited: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        medians = [statistics.median(seconds) for seconds in (self.unchanged, self.edited)]
        return f"{self.what:34} no edit {medians[0]:5.1f} s  edit {medians[1]:5.1f} s"


def seconds_to_first_step(command: Sequence[str | Path]) -> float:
    """Launch, and return how long it was to the first step, as the run's summary says.

    Raises:
        SystemExit: the launch failed.
    """
    run(command)
    summary = json.loads((CHECKOUT / "runs/latest/summary.json").read_text(encoding="utf-8"))
    seconds = summary["seconds_to_first_step"]
    if seconds is None:
        sys.exit(f"{summary['run_id']} had no first step")
    return float(seconds)


def take_turns(
    what: str, command: Sequence[str | Path], edit: Callable[[int], None], turns: int
) -> Turns:
    """Measure launches with nothing changed and after an edit in turn, after one to warm up.

    Args:
        edit: changes a file; gets the number of the turn.
    """
    measured = Turns(what)
    seconds_to_first_step(command)
    for turn in range(turns):
        measured.loads.append(os.getloadavg()[0])
        measured.unchanged.append(seconds_to_first_step(command))
        edit(turn)
        measured.edited.append(seconds_to_first_step(command))
    print(measured, flush=True)
    return measured


def make_project() -> Path:
    """Write a project; returns its folder."""
    folder = DIRECTORY / "project"
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    for number in range(MODULES):
        lines = [f"NUMBER_{line} = {line * number}" for line in range(1000)]
        (folder / f"lib/module_{number}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    # This checkout's git ignores the folder: with this file git's rules do not hold.
    (folder / ".trainyardignore").write_text("", encoding="utf-8")
    return folder


def append_comment(path: Path, turn: int) -> None:
    """Edit a file of Python."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"# edit {turn}\n")


@contextmanager
def as_it_was(path: Path) -> Iterator[None]:
    """Put a file's content back in the end."""
    content = path.read_bytes()
    try:
        yield
    finally:
        path.write_bytes(content)


def of_cluster(nodes: int, turns: int) -> Iterator[Turns]:
    """Measure both trainers on new nodes that have been set up."""
    project = make_project()
    with cluster(nodes) as inventory, as_it_was(TRAINER_FILE):
        run(make("setup", inventory))
        common = [f"NODES={nodes}"]
        yield take_turns(
            f"make train CODE=, {nodes} nodes",
            make("train", inventory, f"CODE={project}", *common),
            lambda turn: append_comment(project / "lib/module_0.py", turn),
            turns,
        )
        yield take_turns(
            f"make train MODEL=cnn_a, {nodes} nodes",
            make("train", inventory, "MODEL=cnn_a", "EPOCHS=1", "TRAIN_IMAGES=2048", *common),
            lambda turn: append_comment(TRAINER_FILE, turn),
            turns,
        )


def main() -> None:
    """Measure all, and write what was measured."""
    parser = argparse.ArgumentParser(description="Measures from an edit to the first step.")
    parser.add_argument(
        "--nodes", default="2,8", help="sizes of clusters, with commas (%(default)s)"
    )
    parser.add_argument("--turns", type=int, default=4, help="pairs of launches (%(default)s)")
    options = parser.parse_args()
    # Building the image is no part of what is measured.
    run(["ansible-playbook", "playbooks/trainer_image.yml", "--limit", "localhost"])
    measured = [
        turns for size in options.nodes.split(",") for turns in of_cluster(int(size), options.turns)
    ]
    results = DIRECTORY / "edits.json"
    results.write_text(json.dumps([asdict(entry) for entry in measured], indent=2) + "\n")
    print(f"{results.relative_to(CHECKOUT)} has all turns, with the load before each")


if __name__ == "__main__":
    main()
