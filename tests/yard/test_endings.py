"""The end of a run and of set-up on the screen: what there is, and what one types next."""

import io
import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from extend import make_project
from rich.console import Console

from yard.code.own import read_code, seems_to_load
from yard.commands.train import announce_resumed
from yard.core.project import Project
from yard.operations.setup import roles_of
from yard.request.own_code import ProjectRun
from yard.runs.manifest import read_manifest, write_manifest
from yard.runs.record import read_run
from yard.runs.results import results_of, train_command
from yard.runs.summary import summarise
from yard.screen import live_progress
from yard.screen.result import command_row, show_result


def end_of(run: Path, **request: Any) -> list[str]:
    manifest = read_manifest(run)
    assert manifest is not None
    root = run.parents[1]
    manifest = replace(manifest, request=request, inventory_path=str(Project(root).own_inventory))
    write_manifest(run, manifest)
    console = Console(file=io.StringIO(), width=200, record=True)
    show_result(console, Project(root), run, summarise(read_run(run)))
    return console.export_text().splitlines()


def row(lines: list[str], label: str) -> str:
    (found,) = [line for line in lines if line.strip().startswith(f"{label} ")]
    return found.strip().removeprefix(label).strip()


def test_the_end_names_what_came_home_and_what_one_types_next(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("succeeded")
    make_project(run)
    for name in ("a.pt", "b.pt", "c.pt", "d.pt", "e.pt"):
        (run / "workdir").mkdir(exist_ok=True)
        (run / "workdir" / name).write_bytes(b"x" * 1000)
    (run / "nodes/node2/outputs/deep").mkdir(parents=True)
    (run / "nodes/node2/outputs/deep/result.json").write_text("{}")
    deep = run / "outputs" / "/".join("d" * 100)
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("x")
    lines = end_of(run, code="../my code", script_args="--price 5$ --lr 1e-3", nodes=2)
    assert row(lines, "workdir").startswith(f"5 files, 5.0 kB in runs/{run.name}/workdir/: ")
    assert row(lines, "workdir").endswith("and 1 more")
    assert [line.partition("outputs/: ")[2] for line in lines if "outputs/: " in line] == [
        f"{'d/' * 50}…/leaf",
        "deep/result.json",
    ]
    assert row(lines, "next") == f"make logs RUN={run.name}"
    assert lines[-1].strip() == (
        f"make train CODE='../my code' SCRIPT_ARGS='--price 5$$ --lr 1e-3' NODES=2 "
        f"RESUME={run.name}"
    )


def test_a_node_whose_engine_is_gone_is_not_one_that_did_not_answer(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("stopped")
    for host in ("node1", "node2"):
        for name in ("container.json", "container.log"):
            (run / "nodes" / host / name).unlink(missing_ok=True)
    again = f"make attach RUN={run.name} fetches them"
    (line,) = [line for line in end_of(run) if "missing" in line]
    assert f"node1, node2, which did not answer; when it is back, {again}" in line
    (run / "nodes/node2/findings.json").write_text('[{"code": "engine_gone", "values": {}}]')
    dead, silent = [line for line in end_of(run) if "missing" in line]
    assert (
        f"logs of node2, whose engine is gone: systemctl start docker there; then {again}" in dead
    )
    assert "logs of node1, which did not answer" in silent


def test_the_shipped_trainer_goes_on_for_more_epochs_or_gives_its_weights(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("succeeded")
    (run / "checkpoints").mkdir(exist_ok=True)
    for name in ("epoch-5.pt", "epoch-5.pt.sha256"):
        (run / "checkpoints" / name).write_text("x")
    (results,) = results_of(run)
    assert results.names == ("epoch-5.pt",)
    lines = end_of(run, model="vit", nodes=2, options={"seed": 3}, weights="older.pt")
    assert [line.strip() for line in lines[-3:]] == [
        f"make report RUN={run.name}",
        f"make export RUN={run.name} TO=vit.safetensors",
        f"make train MODEL=vit NODES=2 EPOCHS=10 SEED=3 RESUME={run.name}",
    ]


def test_a_file_that_is_renamed_meanwhile_is_passed_over(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, really, looks = recorded("succeeded"), Path.stat, itertools.count()
    (run / "checkpoints").mkdir(exist_ok=True)
    for name in ("epoch-5.pt", ".epoch-6.pt.Xy1"):  # as rsync calls it at first
        (run / "checkpoints" / name).write_text("x")

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name.startswith(".epoch") and (next(looks) or not follow_symlinks):
            raise FileNotFoundError
        return really(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    (results,) = results_of(run)
    assert results.names == ("epoch-5.pt",)


def test_after_a_failure_come_the_logs_of_its_rank_and_the_request(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("killed")
    lines = end_of(run, model="vit", nodes=4, min_nodes=2)
    assert row(lines, "next").startswith(f"make logs RUN={run.name}")
    assert [line.strip() for line in lines[-2:]] == [
        f"make report RUN={run.name}",
        "make train MODEL=vit NODES=2..4",
    ]


@pytest.mark.parametrize("request_", [{"lock": "x"}, {"recipe": {}}])
def test_what_cannot_be_typed_is_run_again_by_its_name(request_: dict[str, Any]) -> None:
    assert train_command({"nodes": 2, **request_}) is None


def test_options_without_a_name_of_their_own_are_typed_in_args() -> None:
    options = {"ema": 0.9, "seed": 2, "timeline": True}
    assert train_command({"model": "vit", "options": options}) == (
        "make train MODEL=vit SEED=2 ARGS='--set ema=0.9 --set timeline=true'"
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("print('hello')", False),
        ("state = torch.load('last.pt')", True),
        ("os.environ['TRAINYARD_CHECKPOINT_DIR']", True),
        ("trainer.fit(model, ckpt_path='last')", True),
        ("torch.save(state, 'last.pt')", False),
        ("download(url)", False),
    ],
)
def test_a_program_that_loads_nothing_is_told_from_others(
    text: str, loads: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(text + "\n")
    code = read_code(Project(tmp_path / "checkout"), str(folder))
    assert seems_to_load(code) is loads


@pytest.mark.process
def test_a_resumed_run_says_from_what_and_warns(
    recorded: Callable[[str], Path], tmp_path: Path
) -> None:
    run = recorded("succeeded")
    make_project(run)
    (run / "outputs").mkdir(exist_ok=True)
    (run / "outputs/last.pt").write_text("x")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")

    def said() -> str:
        code = read_code(Project(tmp_path / "checkout"), str(folder))
        job = ProjectRun(
            model="project",
            dataset=None,
            nodes=1,
            min_nodes=1,
            procs_per_node=1,
            transport=None,
            stall_seconds=None,
            code=code,
        )
        console = Console(file=io.StringIO(), width=200, record=True)
        announce_resumed(console, job, run)
        return console.export_text()

    assert f"goes on from {run.name}: last.pt in outputs/" in said()
    assert "may start from scratch" in said()
    (folder / "trainyard.yml").write_text("resume_args: --resume yes\n")
    assert "is given: --resume yes" in said()
    assert "may start from scratch" not in said()


def test_the_command_of_a_request_is_one_that_make_takes() -> None:
    """Every name is an option of the Makefile's target."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    command = train_command(
        json.loads(
            '{"model": "vit", "nodes": 1, "procs_per_node": 2, "dataset": "d", "epochs": 1,'
            '"batch": 1, "lr": 0.1, "precision": "bf16", "engine": "ddp", "train_images": "all",'
            '"checkpoint_seconds": 5, "transport": "tcp", "retries": 1, "stall": 1, "name": "n",'
            '"gpus_per_node": 1, "on": ["a", "b"],'
            '"code": "c", "entry": "e", "script_args": "a", "launch": "rank",'
            '"requirements": "none", "grace": 3, "resume": "r", "options": {"seed": 1,'
            '"optimizer": "sgd", "weight_decay": 0.1, "schedule": "step", "augment": "none",'
            '"validation_fraction": 0.1}}'
        )
    )
    assert command is not None
    assert "ON=a,b" in command
    for word in command.split()[2:]:
        name = word.partition("=")[0]
        assert f"option,{name}," in makefile or f"typed,{name})" in makefile, name


def test_set_up_tells_which_of_its_roles_it_is_at() -> None:
    roles = roles_of(Project(Path(__file__).parents[2]), "Set up the nodes")
    in_order = ["hosts_file", "ssh_trust", "openmpi", "docker_engine", "training_node"]
    assert [role for role in roles if role in in_order] == in_order
    assert len(roles) == len(set(roles))
    assert roles_of(Project(Path("none")), "Set up the nodes") == []


def test_a_task_that_is_passed_over_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    progress = live_progress.LiveProgress(console)
    progress.phase("Setting up")

    def shown() -> str:
        with console.capture() as capture:
            console.print(progress._render())
        return capture.get()

    progress.task("Remove the data set")
    assert "Remove" not in shown()
    progress.task("Install the engine")
    now[0] += 1
    assert "Install the engine" in shown()
    progress.task("Remove it")
    assert "Install the engine" in shown()


def test_a_command_in_two_lines_of_a_narrow_terminal_is_one_to_a_shell() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, record=True)
    command_row(console, "next", "make train CODE=/tmp/program NODES=2 RESUME=20261129T104909Z_vit")
    command_row(console, "", "make tag RUN=latest NOTE='words that belong together, to their end'")
    command_row(console, "", "make tag RUN=latest NOTE='a'\"'\"'b' and words that are far too long")
    assert console.export_text().splitlines() == [
        "  next          make train CODE=/tmp/program NODES=2 \\",
        "                RESUME=20261129T104909Z_vit",
        # Blanks within quotes stay as they are.
        "                make tag RUN=latest \\",
        "                NOTE='words that belong together, to their end'",
        # Of this one it is not known where a word ends: the terminal breaks it.
        "                make tag RUN=latest NOTE='a'\"'\"'b' and words that are far too long",
    ]
