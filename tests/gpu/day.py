#!/usr/bin/env python3
"""Shows what only a GPU can show, and writes it down: tests/gpu/day.py [--minutes 40]

It takes the steps of tests/gpu/steps.py in their order, on this machine, within a time for all of
them. What it needs is Python alone: the commands run in the trainer image where that starts with
the GPU, else in a Python of this machine that has a torch with CUDA. After each step all results
are written, to .trainyard/gpu-day/gpu-day.json and docs/gpu-day.md, or where --out says, and a step
that fails ends nothing. Another call on the same machine goes on with the same files.

Exit status: 0 all steps that were taken passed, 1 one failed, 2 a wrong request, 5 none was taken.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.append(str(CHECKOUT))

from record import (  # noqa: E402  # by their places in the checkout, as the next ones
    FAILED,
    LEFT_OUT,
    PASSED,
    Record,
    Result,
    facts,
    merged,
)
from steps import STEPS, Day, LeftOutError, Step, StepError, Turn, named, reserve  # noqa: E402
from ways import CommandError  # noqa: E402

# It knows no Ansible, and there may be none.
from node.machine.gpus import (  # noqa: E402
    Gpu,
    ask_smi,
    read_gpus,
)

MINUTES = 40.0
# What of the checkout figures depend on
MEASURED = ("trainer", "docker/trainer", "tests/gpu")
# Steps that every call takes
FIRST = ("image", "torch", "data")
# As pytest ends where it has collected no test
NOTHING_RUN = 5
DIRECTORY = CHECKOUT / ".trainyard/gpu-day"
DATA = CHECKOUT / ".trainyard/data"
DOCUMENT = CHECKOUT / "docs/gpu-day.md"


def machine_facts(gpus: Sequence[Gpu]) -> dict[str, str]:
    """What figures depend on and does not change between two calls."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [
        line.partition(":")[2].strip() for line in cpuinfo.splitlines() if "model name" in line
    ]
    status, said = ask_smi()
    # "CUDA Version: 13.0"; from 595 on "CUDA UMD Version".
    words = [line for line in said.splitlines() if "CUDA" in line and "Version" in line]
    newest = words[0].rpartition("Version:")[2].strip(" |") if status == 0 and words else ""
    return facts(
        {
            "GPUs": ", ".join(f"{gpu.model} ({gpu.memory_bytes // 2**20:,} MiB)" for gpu in gpus),
            "driver": ", ".join(sorted({gpu.driver for gpu in gpus})),
            "newest CUDA that the driver takes": newest,
            "processor": f"{os.cpu_count()} cores, {models[0] if models else os.uname().machine}",
            "kernel": os.uname().release,
            "this checkout": version(),
        }
    )


