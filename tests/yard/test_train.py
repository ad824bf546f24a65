"""Whole runs, from the command to its summary, of a job that leaves what one leaves.

Nodes that stand in for playbooks and machines serve all but the tests with the mark `process`.
"""

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pexpect
import pytest
from stand_in_nodes import KilledError, YardHere
from yard_command import Yard, wait_for

from yard.core.context import Context
from yard.operations import queue
from yard.runs.folder import STOP_MARK

TRAIN = ("train", "--model", "vit", "--nodes", "2")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def summary_of(yard: Yard) -> dict[str, object]:
    document = json.loads((yard.root / "runs/latest/summary.json").read_text())
    assert isinstance(document, dict)
    return document


def test_a_fresh_machine_is_set_up_and_trains(fresh: YardHere) -> None:
    done = fresh(*TRAIN, "--name", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trains on 10,000 of 50,000 images (TRAIN_IMAGES=all for the whole set)" in done.stdout
    assert "Setting up: there are 0 of 2 nodes" in done.stdout
    assert "Succeeded after" in done.stdout
    assert not CONTROL.search(done.stdout)

    run = (fresh.root / "runs/latest").resolve()
    assert re.fullmatch(r"\d{8}T\d{6}Z_vit_cifar10_b64_e2_n2_p1", run.name)
    summary = summary_of(fresh)
    assert (summary["status"], summary["name"]) == ("succeeded", "first")
    assert summary["hosts"] == ["node1", "node2"]
    assert 0 < summary["seconds_to_first_step"] < summary["seconds_total"]  # type: ignore[operator]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["request"] == {"model": "vit", "nodes": 2, "name": "first"}
    assert manifest["configuration"]["engine"] == "horovod"
    assert manifest["versions"]["trainer"] == {"torch": "2.6.0"}
    assert (run / "report.html").is_file()

    runs = fresh("runs").stdout
    assert re.search(rf"{run.name} +succeeded .* 41\.0 % .* 120\.0 +\S+@\S+\s+vit-1 first\b", runs)
    assert f'href="{run.name}/report.html"' in (fresh.root / "runs/index.html").read_text()
    logs = fresh("logs", "latest", "--rank", "1").stdout
    assert logs == "[1 node2] rank 1 of 2 on node2 (pid 17)\n"
    (run / "report.html").unlink()
    assert fresh("report", run.name[:16]).returncode == 0
    assert (run / "report.html").is_file()


def test_the_gpus_that_nodes_give_are_said_and_written_down(ready: YardHere) -> None:
    done = ready(*TRAIN, "--gpus-per-node", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes, 4 ranks" in done.stdout
    assert "takes 2 free GPUs of each node" in done.stdout
    assert "node1: GPU 0, 1, port 2222" in done.stdout
    assert "node2: GPU 1, 2, port 2223" in done.stdout
    manifest = json.loads((ready.root / "runs/latest/manifest.json").read_text())
    assert manifest["gpus"] == {"node1": [0, 1], "node2": [1, 2]}
    assert manifest["configuration"]["gpus_per_node"] == 2
    assert manifest["request"]["gpus_per_node"] == 2


def test_a_ready_cluster_is_not_set_up_again_and_grows_when_asked(ready: YardHere) -> None:
    done = ready(*TRAIN, "--set", "fate=killed")
    assert "Setting up" not in done.stdout
    assert done.returncode == 1
    assert re.search(r"host +node2, rank 1", done.stdout)
    assert re.search(r"cause +Rank 1 \(process 4711\) was killed with signal 9", done.stdout)
    assert "prterun noticed that process rank 1" in done.stdout
    summary = summary_of(ready)
    assert (summary["status"], summary["exit_status"]) == ("failed", 1)
    assert summary["launcher_exit_status"] == 137

    grown = ready("train", "--model", "vit", "--nodes", "3", "--set", "steps=4")
    assert "Setting up: there are 2 of 3 nodes" in grown.stdout
    assert grown.returncode == 0
    record = json.loads((ready.root / ".trainyard/local/setup.json").read_text())
    assert record["nodes"] == ["node1", "node2", "node3"]
    assert record["datasets"] == ["cifar10"]


def test_it_has_the_nodes_that_are_named_and_nothing_is_set_up_for_that(ready: YardHere) -> None:
    done = ready("train", "--model", "vit", "--on", "node2", "--set", "steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Setting up" not in done.stdout
    assert summary_of(ready)["hosts"] == ["node2"]
    again = ready("rerun", "latest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert summary_of(ready)["hosts"] == ["node2"]


def test_no_more_nodes_than_are_named(ready: YardHere) -> None:
    few = ready("train", "--model", "vit", "--on", "node2", "--nodes", "2")
    assert (few.returncode, "nodes 2: this inventory has 1: node2" in few.stderr) == (2, True)
    other = ready("train", "--model", "vit", "--on", "node7")
    assert "no node or group node7; there are: node1, node2" in other.stderr


def test_a_changed_role_is_set_up_again(ready: YardHere) -> None:
    with (ready.root / "roles/training_run/tasks/start.yml").open("a") as file:
        file.write("# changed\n")
    done = ready(*TRAIN, "--set", "steps=4")
    assert "Setting up: roles/training_run/tasks/start.yml changed since" in done.stdout
    assert done.returncode == 0


def edit(yard: Yard) -> None:
    """Write a file that the test's playbook makes the image from."""
    file = yard.root / "docker/trainer/bin/rank"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# rank\n")


def test_an_edit_of_the_trainer_needs_nothing(ready: YardHere) -> None:
    (ready.root / "trainer").mkdir()
    (ready.root / "trainer/loop.py").write_text("# changed\n")
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Setting up" not in done.stdout
    assert "Making the trainer image anew" not in done.stdout


def test_an_edit_of_the_image_brings_that_alone(ready: YardHere) -> None:
    edit(ready)
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Making the trainer image anew: docker/trainer/bin/rank changed since" in done.stdout
    assert "Setting up" not in done.stdout
    assert (ready.root / "nodes/node2/image").read_text() == "# rank\n"
    log = ready.root / ".trainyard/local/log"
    assert len(list(log.glob("setup-*.log"))) == 1  # the fixture's
    assert len(list(log.glob("data-*.log"))) == 1

    again = ready(*TRAIN, "--set", "steps=4")
    assert "Making the trainer image anew" not in again.stdout
    assert len(list(log.glob("trainer_image-*.log"))) == 1


def test_an_edit_beside_a_changed_role_sets_up_all(ready: YardHere) -> None:
    edit(ready)
    with (ready.root / "roles/training_run/tasks/start.yml").open("a") as file:
        file.write("# changed\n")
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.returncode == 0
    assert "docker/trainer/bin/rank and 1 more changed since" in done.stdout
    assert "Setting up" in done.stdout
    assert "Making the trainer image anew" not in done.stdout


def test_an_image_that_a_node_cannot_get_leads_to_a_set_up(ready: YardHere) -> None:
    edit(ready)
    (ready.root / "nodes/node2/unplugged").touch()
    done = ready(*TRAIN, "--set", "steps=4")
    assert "Making the trainer image anew" in done.stdout
    assert "trainer_image.yml failed" in done.stdout
    assert "make doctor says what mends it" in done.stdout
    assert "Setting up: docker/trainer/bin/rank changed since" in done.stdout
    assert done.returncode == 0


def test_an_image_that_cannot_be_built_is_status_3_and_is_tried_again(ready: YardHere) -> None:
    (ready.root / "docker/trainer").mkdir(parents=True)
    (ready.root / "docker/trainer/other").touch()
    for _ in range(2):
        done = ready(*TRAIN)
        assert done.returncode == 3
        assert "Setting up" not in done.stdout
    assert not (ready.root / "runs").exists()


def test_nodes_that_died_are_set_up_once_and_the_run_goes_on(ready: YardHere) -> None:
    (ready.root / "nodes/node2/cifar10").unlink()
    (ready.root / "nodes/node2").rmdir()
    done = ready(*TRAIN, "--set", "steps=4")
    assert "setting them up again" in done.stdout
    assert done.returncode == 0
    assert (ready.root / "nodes/node2/cifar10").is_file()
    assert len(list((ready.root / "runs").glob("2*"))) == 1


def test_nodes_that_died_before_they_got_the_data_are_set_up_once(ready: YardHere) -> None:
    record = ready.root / ".trainyard/local/setup.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "datasets": []}))
    (ready.root / "nodes/node2/cifar10").unlink()
    (ready.root / "nodes/node2/unplugged").touch()
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.stdout.count("setting them up again") == 1
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ready.root / "nodes/node2/cifar10").is_file()


def remembered_datasets(yard: Yard) -> list[str]:
    document = json.loads((yard.root / ".trainyard/local/setup.json").read_text())
    return list(document["datasets"])


def test_a_setup_that_changes_nothing_leaves_the_data_known(ready: YardHere) -> None:
    done = ready("setup")
    assert done.returncode == 0
    assert "Ready: 2 nodes. Next:\n  a model       make train MODEL=vit NODES=2" in done.stdout
    assert remembered_datasets(ready) == ["cifar10"]
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((ready.root / ".trainyard/local/log").glob("data-*.log"))) == 1


def test_nobody_knows_what_nodes_have_that_a_setup_changed(ready: YardHere) -> None:
    shutil.rmtree(ready.root / "nodes/node2")
    assert ready("setup").returncode == 0
    assert remembered_datasets(ready) == []


def test_nobody_knows_what_nodes_have_after_a_role_was_changed(ready: YardHere) -> None:
    with (ready.root / "roles/training_run/tasks/start.yml").open("a") as file:
        file.write("# changed\n")
    assert ready("setup").returncode == 0
    assert remembered_datasets(ready) == []


def test_data_that_a_node_lost_is_put_there_again(ready: YardHere) -> None:
    (ready.root / "nodes/node2/cifar10").unlink()
    done = ready(*TRAIN, "--set", "steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node2 changed=0" in done.stdout
    assert (ready.root / "nodes/node2/cifar10").is_file()


def test_machines_are_never_set_up_unasked(fresh: YardHere) -> None:
    done = fresh("--inventory", "inventory/lab", "train", "--model", "vit", "--nodes", "2")
    assert done.returncode == 3
    assert "run: make setup INVENTORY=inventory/lab" in done.stderr
    assert not (fresh.root / "runs").exists()
    assert not (fresh.root / "nodes").exists()

    done = fresh("--inventory", "inventory/lab", "setup")
    assert done.returncode == 0
    assert "alpha changed=1" in done.stdout
    # Of debug tasks; one was passed over.
    assert "\nreboot required on beta\n" in done.stdout
    assert "required on alpha" not in done.stdout
    again = fresh("--inventory", "inventory/lab", "setup")
    assert "alpha changed=0" in again.stdout
    assert "beta changed=0" in again.stdout


def test_a_bad_request_touches_nothing(fresh: YardHere) -> None:
    done = fresh("train", "--model", "nonsense", "--nodes", "9")
    assert done.returncode == 2
    assert "vit    Vision transformer" in done.stderr
    assert "node1, node2, node3, node4" in done.stderr
    assert not (fresh.root / "runs").exists()
    assert not (fresh.root / ".trainyard").exists()


def test_a_failed_setup_is_status_3_with_host_task_and_message(fresh: YardHere) -> None:
    with (fresh.root / "group_vars/all.yml").open("a") as file:
        file.write("break_setup: node2\n")
    done = fresh(*TRAIN)
    assert done.returncode == 3
    assert "node2  Obey a breakage that a test asks for" in done.stdout
    assert "the disk of node2 is upside down" in done.stdout
    (log,) = (fresh.root / ".trainyard/local/log").glob("setup-*.log")
    assert str(log.relative_to(fresh.root)) in done.stderr
    assert "upside down" in log.read_text()
    assert not (fresh.root / ".trainyard/local/setup.json").exists()


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_training_collects_even_if_pressed_again(ready: YardHere) -> None:
    ready.during = {"Follow the run": [ctrl_c], "End the job and bring home what it left": [ctrl_c]}
    done = ready(*TRAIN, "--set", "steps=600")
    assert done.returncode == 130, done.stdout + done.stderr
    assert "Still collecting the logs of this run" in done.stdout
    assert "Stopped after" in done.stdout
    summary = summary_of(ready)
    assert (summary["status"], summary["exit_status"]) == ("stopped", 130)
    assert summary["diagnosis"] is None
    assert (ready.root / "runs/latest/logs/rank-1.log").is_file()
    assert (ready.root / "runs/latest/exit_status").read_text() == "130\n"


def test_ctrl_c_stops_a_run_whose_output_nobody_reads_any_more(ready: YardHere) -> None:
    """As with `make train | tee log`, where the Ctrl-C ends tee, too."""

    def nobody_reads() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = os.fdopen(writer, "w")  # the command's own, which ends with it
        ctrl_c()

    ready.during = {"Follow the run": [nobody_reads]}
    assert ready(*TRAIN, "--set", "steps=600").returncode == 130
    assert summary_of(ready)["status"] == "stopped"
    assert (ready.root / "runs/latest/logs/rank-1.log").is_file()


def test_ctrl_c_while_starting_leaves_nothing(ready: YardHere) -> None:
    ready.during = {"Start the containers": [ctrl_c]}
    done = ready(*TRAIN)
    assert done.returncode == 130, done.stdout + done.stderr
    assert summary_of(ready)["status"] == "stopped"
    assert not (ready.root / "runs/latest/metrics.jsonl").exists()


def test_sigterm_during_setup_ends_it(fresh: YardHere) -> None:
    fresh.during = {"Make the node's directory": [lambda: os.kill(os.getpid(), signal.SIGTERM)]}
    done = fresh(*TRAIN)
    assert done.returncode == 130, done.stdout + done.stderr
    assert not (fresh.root / "runs").exists()
    assert not (fresh.root / ".trainyard/local/setup.json").exists()


def test_stop_from_another_terminal(ready: YardHere) -> None:
    stopped = []
    ready.during = {"Follow the run": [lambda: stopped.append(ready("stop", "latest"))]}
    done = ready(*TRAIN, "--set", "steps=600")
    assert stopped[0].returncode == 0, stopped[0].stdout + stopped[0].stderr
    assert done.returncode == 130, done.stdout + done.stderr
    assert summary_of(ready)["status"] == "stopped"
    again = ready("stop", "latest")
    assert "had ended before (stopped)" in again.stdout


def test_a_node_without_a_part_in_the_run_does_not_matter_to_its_end(ready: YardHere) -> None:
    done = ready("train", "--model", "vit", "--nodes", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    (ready.root / "nodes/node2/unplugged").touch()
    stopped = ready("stop", "latest")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


def test_a_stop_before_the_nodes_are_taken_is_heeded(ready: YardHere) -> None:
    mark = ready.root / "runs/latest" / STOP_MARK
    ready.during = {"Look at the node": [mark.touch]}
    done = ready(*TRAIN)
    assert done.returncode == 130, done.stdout + done.stderr
    assert summary_of(ready)["status"] == "stopped"
    assert not any(ready.root.glob("nodes/*/*/logs"))


def test_attach_after_yard_was_killed(ready: YardHere) -> None:
    def look_and_die() -> None:
        followed = ready("attach", "latest")
        assert followed.returncode == 2
        assert "another command follows 2" in followed.stderr
        raise KilledError

    ready.during = {"Follow the run": [lambda: None, look_and_die]}
    with pytest.raises(KilledError):
        ready(*TRAIN, "--set", "steps=60")
    assert not (ready.root / "runs/latest/summary.json").exists()

    attached = ready("attach", "latest")
    assert attached.returncode == 0, attached.stdout + attached.stderr
    assert "Succeeded after" in attached.stdout
    summary = summary_of(ready)
    assert (summary["status"], summary["steps"]) == ("succeeded", 60)
    assert summary["seconds_to_first_step"] is not None
    again = ready("attach", "latest")
    assert again.returncode == 0
    assert "had ended before (succeeded)" in again.stdout


@pytest.mark.process
def test_on_a_terminal_nothing_wraps_and_ctrl_c_works(ready_process: Yard) -> None:
    """At 80 columns; what is shown is looked at without its colours.

    A run is left to go on in the background, and stopped from another terminal.
    """
    yard = ready_process
    # More than it can do until it is stopped, however busy this machine is
    command, *arguments = yard.command(*TRAIN, "--set", "steps=60000")
    seen = yard.root / "screen"
    with seen.open("wb") as screen:
        child = pexpect.spawn(
            command,
            arguments,
            cwd=str(yard.root),
            env={**yard.environment, "TERM": "xterm-256color"},
            dimensions=(30, 80),
            timeout=60,
        )
        child.logfile_read = screen
        child.expect(rb"step \d+/60000")
        child.expect(rb"images/s")
        child.sendintr()
        child.expect(rb"s stops the run, d leaves it")
        child.send("\r")
        child.expect(rb"It goes on")
        child.sendintr()
        child.expect(rb"d leaves it to go on in the background")
        child.send("d")
        child.expect(rb"It goes on in the background")
        child.expect(pexpect.EOF)
        child.close()
    assert child.exitstatus == 0
    text = seen.read_bytes().decode()
    assert "^C" not in text
    visible = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line for row in visible.split("\n") for line in row.split("\r")]
    assert any(line.startswith("Training ") for line in lines)
    assert max(len(line) for line in lines if line.startswith(("Training ", "  "))) <= 80
    assert sys.executable not in visible

    stopped = yard("stop", "latest")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    summary = yard.root / "runs/latest/summary.json"
    wait_for(summary.exists, "the command in the background to sum it up")
    assert (summary_of(yard)["status"], summary_of(yard)["exit_status"]) == ("stopped", 130)
    assert (yard.root / "runs/latest/logs/rank-1.log").is_file()


def test_a_run_is_begun_in_the_background(ready: YardHere) -> None:
    done = ready(*TRAIN, "--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    run = (ready.root / "runs/latest").resolve()
    assert f"make logs RUN={run.name} FOLLOW=1" in done.stdout
    assert "nodes: node1, node2" in done.stdout
    assert "Succeeded after" not in done.stdout, "it is the log's to say"
    assert summary_of(ready)["status"] == "succeeded"
    (ready.root / "nodes/node2/held").touch()
    held = ready(*TRAIN, "--detach")
    assert (held.returncode, "WAIT=1 waits" in held.stdout) == (3, True), held.stdout
    wrong = ready("train", "--model", "vIt", "--detach")
    assert (wrong.returncode, "vit" in wrong.stdout) == (2, True)


def test_a_request_whose_nodes_others_have_is_no_run(
    ready: YardHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ready.root / "nodes/node2/held"
    held.touch()
    done = ready(*TRAIN)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "node2: it is held by run other of ada@desk" in done.stdout
    assert "WAIT=1 waits" in done.stdout
    assert not list((ready.root / "runs").glob("2*"))

    def wait(context: Context, run: Path, seconds: float) -> bool:
        assert json.loads(ready("runs", "--json").stdout)[0]["status"] == "waiting"
        held.unlink()
        return True

    monkeypatch.setattr(queue, "wait_unless_interrupted", wait)
    waiting = ready(*TRAIN, "--wait")
    assert waiting.returncode == 0, waiting.stdout
    assert summary_of(ready)["status"] == "succeeded"
