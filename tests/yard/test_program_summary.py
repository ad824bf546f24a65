"""A run of a program of the user's own: its summary, what is shown of it, and its retries."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extend import end_ranks, make_project, sample_connections, write_lines
from rich.console import Console
from test_schemas import errors

from yard.core.errors import Exit, RequestError
from yard.core.project import Project
from yard.operations.ending import conclude
from yard.runs.overview import overview_of
from yard.runs.record import read_run
from yard.runs.retry import check_resumable, put_attempt_aside, resume_variables
from yard.runs.summary import LEFT_NOTHING, LEFT_WORDS, NEVER_CONNECTED, read_summary, summarise
from yard.screen.result import show_result
from yard.screen.tables import show_runs

LINES = [
    {"step": 1, "steps": 4, "lr": 0.1, "loss": 2.5, "time": 1795173612.0},
    {"step": 4, "steps": 4, "lr": 0.1, "loss": 2.10432, "time": 1795173640.0},
    {"epoch": 1, "val/acc": 0.381},
]


@pytest.fixture
def run(recorded: Callable[[str], Path]) -> Path:
    """A run of a program that ended well and has said nothing yet."""
    run = recorded("succeeded")
    make_project(run)
    end_ranks(run, 0, 0)
    return run


def shown(run: Path) -> str:
    """What the screen says at the end."""
    summary = read_summary(run)
    assert summary is not None
    screen = io.StringIO()
    show_result(Console(file=screen, width=200, soft_wrap=True), Project(run.parent), run, summary)
    return screen.getvalue()


def faults(run: Path) -> list[str]:
    """What is wrong with the form of the summary."""
    return errors("summary", json.loads((run / "summary.json").read_text()))


def test_a_program_is_done_when_mpirun_is(run: Path) -> None:
    write_lines(run / "metrics.jsonl", LINES)
    summary = conclude(run)
    assert (summary.status, summary.exit_status) == ("succeeded", Exit.DONE)
    assert (summary.model, summary.dataset) == ("digits", None)
    assert (summary.epochs, summary.batch_per_rank, summary.test_accuracy) == (None, None, None)
    assert (summary.world_size, summary.hosts, summary.steps) == (2, ("node1", "node2"), 4)
    assert list(summary.readings.items()) == [("loss", 2.10432), ("val/acc", 0.381), ("lr", 0.1)]
    assert summary.warnings == ()
    assert summary.seconds_to_first_step == 12
    assert read_summary(run) == summary
    assert faults(run) == []
    (run / "exit_status").write_text("1")
    assert summarise(read_run(run)).status == "failed"


def test_a_first_step_without_a_time_was_done_when_it_was_seen(run: Path) -> None:
    write_lines(run / "metrics.jsonl", [{"loss": 3}, {"step": 1}])
    assert summarise(read_run(run)).seconds_to_first_step == 13.658
    write_lines(run / "metrics.jsonl", [{"loss": 3}])
    assert summarise(read_run(run)).seconds_to_first_step is None


def test_the_trainer_s_lines_are_a_program_s_as_any_other(run: Path) -> None:
    """A program may write the trainer's form; it has no accuracy of a test set for that."""
    line = {"event": "end", "time": 1795173640.0, "step": 1, "steps": 1, "epoch": 1, "epochs": 1}
    line |= {"loss": 1.0, "accuracy": 0.5, "images_per_second": 3, "lr": 0.1}
    write_lines(run / "metrics.jsonl", [line])
    summary = conclude(run)
    assert summary.test_accuracy is None
    assert summary.readings["accuracy"] == 0.5


def test_the_screen_shows_what_there_is_and_no_none(run: Path) -> None:
    values = [{f"long name of a number {number}": number} for number in range(20)]
    write_lines(run / "metrics.jsonl", [*LINES, *values])
    conclude(run)
    text = shown(run)
    assert "None" not in text
    rows = [row.split() for row in text.splitlines()]
    assert ["loss", "2.104"] in rows
    assert ["val/acc", "0.381"] in rows
    assert "more          15 numbers in the report" in text
    table = io.StringIO()
    show_runs(Console(file=table, width=200), [overview_of(run)])
    assert "2.104" in table.getvalue()
    assert (overview_of(run).accuracy, overview_of(run).loss) == ("", "2.104")
    assert "None" not in table.getvalue()


def test_a_file_of_the_trainer_s_name_is_none_of_its_words(run: Path) -> None:
    (run / "config.json").write_text('{"dataset": 7, "model": "x", "epochs": "many"}')
    assert conclude(run).dataset is None
    assert faults(run) == []


