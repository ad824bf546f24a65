"""`make train MODEL=vit NODES=2`: what it leaves, and that it is what happened."""

import json
import math
import re
import subprocess
from pathlib import Path

import formats
import pytest
from commands import RUNS, Outcome, make
from machines import CHECKOUT, INVENTORY, containers_of_runs, in_machine
from PIL import Image

Job = tuple[Outcome, Path]
# Every epoch ends with all of the test set: the smallest model is through with it soonest.
SHORT = {"MODEL": "cnn_a", "EPOCHS": 1, "TRAIN_IMAGES": 640, "BATCH": 16}
WANDB_KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.promise(
    "row 12", "make train", "make train MODEL=vit NODES=2", "make data DATASET=cifar10"
)
def test_trains_on_two_nodes(main_job: Job) -> None:
    outcome, run = main_job
    assert outcome.status == 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "succeeded"
    assert summary["world_size"] == 2
    assert sorted(set(summary["hosts"])) == ["node1", "node2"]
    assert summary["test_accuracy"] >= 0.35
    assert summary["test_images"] == 10_000
    assert summary["seconds_to_first_step"] > 0


def test_files_have_the_form_of_their_schemas(main_job: Job) -> None:
    _, run = main_job
    assert formats.errors(run) == []


def test_says_which_part_of_the_data_it_trains_on(main_job: Job) -> None:
    outcome, run = main_job
    summary = json.loads((run / "summary.json").read_text())
    assert summary["train_images_available"] == 50_000
    assert f"{summary['train_images']:,}" in outcome.output


@pytest.mark.promise("make export")
def test_weights_become_a_file_for_plain_pytorch(main_job: Job, tmp_path: Path) -> None:
    _, run = main_job
    to = tmp_path / "vit.safetensors"
    done = make("export", RUN=run.name, TO=str(to))
    assert done.status == 0, done.output
    with to.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    values = sum(math.prod(entry["shape"]) for name, entry in header.items() if name[0] != "_")
    # All of them are parameters: a vision transformer has no batch normalisation.
    assert values == json.loads((run / "world.json").read_text())["model_parameters"]
    about = json.loads(to.with_suffix(".json").read_text())
    assert (about["model"], len(about["classes"]), about["image_size"]) == ("vit", 10, 32)
    assert len(about["channel_means"]) == 3


@pytest.mark.promise("make predict")
def test_the_model_tells_the_classes_of_files(main_job: Job, tmp_path: Path) -> None:
    _, run = main_job
    Image.new("RGB", (48, 40), "navy").save(tmp_path / "sea.png")
    done = make("predict", RUN=run.name, SOURCE=str(tmp_path))
    assert done.status == 0, done.output
    out = run / "predictions" / f"{tmp_path.name}_{(run / 'checkpoints/best.pt').resolve().stem}"
    _, line = (out / "predictions.csv").read_text().splitlines()
    assert line.startswith("sea.png,,")
    assert "sea.png" in (out / "evaluation.html").read_text()


def test_loss_falls(main_job: Job) -> None:
    _, run = main_job
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["event"] == "step"]
    quarter = len(losses) // 4
    assert quarter >= 2
    assert sum(losses[-quarter:]) / quarter < 0.9 * sum(losses[:quarter]) / quarter


def test_ranks_ran_on_different_hosts(main_job: Job) -> None:
    _, run = main_job
    first_lines = [(run / f"logs/rank-{rank}.log").read_text().splitlines()[0] for rank in (0, 1)]
    assert "rank 0 of 2 on node1" in first_lines[0]
    assert "rank 1 of 2 on node2" in first_lines[1]


@pytest.mark.promise("row 24")
def test_brings_home_what_the_nodes_have(main_job: Job) -> None:
    _, run = main_job
    for host in ("node1", "node2"):
        assert (run / f"nodes/{host}/container.log").stat().st_size > 0
        assert (
            json.loads((run / f"nodes/{host}/container.json").read_text())["State"]["OOMKilled"]
            is False
        )
        assert in_machine(host, "ls /srv/trainyard/runs") == ""
    assert (run / "checkpoints/last.pt").stat().st_size > 1e6
    assert (run / "report.html").stat().st_size > 0
    assert (run / "metrics.jsonl").stat().st_size > 0
    assert list(run.glob("tensorboard/**/events.out.tfevents.*"))


@pytest.mark.promise("row 14")
def test_every_node_has_the_image_that_its_sources_name(main_job: Job) -> None:
    _, run = main_job
    name = json.loads((run / "manifest.json").read_text())["image"]["name"]
    # The hash of docker/trainer; tests/yard/test_train.py has what follows from an edit of it.
    assert re.fullmatch(r"trainyard/trainer:[0-9a-f]{12}", name)
    look = f"docker image inspect --format '{{{{.Id}}}}' {name}"
    assert len({in_machine(host, look) for host in ("node1", "node2")}) == 1


