"""TensorBoard over the runs, as `yard` starts it."""

import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from unpacked_sshd import free_port
from yard_command import Yard, wait_for


def write_events(run: Path, place: str = "tensorboard") -> None:
    """Write two steps of a loss, as the trainer does."""
    writer = EventFileWriter(str(run / place))
    for step, loss in ((1, 2.4), (2, 2.1)):
        value = Summary.Value(tag="loss/train", simple_value=loss)
        writer.add_event(Event(step=step, wall_time=step, summary=Summary(value=[value])))
    writer.close()


@pytest.mark.process
def test_it_follows_a_run_that_goes_on(fresh_process: Yard) -> None:
    """Its events come home as a whole new file each time, in the place of the one before."""
    fresh = fresh_process
    run, port = fresh.root / "runs/20261120T112000Z_a", free_port()
    write_events(run)
    (path,) = (run / "tensorboard").iterdir()
    whole = path.read_bytes()
    # The second step has been begun.
    path.write_bytes(whole[:-10])
    server = fresh.start("tensorboard", "--port", str(port))

    def steps() -> list[int]:
        query = f"tag=loss/train&run={run.name}"
        address = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?{query}"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return [step for _, step, _ in json.load(answer)]
        except OSError:
            return []

    try:
        wait_for(lambda: steps() == [1], "the first step")
        new = path.with_name(".new")
        new.write_bytes(whole)
        new.replace(path)
        wait_for(lambda: steps() == [1, 2], "the second step")
    finally:
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=30)
    assert server.returncode == 0, output


@pytest.mark.process
@pytest.mark.promise("make tensorboard")
def test_it_serves_each_run_once_and_this_machine_alone(fresh_process: Yard) -> None:
    fresh = fresh_process
    runs, port = fresh.root / "runs", free_port()
    write_events(runs / "20261120T112000Z_a")
    (runs / "latest").symlink_to("20261120T112000Z_a")
    server = fresh.start("tensorboard", "--port", str(port))

    def listed() -> list[str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/runs", timeout=5) as answer:
                names: list[str] = json.load(answer)
        except OSError:
            return []
        return names

    try:
        wait_for(lambda: listed() == ["20261120T112000Z_a"], "the run to be served")
        write_events(runs / "20261120T113000Z_b")
        wait_for(lambda: len(listed()) == 2, "a run that was collected meanwhile")
        (runs / "20261120T114000Z_c/outputs").mkdir(parents=True)
        write_events(runs / "20261120T114000Z_c", "workdir/lightning_logs/version_0")
        own = "20261120T114000Z_c_workdir/lightning_logs/version_0"
        wait_for(lambda: own in listed(), "what a project wrote")
        assert len(listed()) == 3
        # The second is not there where the kernel has no IPv6.
        tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
        listening = "".join(path.read_text() for path in tables if path.exists())
        addresses = re.findall(rf"\d+: ([0-9A-F]+):{port:04X} \S+ 0A ", listening)
        assert addresses == ["0100007F"]
    finally:
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=30)
    assert server.returncode == 0, output


def test_without_events_it_says_so(fresh: Yard) -> None:
    done = fresh("tensorboard")
    assert done.returncode == 2
    assert "no run has TensorBoard events yet" in done.stderr


def test_a_port_that_is_none_is_refused(fresh: Yard) -> None:
    write_events(fresh.root / "runs/20261120T112000Z_a")
    done = fresh("tensorboard", "--port", "99999")
    assert done.returncode == 2
    assert "PORT=99999: must be a port, 1 to 65535" in done.stderr