def leave_nothing(run: Path) -> None:
    pass


def leave_output(run: Path) -> None:
    (run / "nodes/node2/outputs/deep").mkdir(parents=True)
    (run / "nodes/node2/outputs/deep/a.txt").touch()


def leave_checkpoint(run: Path) -> None:
    (run / "checkpoints").mkdir()
    (run / "checkpoints/a").touch()


def leave_metrics(run: Path) -> None:
    write_lines(run / "metrics.jsonl", [{"loss": 1}])


def leave_words(run: Path) -> None:
    with (run / "logs/rank-1.log").open("a") as log:
        log.write("done\n")


def leave_failure(run: Path) -> None:
    (run / "exit_status").write_text("1")


def leave_one_rank(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "hosts": ["node1"]}))


def leave_what_was_refused(run: Path) -> None:
    (run / "nodes/node1").mkdir(parents=True, exist_ok=True)
    finding = {"code": "files_refused", "values": {"files": 1, "names": "a link"}}
    (run / "nodes/node1/findings.json").write_text(json.dumps([finding]))


@pytest.mark.parametrize(
    ("leave", "warned"),
    [
        (leave_nothing, True),
        (leave_output, False),
        (leave_checkpoint, False),
        (leave_metrics, False),
        (leave_words, False),
        (leave_failure, False),
        (leave_one_rank, False),
        (leave_what_was_refused, False),
    ],
)
def test_a_good_end_that_left_nothing_is_warned_of(
    run: Path, leave: Callable[[Path], None], warned: bool
) -> None:
    leave(run)
    summary = conclude(run)
    assert summary.warnings == ((LEFT_NOTHING,) if warned else ())
    assert ("left nothing" in shown(run)) == warned
    assert ("left nothing" in (run / "report.html").read_text()) == warned
    assert faults(run) == []


@pytest.mark.parametrize(
    ("connected", "warned"),
    [
        ((False, False), True),
        ((True, True), False),
        # A connection has two ends, and one of them may be seen late.
        ((False, True), False),
        ((True, False), False),
        # Nobody looks where MPI goes another way than over TCP.
        ((None, None), False),
        ((False, None), False),
        # The other node sent no samples.
        ((False,), False),
        ((), False),
    ],
)
def test_ranks_that_never_met_are_warned_of(
    run: Path, connected: tuple[bool | None, ...], warned: bool
) -> None:
    leave_words(run)
    sample_connections(run, *connected)
    summary = conclude(run)
    assert summary.warnings == ((NEVER_CONNECTED,) if warned else ())
    assert ("held a connection" in shown(run)) == warned
    assert ("held a connection" in (run / "report.html").read_text()) == warned
    assert faults(run) == []


def last_ranks(run: Path, seconds: float) -> None:
    """Let the ranks end well, after some seconds."""
    end_ranks(run, 0, 0)
    for path in (run / "ranks").glob("*.json"):
        end = json.loads(path.read_text())
        path.write_text(json.dumps({**end, "started_at": end["ended_at"] - seconds}))


def test_who_was_over_at_once_with_words_alone_is_warned_of(run: Path) -> None:
    """As pytorch/examples' distributed/ddp/example.py, which ends with 0 without GPUs."""
    with (run / "logs/rank-0.log").open("a") as log:
        log.write("looking\nUnable to locate sufficient 2 gpus\x1b]0;x\n")
    last_ranks(run, 3)
    (warning,) = conclude(run).warnings
    assert warning.startswith(LEFT_WORDS)
    assert warning.endswith(": Unable to locate sufficient 2 gpus")
    assert "Unable to locate sufficient" in shown(run)
    assert "Unable to locate sufficient" in (run / "report.html").read_text()
    assert faults(run) == []
    leave_output(run)
    assert summarise(read_run(run)).warnings == ()


@pytest.mark.parametrize(("connected", "warned"), [(False, True), (True, False), (None, False)])
def test_imports_take_long_on_a_busy_machine(
    run: Path, connected: bool | None, warned: bool
) -> None:
    leave_words(run)
    last_ranks(run, 40)
    sample_connections(run, connected, connected, samples=2)
    assert [text.startswith(LEFT_WORDS) for text in conclude(run).warnings] == [True] * warned


def test_who_worked_for_a_while_may_leave_words_alone(run: Path) -> None:
    leave_words(run)
    last_ranks(run, 30)
    assert summarise(read_run(run)).warnings == ()