def test_leaves_no_container(main_job: Job) -> None:
    assert containers_of_runs("node1") == ""
    assert containers_of_runs("node2") == ""


def test_keeps_keys_to_itself(main_job: Job) -> None:
    _, run = main_job
    manifest = json.loads((run / "manifest.json").read_text())
    leaks = [
        path for path in run.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()
    ]
    assert leaks == []
    image = manifest["image"]["name"]
    history = in_machine("node1", f"docker history --no-trunc {image}")
    assert "PRIVATE KEY" not in history
    keys = "find /etc/ssh /home /root -name 'ssh_host_*_key' -o -path '*/.ssh/id_*'"
    assert in_machine("node1", f"docker run --rm --network none --user 0 {image} {keys}") == ""
    assert manifest["hosts"] == ["node1", "node2"]


@pytest.mark.promise("make setup")
def test_setup_again_changes_nothing(main_job: Job) -> None:
    done = subprocess.run(
        ["ansible-playbook", "--inventory", INVENTORY, "site.yml"],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    recap = done.stdout.split("PLAY RECAP", 1)[1]
    assert recap.count("changed=0") == 3, recap


@pytest.fixture(scope="module")
def small_job(main_job: Job) -> Job:
    """A short job of two processes on one node."""
    outcome = make("train", **{**SHORT, "MODEL": "cnn_b"}, NODES=1, PROCS_PER_NODE=2)
    return outcome, (RUNS / "latest").resolve()


@pytest.mark.promise("row 18")
def test_two_processes_on_one_node(small_job: Job) -> None:
    outcome, run = small_job
    assert outcome.status == 0
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["model"], summary["world_size"]) == ("cnn_b", 2)
    assert summary["hosts"] == ["node1"]


@pytest.fixture(scope="module")
def other_job(main_job: Job) -> Job:
    """A short job with the other engine, watched by W&B."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_API_KEY", WANDB_KEY)
        patch.setenv("WANDB_MODE", "offline")
        outcome = make("train", **SHORT, NODES=2, ENGINE="ddp")
    return outcome, (RUNS / "latest").resolve()


@pytest.mark.promise("row 20")
def test_other_engine(other_job: Job) -> None:
    outcome, run = other_job
    assert outcome.status == 0
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["engine"], summary["hosts"]) == ("ddp", ["node1", "node2"])
    assert json.loads((run / "config.json").read_text())["backend"] == "gloo"
    losses = [
        record["loss"]
        for line in (run / "metrics.jsonl").read_text().splitlines()
        if (record := json.loads(line))["event"] == "step"
    ]
    assert losses[-1] < losses[0]


def test_nodes_that_share_a_test_set_tell_what_one_machine_tells(other_job: Job) -> None:
    _, run = other_job
    results = run / f"evaluations/cifar10_{(run / 'checkpoints/best.pt').resolve().stem}"
    told = []
    for where in ({"NODES": 2}, {}):
        done = make("evaluate", RUN=run.name, **where)
        assert done.status == 0, done.output
        told.append(json.loads((results / "evaluation.json").read_text()))
        (results / "evaluation.json").unlink()
    nodes, here = told
    assert (nodes["images"], sum(map(sum, nodes["confusion"]))) == (10_000, 10_000)
    for name in ("accuracy", "top5", "confusion"):
        assert nodes[name] == here[name]
    assert nodes["loss"] == pytest.approx(here["loss"], rel=1e-6)


@pytest.mark.promise("row 15")
def test_each_model_leaves_its_weights(main_job: Job, small_job: Job, other_job: Job) -> None:
    trained = set()
    for _, run in (main_job, small_job, other_job):
        summary = json.loads((run / "summary.json").read_text())
        assert (summary["status"], summary["dataset"]) == ("succeeded", "cifar10")
        assert (run / "checkpoints/last.pt").stat().st_size > 1e4
        trained.add(summary["model"])
    assert trained == {"vit", "cnn_a", "cnn_b"}


@pytest.mark.promise("row 26")
def test_a_key_in_the_environment_reaches_the_ranks_and_shows_nowhere(other_job: Job) -> None:
    outcome, run = other_job
    assert len(list(run.glob("wandb/offline-run-*/run-*.wandb"))) == 1
    assert WANDB_KEY not in outcome.output
    assert [
        path
        for path in run.rglob("*")
        if path.is_file() and WANDB_KEY.encode() in path.read_bytes()
    ] == []