def version() -> str:
    """The commit, and whether what is measured differs from it; empty where git cannot tell."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        # Not the document, which every step changes.
        return commit + (", with changes" if git("status", "--porcelain", "--", *MEASURED) else "")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""


def take(day: Day, step: Step, seconds: float) -> Result:
    """Take a step within so many seconds; whatever it does, there is a result."""
    result = Result(step.name, step.title, PASSED)
    begin = time.monotonic()
    try:
        step.take(Turn(day, result, begin + seconds))
    except LeftOutError as error:
        result.outcome, result.reason = LEFT_OUT, str(error)
    except CommandError as error:
        result.outcome, result.reason, result.output = FAILED, str(error), error.output
    except StepError as error:
        result.outcome, result.reason = FAILED, str(error)
    except Exception as error:
        # A fault of the step's own code costs its figures, and not those of the others.
        result.outcome, result.reason = FAILED, f"{type(error).__name__}: {error}"
        result.output = traceback.format_exc()
    result.seconds = time.monotonic() - begin
    return result


def go(day: Day, steps: Sequence[Step], ends: float, keep: Callable[[], None]) -> None:
    """Take steps until the time is over; what then has no room is left out.

    Args:
        ends: when all must be over, by `time.monotonic`.
        keep: writes the record; called after each step.
    """
    for number, step in enumerate(steps):
        left = ends - time.monotonic()
        if left < step.estimate:
            result = Result(step.name, step.title, LEFT_OUT)
            result.reason = (
                f"it takes about {step.estimate:.0f} s, and {max(left, 0):.0f} s are left"
            )
        else:
            print(f"{step.name}: {step.title} ...", flush=True)
            later = reserve(steps[number + 1 :]) if step.is_long else 0
            result = take(day, step, min(step.limit, max(left - later, step.estimate)))
        earlier = day.record.results.get(step.name)
        if result.outcome == LEFT_OUT and earlier is not None and earlier.outcome != LEFT_OUT:
            print(f"  left out now ({result.reason}); what an earlier call showed stays")
            continue
        day.record.add(result, [each.name for each in STEPS])
        keep()
        beside = f": {result.reason}" if result.reason else ""
        print(f"  {result.outcome}, {result.seconds:.0f} s{beside}", flush=True)


def main() -> int:
    """Take the steps; return the exit status."""
    options = _parser().parse_args()
    try:
        steps = named(options.steps)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        for step in steps:
            print(f"{step.name:15} {step.estimate:5.0f} to {step.limit:5.0f} s  {step.title}")
        return 0
    gpus, trouble = read_gpus()
    if not gpus and not options.stand_in:
        print(f"No GPU: {trouble or 'nvidia-smi shows none'}. 0 tests run.", file=sys.stderr)
        return NOTHING_RUN
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    # What comes home from a lent machine is little: logs and data are beside it.
    place = out if options.stand_in else DIRECTORY
    logs = place / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for step in steps:
        (logs / f"{step.name}.log").unlink(missing_ok=True)
    path = out / "gpu-day.json"
    record, word = merged(Record(machine_facts(gpus), options.stand_in), path)
    if word:
        print(word)
    work = Path(tempfile.mkdtemp(prefix="gpu-day-"))
    made = place / "data"
    made.mkdir(exist_ok=True)
    day = Day(
        record,
        work,
        logs,
        options.data.resolve(),
        made,
        len(gpus),
        options.stand_in,
        options.python,
        options.image,
    )
    document = DOCUMENT if out == DIRECTORY else path.with_suffix(".md")

    def keep() -> None:
        record.write(path)
        document.write_text(record.document(), encoding="utf-8")

    before = dict(record.results)
    try:
        go(day, _with_first(steps), time.monotonic() + 60 * options.minutes, keep)
    finally:
        shutil.rmtree(work, ignore_errors=True)  # files of another user may be in it
    return conclude(record, {n: r for n, r in record.results.items() if before.get(n) is not r})


def _with_first(steps: Sequence[Step]) -> list[Step]:
    """The steps, with those that others need: they find where commands run, and the data."""
    return [step for step in STEPS if step in steps or step.name in FIRST]


def conclude(record: Record, new: dict[str, Result]) -> int:
    """Say what a call came to; return the exit status."""
    outcomes = [result.outcome for result in new.values()]
    counts = ", ".join(f"{outcomes.count(word)} {word}" for word in (PASSED, FAILED, LEFT_OUT))
    print(f"{counts} (of all calls: {record.count(PASSED)} passed)")
    for result in new.values():
        if result.outcome != PASSED:
            print(f"  {result.outcome}: {result.name}: {result.reason}")
    if FAILED in outcomes:
        return 1
    if PASSED not in outcomes:
        print("0 tests run.", file=sys.stderr)
        return NOTHING_RUN
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Shows what only a GPU can show.")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="for all steps together (%(default)g)"
    )
    parser.add_argument("--steps", help="which, with commas between; all by default")
    parser.add_argument("--list", action="store_true", help="print the steps, and take none")
    parser.add_argument("--image", help="the trainer image; else the newest with CUDA")
    parser.add_argument("--python", help="the Python with torch; else the first that has one")
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder with cifar10/ or an archive (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=DIRECTORY, help="folder for the results (%(default)s)"
    )
    parser.add_argument(
        "--stand-in",
        action="store_true",
        help="for tests of the steps: a processor in the GPU's place, everything small",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
