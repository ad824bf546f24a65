"""The end of a verification or a benchmark before its time, from another terminal."""

from subprocess import Popen

import pytest
from yard_command import Yard, wait_for

from yard.runs.measurements import BENCHMARK, VERIFICATION, Kind

# Both run for a minute unless they are stopped.
COMMANDS = {
    VERIFICATION: ("verify", "--checks", "containers"),
    BENCHMARK: ("bench", "--models", "vit"),
}
both = pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: COMMANDS[kind][0])


def begun(yard: Yard, kind: Kind) -> tuple["Popen[str]", str]:
    """Start a job and wait for its programs; returns it and its id."""
    process = yard.start(*COMMANDS[kind])
    wait_for(lambda: any(yard.root.glob(f"nodes/node1/{kind.prefix}*/pid")), "the programs to run")
    (directory,) = yard.root.glob(f"{kind.folder}/{kind.prefix}*")
    return process, directory.name


@both
def test_stop_ends_it(ready: Yard, kind: Kind) -> None:
    process, name = begun(ready, kind)
    # The beginning of an id is enough, as for runs.
    stopped = ready("stop", name[:-3])
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert f"{name} has ended; {kind.folder}/{name} has what was done" in stopped.stdout
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f" {name}\n" in output
    assert f"stopped by make stop; {kind.folder}/{name} has " in output
    assert (ready.root / f"{kind.folder}/{name}/exit_status").read_text() == "130\n"


@both
def test_stop_ends_what_a_killed_yard_has_left(ready: Yard, kind: Kind) -> None:
    process, name = begun(ready, kind)
    process.kill()
    process.communicate(timeout=60)
    stopped = ready("stop", name)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    # That none of its processes lives is the fixture's to check.
    assert (ready.root / f"{kind.folder}/{name}/exit_status").read_text() == "130\n"


@both
def test_one_that_has_its_result_is_left_alone(ready: Yard, kind: Kind) -> None:
    directory = ready.root / kind.folder / f"{kind.prefix}20261122T010203Z"
    directory.mkdir(parents=True)
    (directory / kind.result).write_text("{}")
    stopped = ready("stop", directory.name)
    assert stopped.returncode == 0
    assert f"{directory.name} had ended before" in stopped.stdout
    assert not (directory / "stop_requested").exists()


def test_what_goes_with_trainings_alone_says_so(ready: Yard) -> None:
    (ready.root / "runs/verify-20261122T010203Z").mkdir(parents=True)
    for command in ("attach", "logs", "report"):
        refused = ready(command, "verify-20261122T010203Z")
        assert refused.returncode == 2
        assert "is a verification of the cluster, no training" in refused.stderr
        assert "make stop RUN=verify-20261122T010203Z ends it" in refused.stderr
    unknown = ready("stop", "verify-2025")
    assert unknown.returncode == 2
    assert "run 'verify-2025': unknown; the newest are" in unknown.stderr
