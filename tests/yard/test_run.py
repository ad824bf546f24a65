"""Run ids and run directories."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from yard.core.errors import RequestError
from yard.plays.inventory import Inventory
from yard.request.resolve import resolve
from yard.request.training import TrainRequest
from yard.runs.folder import create_run, find_run, list_runs, run_id_of
from yard.runs.record import inspected_image, inspected_memory_limits, read_run


@pytest.mark.process
@pytest.mark.promise("row 22")
def test_run_id_has_time_model_dataset_and_the_four_numbers(lab: Inventory) -> None:
    training = resolve(TrainRequest("vit", nodes=2, procs_per_node=4), lab)
    assert run_id_of(training, 1795175100.9) == "20261120T114500Z_vit_cifar10_b64_e2_n2_p4"


@pytest.mark.process
def test_two_runs_of_one_second_get_two_ids(tmp_path: Path, lab: Inventory) -> None:
    training = resolve(TrainRequest("vit"), lab)
    first, second = (create_run(tmp_path / "runs", training) for _ in range(2))
    assert first != second
    assert re.fullmatch(r"\d{8}T\d{6}Z_vit_cifar10_b64_e2_n1_p1", first.name)
    assert (tmp_path / "runs/latest").resolve() == second


def test_without_runs_none_is_called_unknown(tmp_path: Path) -> None:
    for name in ("latest", "vit-7"):
        with pytest.raises(RequestError, match=r"there are no runs yet$"):
            find_run(tmp_path, name)


def test_a_run_is_found_by_id_prefix_and_latest(tmp_path: Path) -> None:
    names = ["20260101T000000Z_vit", "20260101T000000Z_vit_big", "20260202T000000Z_vit"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").touch()
    (tmp_path / "latest").symlink_to(names[2])
    (tmp_path / "verify-20260303T000000Z").mkdir()
    assert [run.name for run in list_runs(tmp_path)] == names
    assert find_run(tmp_path, "latest").name == names[2]
    assert find_run(tmp_path, "202602").name == names[2]
    assert find_run(tmp_path, names[0]).name == names[0]
    with pytest.raises(RequestError, match="more than one"):
        find_run(tmp_path, "202601")
    for unknown in ("2025", ""):
        with pytest.raises(RequestError, match="unknown"):
            find_run(tmp_path, unknown)


def test_a_run_is_found_by_its_name_a_part_or_its_path(tmp_path: Path) -> None:
    for run_id, name in (
        ("20260101T000000Z_vit", "first"),
        ("20260102T000000Z_ddp", "twice"),
        ("20260103T000000Z_resnet", "twice"),
        ("20260104T000000Z_vit", "ddp"),
    ):
        (tmp_path / run_id).mkdir()
        (tmp_path / run_id / "manifest.json").write_text(json.dumps({"name": name}))
    assert find_run(tmp_path, "first").name == "20260101T000000Z_vit"
    assert find_run(tmp_path, "resnet").name == "20260103T000000Z_resnet"
    assert find_run(tmp_path, "runs/20260101T000000Z_vit/").name == "20260101T000000Z_vit"
    assert find_run(tmp_path, str(tmp_path / "latest")).name == "20260104T000000Z_vit"
    # What somebody called so comes before what is only called like it.
    assert find_run(tmp_path, "ddp").name == "20260104T000000Z_vit"
    for several in ("twice", "vit"):
        with pytest.raises(RequestError, match="more than one"):
            find_run(tmp_path, several)


def test_a_record_holds_what_was_collected(recorded: Callable[[str], Path]) -> None:
    record = read_run(recorded("succeeded"))
    assert record.hosts == ("node1", "node2")
    assert [(log.rank, log.host) for log in record.rank_logs] == [(0, "node1"), (1, "node2")]
    assert record.launcher_exit_status == 0
    assert inspected_image(record) == {
        "name": "trainyard/trainer:1f2e3d4c5b6a",
        "digest": "sha256:5b1c6e0d7c2f4a938e6b0d1f2a3c4e5d6f708192a3b4c5d6e7f8091a2b3c4d5e",
    }


def test_limits_of_memory_are_what_nodes_say_where_that_is_a_number(
    recorded: Callable[[str], Path],
) -> None:
    run = recorded("succeeded")
    (run / "nodes/node1/container.json").write_text('{"HostConfig": {"Memory": 1000}}')
    for nonsense in ('{"HostConfig": {"Memory": "all"}}', '{"HostConfig": 1}', "[]", "1", "{"):
        (run / "nodes/node2/container.json").write_text(nonsense)
        assert inspected_memory_limits(read_run(run)) == {"node1": 1000}


def test_a_cut_off_metrics_line_is_left_out(recorded: Callable[[str], Path]) -> None:
    run = recorded("stopped")
    whole = len(read_run(run).metrics)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "step", "time": 17')
    assert len(read_run(run).metrics) == whole
