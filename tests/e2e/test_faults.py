"""Runs that do not end well: the status, the diagnosis, the logs, and nothing left behind."""

from pathlib import Path

from conftest import BackgroundRun, Outcome, containers_of_runs, on_node

LONG = {"MODEL": "vit", "NODES": 2, "EPOCHS": 50}


def assert_nothing_left(run: BackgroundRun) -> None:
    for host in ("node1", "node2"):
        assert containers_of_runs(host) == ""
        assert run.run_id not in on_node(host, "ls /srv/trainyard/runs")
        assert on_node(host, "find /proc -maxdepth 1 -uid 2000") == ""


def test_killed_rank(main_job: tuple[Outcome, Path]) -> None:
    run = BackgroundRun(**LONG)
    run.wait_for_training()
    pid = run.rank_pid(1, "node2")
    on_node("node2", f"docker exec trainyard-{run.run_id} sh -c 'kill -9 {pid}'")
    outcome = run.finish()
    assert outcome.status == 1
    summary = run.summary()
    assert summary["status"] == "failed"
    assert summary["diagnosis"]["host"] == "node2"
    assert "node2" in outcome.output
    assert "rank 1 of 2 on node2" in (run.directory / "logs/rank-1.log").read_text()
    assert (run.directory / "logs/rank-0.log").stat().st_size > 0
    assert_nothing_left(run)


def test_interrupt(main_job: tuple[Outcome, Path]) -> None:
    run = BackgroundRun(**LONG)
    run.wait_for_training()
    run.interrupt()
    outcome = run.finish()
    assert outcome.status == 130
    assert run.summary()["status"] == "stopped"
    assert "rank 0 of 2 on node1" in (run.directory / "logs/rank-0.log").read_text()
    assert "rank 1 of 2 on node2" in (run.directory / "logs/rank-1.log").read_text()
    assert_nothing_left(run)
