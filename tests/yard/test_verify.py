"""The end of a verification (`make verify`) before its time, from another terminal."""

from subprocess import Popen

from conftest import Yard, wait_for


def verifying(yard: Yard) -> tuple["Popen[str]", str]:
    """Start a verification whose programs run for a minute; returns it and its id."""
    process = yard.start("verify", "--checks", "containers")
    wait_for(lambda: any(yard.root.glob("nodes/node1/verify-*/pid")), "the programs to run")
    (directory,) = yard.root.glob("runs/verify-*")
    return process, directory.name


def test_stop_ends_it(ready: Yard) -> None:
    process, name = verifying(ready)
    # The beginning of an id is enough, as for runs.
    stopped = ready("stop", name[:-3])
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert f"{name} has ended; runs/{name} has what was done" in stopped.stdout
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"Verification {name}\n" in output
    assert f"stopped by make stop; runs/{name} has what was done" in output
    assert (ready.root / f"runs/{name}/exit_status").read_text() == "130\n"


def test_stop_ends_what_a_killed_yard_has_left(ready: Yard) -> None:
    process, name = verifying(ready)
    process.kill()
    process.communicate(timeout=60)
    stopped = ready("stop", name)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    # That none of its processes lives is the fixture's to check.
    assert (ready.root / f"runs/{name}/exit_status").read_text() == "130\n"


def test_one_that_has_its_verdict_is_left_alone(ready: Yard) -> None:
    directory = ready.root / "runs/verify-20261122T010203Z"
    directory.mkdir(parents=True)
    (directory / "verdict.json").write_text("{}")
    stopped = ready("stop", directory.name)
    assert stopped.returncode == 0
    assert "verify-20261122T010203Z had ended before" in stopped.stdout
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