def test_ranks_that_met_once_met(run: Path) -> None:
    leave_words(run)
    sample_connections(run, False, False)
    with (run / "nodes/node2/utilisation.jsonl").open("a") as samples:
        samples.write('{"time": 1795173712.0, "connected": true}\n{"time": 17951')
    assert summarise(read_run(run)).warnings == ()


def test_a_run_of_a_few_seconds_says_nothing_of_connections(run: Path) -> None:
    leave_words(run)
    sample_connections(run, False, False, samples=3)
    assert summarise(read_run(run)).warnings == ()
    sample_connections(run, False, False, samples=4)
    assert summarise(read_run(run)).warnings == (NEVER_CONNECTED,)


def test_of_a_retry_its_own_connections_count(run: Path) -> None:
    leave_words(run)
    sample_connections(run, True, True)
    (run / "attempts/1").mkdir(parents=True)
    (run / "nodes").rename(run / "attempts/1/nodes")
    sample_connections(run, False, False)
    write_lines(run / "nodes/node1/container.json", [])
    write_lines(run / "nodes/node2/container.json", [])
    assert summarise(read_run(run)).warnings == (NEVER_CONNECTED,)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"time": 1, "connected": "no"}', "7", "null"])
def test_what_a_rank_writes_in_place_of_samples_is_no_reason(run: Path, line: str) -> None:
    leave_words(run)
    for host in ("node1", "node2"):
        path = run / f"nodes/{host}/utilisation.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{line}\n" * 6)
    assert summarise(read_run(run)).warnings == ()


@pytest.mark.parametrize("status", ["0", "1"])
def test_a_share_that_took_no_copies_is_warned_of(run: Path, status: str) -> None:
    write_lines(run / "metrics.jsonl", LINES)
    (run / "exit_status").write_text(status)
    values = {"path": "/srv/share/weights", "message": "No space left on device\x1b[2J"}
    findings = run / "nodes/node2/findings.json"
    findings.write_text(json.dumps([{"code": "share_failed", "values": values}]))
    assert errors("findings", json.loads(findings.read_text())) == []
    (warning,) = conclude(run).warnings
    assert warning.startswith(
        "checkpoints and outputs of node2 could not all be copied to /srv/share/weights: "
        "'No space left on device\\x1b"
    )
    assert "could not all be copied" in shown(run)
    assert faults(run) == []


SILENCE = '{"time": 1795173700.5, "seconds": 600}\n'


@pytest.mark.parametrize("status", ["0", "1"])
def test_silences_are_warned_of_however_the_run_ended(run: Path, status: str) -> None:
    leave_words(run)
    (run / "exit_status").write_text(status)
    (run / "silences.jsonl").write_text(SILENCE + '{"time": 1795')
    summary = conclude(run)
    assert [warning.partition(" no rank")[0] for warning in summary.warnings] == ["for 10 min 0 s"]
    assert "for 10 min 0 s no rank wrote a line" in shown(run)
    assert "for 10 min 0 s no rank wrote a line" in (run / "report.html").read_text()
    assert faults(run) == []
    # What comes after a failed attempt is not to blame for its silences.
    place = put_attempt_aside(run)
    assert (place / "silences.jsonl").is_file()
    assert read_run(run).silences == ()


@pytest.mark.parametrize(
    "line",
    ["[" * 5_000, "7", '{"time": 1}', '{"time": 1, "seconds": "9"}', '{"time": 1, "seconds": -1}']
    + [f'{{"time": 1, "seconds": {text}}}' for text in ("NaN", "Infinity", "1e300", "true")],
)
def test_what_a_rank_writes_in_place_of_silences_is_passed_over(run: Path, line: str) -> None:
    leave_words(run)
    (run / "silences.jsonl").write_text(f"{line}\n{SILENCE}{line}\n")
    assert [silence.seconds for silence in read_run(run).silences] == [600]
    (run / "silences.jsonl").write_text(SILENCE * 5_000)
    assert len(read_run(run).silences) == 16


def test_the_trainer_s_runs_are_warned_of_nothing(recorded: Callable[[str], Path]) -> None:
    run = recorded("succeeded")
    sample_connections(run, False, False)
    assert summarise(read_run(run)).warnings == ()


@pytest.mark.parametrize(
    "file",
    [
        "",
        "checkpoints/deep/state.bin",
        "outputs/last.ckpt",
        "workdir/model.pth",
        "nodes/node2/workdir/model.pth",
        "nodes/node2/outputs/last.ckpt",
    ],
)
def test_a_program_goes_on_from_any_file(run: Path, file: str) -> None:
    for folder in ("outputs", "workdir", "checkpoints/empty"):
        (run / folder).mkdir(parents=True)
    if file:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).touch()
    (run / "nodes/node2/facts.json").touch()
    place = put_attempt_aside(run)
    assert (place / "nodes/node2/facts.json").exists()
    assert not file or (run / file).exists(), "the next attempt goes on from it"
    found = resume_variables(run, same_run=True)
    if file:
        assert found == {"training_run_resume_from": str(run)}
        check_resumable(run)
    else:
        assert found == {}
        with pytest.raises(RequestError, match="no file to go on from"):
            check_resumable(run)


def test_the_trainer_goes_on_from_its_own_checkpoints_alone(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("killed")
    for file in ("checkpoints/state.bin", "outputs/a"):
        (run / file).parent.mkdir()
        (run / file).touch()
    with pytest.raises(RequestError, match="no checkpoint"):
        check_resumable(run)


def test_an_older_summary_can_be_read(run: Path) -> None:
    conclude(run)
    path = run / "summary.json"
    document: dict[str, Any] = json.loads(path.read_text())
    for name in ("readings", "warnings"):
        del document[name]
    path.write_text(json.dumps(document))
    summary = read_summary(run)
    assert summary is not None
    assert (summary.readings, summary.warnings) == ({}, ())


def test_a_pattern_of_the_project_is_applied_when_the_run_is_over(run: Path) -> None:
    make_project(run, metrics_pattern=r"Iter #(?P<step>\d+): (?P<speed>[\d.]+) img/sec")
    with (run / "logs/rank-0.log").open("a") as log:
        log.write("Iter #0: 12.5 img/sec per CPU\nIter #1: 14.5 img/sec per CPU\n")
    summary = conclude(run)
    assert summary.readings == {"speed": 14.5}
    assert "<h3>speed</h3>" in (run / "report.html").read_text()


def test_what_ended_with_the_container_is_told_with_the_place_to_write_to(run: Path) -> None:
    noted = [
        {"path": "/tmp/test-clm", "files": 1, "bytes": 5_242_880, "kept": True},
        {"path": "/tmp/words", "files": 4000, "bytes": 8000, "kept": False},
        {"path": "/tmp/\x1b[2J", "files": 1, "bytes": 1, "kept": True},
        {"path": "/../../../../../../../../../../etc/passwd", "files": 1, "bytes": 1},
        {"path": "/tmp/more", "files": 1, "bytes": 10**400},
        {"path": 3},
    ]
    (run / "failures").mkdir(exist_ok=True)
    (run / "failures/container-node1.json").write_text(json.dumps(noted))
    (run / "failures/container-elsewhere.json").write_text(json.dumps(noted))
    (run / "outputs/left-in-container/tmp/test-clm").mkdir(parents=True)
    # Of another node the place is said once, and what it alone has is below its name.
    noted[1:] = [{"path": "/tmp/own", "files": 1, "bytes": 5000, "kept": True}]
    (run / "failures/container-node2.json").write_text(json.dumps(noted))
    (run / "nodes/node2/outputs/left-in-container/tmp/own").mkdir(parents=True)
    first, second, third = (
        warning for warning in summarise(read_run(run)).warnings if "container" in warning
    )
    assert first.startswith("the program wrote 1 file of 5.2 MB to /tmp/test-clm on node1, which")
    assert "the copy is outputs/left-in-container/tmp/test-clm. Have it write to" in first
    assert "nothing of it was collected" in second
    assert "the copy is nodes/node2/outputs/left-in-container/tmp/own. " in third


def test_processes_that_were_left_running_are_named(run: Path) -> None:
    """A training in the background, say: the run is over, and so is that."""
    noted = [
        {"rank": 1, "pid": 93, "command": "python3 train.py"},
        {"rank": 1, "pid": "93", "command": "x"},
        {"rank": 1, "pid": 94, "command": "\x1b[2J"},
        3,
    ]
    (run / "failures").mkdir(exist_ok=True)
    (run / "failures/left-elsewhere.json").write_text(json.dumps(noted))
    assert not any("processes" in warning for warning in summarise(read_run(run)).warnings)
    (run / "failures/left-node2.json").write_text(json.dumps(noted))
    (said,) = (each for each in summarise(read_run(run)).warnings if "processes" in each)
    assert "on node2 when rank 1 had ended, and were ended with the run: python3 train.py" in said
    assert "(pid 93), '\\x1b[2J' (pid 94). A run lasts as long as its program" in said
