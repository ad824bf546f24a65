"""What a request may ask for, and how all of its problems are told at once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from yard.arguments import build_parser
from yard.core.errors import Exit, RequestError
from yard.core.project import Project
from yard.plays.inventory import Inventory, Option, parse_inventory, read_inventory
from yard.request.own_code import ProjectRequest, resolve_project
from yard.request.parse import number_or, parse_nodes, parse_option
from yard.request.recipe import read_recipe
from yard.request.resolve import resolve
from yard.request.training import TrainRequest


def problems_of(request: TrainRequest, inventory: Inventory) -> str:
    with pytest.raises(RequestError) as caught:
        resolve(request, inventory)
    assert caught.value.status == Exit.BAD_REQUEST
    return str(caught.value)


def test_defaults_come_from_the_model(lab: Inventory) -> None:
    training = resolve(TrainRequest("vit", nodes=2), lab)
    assert (training.dataset, training.epochs, training.batch_per_rank) == ("cifar10", 2, 64)
    assert (training.learning_rate, training.precision) == (0.001, "fp32")
    assert (training.train_images, training.train_images_available) == (10000, 50000)
    assert training.is_subset
    assert training.world_size == 2


def test_the_request_wins_over_the_model(lab: Inventory) -> None:
    asked = TrainRequest("vit", nodes=1, procs_per_node=2, epochs=7, batch=32, lr=0.5)
    training = resolve(asked, lab)
    assert (training.epochs, training.batch_per_rank, training.learning_rate) == (7, 32, 0.5)
    assert training.world_size == 2


def test_a_rank_for_each_gpu(lab: Inventory) -> None:
    document = {
        "trainers": {"hosts": ["a", "b"]},
        "gpu_nodes": {"children": ["big"]},
        "big": {"hosts": ["b", "a"]},
        "_meta": {
            "hostvars": {"a": {"cluster_check_gpu_count": 8}, "b": {"cluster_check_gpu_count": 4}}
        },
    }

    def per_node(told: dict[str, Any], asked: int | None = None) -> int | str:
        site = parse_inventory(told, Path("site"))
        request = TrainRequest("vit", nodes=2, procs_per_node=asked)
        training = resolve(request, replace(lab, trainers=site.trainers, gpus=site.gpus))
        return training.procs_per_node

    assert per_node(document) == 4
    assert per_node(document, 2) == 2
    # One without GPUs, and none that tells how many it has.
    assert per_node({**document, "trainers": {"hosts": ["a", "b", "c"]}}) == 1
    assert per_node({**document, "_meta": {"hostvars": {}}}) == 1
    assert per_node({**document, "gpu_nodes": {}}) == 1
    of_amd = {**document, "gpu_nodes": {}, "amd_nodes": document["gpu_nodes"]}
    assert per_node(of_amd) == per_node(document)


def test_gpus_of_two_vendors_are_not_in_one_run(lab: Inventory) -> None:
    groups = {"gpu_nodes": ["a"], "amd_nodes": ["b"]}
    site = replace(lab, trainers=("a", "b"), groups=groups)
    asked = TrainRequest("vit", nodes=1)
    said = problems_of(asked, site)
    assert said.startswith("nodes: a has GPUs of NVIDIA (group gpu_nodes) and b of AMD (amd_nodes)")
    assert said.endswith("Choose with ON=gpu_nodes or ON=amd_nodes")
    site = replace(site, image_target="cuda13")
    for group, image in (("gpu_nodes", "cuda13"), ("amd_nodes", "rocm")):
        kind = site.narrowed([group])
        assert resolve(asked, kind).nodes == 1
        assert kind.image_target == image
    assert resolve(asked, replace(site, groups={"gpu_nodes": ["a", "b"]})).nodes == 1


def with_gpus(lab: Inventory, **gpus: int | None) -> Inventory:
    """An inventory of nodes with so many GPUs; None where it does not tell."""
    return replace(lab, trainers=tuple(gpus), gpus=gpus)


def test_some_gpus_of_each_node(lab: Inventory) -> None:
    site = with_gpus(lab, a=4, b=8)
    asked = TrainRequest("vit", nodes=2, gpus_per_node=2)
    training = resolve(asked, site)
    assert (training.procs_per_node, training.world_size) == (2, 4)
    assert training.extravars()["training_run_gpus_per_node"] == 2
    assert training.to_json()["gpus_per_node"] == 2
    # Another number of ranks is asked for.
    assert resolve(replace(asked, procs_per_node=1), site).procs_per_node == 1
    # Without it a run has whole nodes, which the launch role has by itself.
    whole = resolve(TrainRequest("vit", nodes=2), site)
    assert (whole.gpus_per_node, whole.procs_per_node) == (None, 4)
    assert "training_run_gpus_per_node" not in whole.extravars()
    # The site may say it for all runs.
    said = replace(site, defaults={**site.defaults, "gpus_per_node": 2})
    assert resolve(TrainRequest("vit", nodes=2), said).procs_per_node == 2
    assert resolve(replace(asked, gpus_per_node=4), said).gpus_per_node == 4
    none = replace(site, defaults={**site.defaults, "gpus_per_node": 0})
    assert resolve(TrainRequest("vit", nodes=2), none).gpus_per_node is None


def test_more_gpus_than_nodes_have_are_refused_with_what_each_has(lab: Inventory) -> None:
    site = with_gpus(lab, a=4, b=8, c=0)
    asked = TrainRequest("vit", nodes=2, gpus_per_node=8)
    assert problems_of(asked, site) == "GPUs per node 8: this inventory has a 4, b 8, c none"
    # With one node it is done too, and a node that does not tell may have them.
    assert resolve(replace(asked, min_nodes=1), site).gpus_per_node == 8
    unsure = with_gpus(lab, a=4, b=8, c=None)
    assert resolve(asked, unsure).gpus_per_node == 8
    three = problems_of(replace(asked, nodes=3), unsure)
    assert three == "GPUs per node 8: this inventory has a 4, b 8, c does not say"
    assert (
        problems_of(replace(asked, gpus_per_node=-1), site)
        .splitlines()[0]
        .endswith("must be above 0")
    )


def test_a_run_has_as_many_ranks_as_it_is_given_gpus() -> None:
    def given(**variables: Any) -> int:
        told = {
            "trainers": {"hosts": ["a", "b"]},
            "gpu_nodes": {"hosts": ["a", "b"]},
            "_meta": {"hostvars": {host: dict(variables) for host in ("a", "b")}},
        }
        return parse_inventory(told, Path("site")).gpus_per_node

    assert given(cluster_check_gpu_count=8) == 8
    assert given(cluster_check_gpu_count=8, training_node_gpus="all") == 8
    assert given(cluster_check_gpu_count=8, training_node_gpus="0,1, 2,3") == 4
    assert given(training_node_gpus="5") == 1
    assert given(cluster_check_gpu_count=8, training_node_gpus="") == 0
    # What Ansible has yet to work out says nothing.
    assert given(cluster_check_gpu_count=8, training_node_gpus="{{ ours }}") == 8


def with_slots(lab: Inventory, **slots: int | None) -> Inventory:
    """An inventory of nodes that carry so many ranks; None where it does not tell."""
    return replace(lab, trainers=tuple(slots), slots=slots)


def test_as_many_ranks_as_each_node_carries(lab: Inventory) -> None:
    site = with_slots(lab, a=4, b=1, c=8)
    asked = TrainRequest("vit", nodes=2, procs_per_node="node")
    training = resolve(asked, site)
    assert (training.procs_per_node, training.world_size) == ("node", 5)
    assert training.label.endswith("_n2_pnode")
    assert training.extravars()["training_run_procs_per_node"] == "node"
    said = training.to_json()
    assert (said["procs_per_node"], said["world_size"]) == ("node", 5)
    assert "slots" not in said
    # The inventory may say it for all runs; what is typed wins.
    always = replace(site, defaults={**site.defaults, "procs_per_node": "node"})
    assert resolve(TrainRequest("vit", nodes=3), always).world_size == 13
    assert resolve(TrainRequest("vit", nodes=3, procs_per_node=1), always).world_size == 3
    assert "one step of 13 ranks takes 13,000 images" in problems_of(
        TrainRequest("vit", nodes=3, batch=1000), always
    )


def test_a_node_that_does_not_say_what_it_carries_is_named(lab: Inventory) -> None:
    asked = TrainRequest("vit", nodes=1, procs_per_node="node")
    problem = problems_of(asked, with_slots(lab, a=4, b=None, c=0))
    assert "this inventory does not say how many ranks b, c carry (training_node_slots" in problem
    both = problems_of(replace(asked, gpus_per_node=2), with_slots(lab, a=4))
    assert "takes whole nodes, and 2 GPUs of each are asked for" in both


def test_a_node_carries_what_the_inventory_says_or_a_rank_for_each_gpu() -> None:
    told = {
        "trainers": {"hosts": ["a", "b", "c", "d"]},
        "gpu_nodes": {"hosts": ["a", "b"]},
        "_meta": {
            "hostvars": {
                "a": {"cluster_check_gpu_count": 8},
                "b": {"cluster_check_gpu_count": 8, "training_node_slots": 4},
                "c": {"training_node_slots": 2},
                "d": {"training_node_slots": -1},
            }
        },
    }
    assert parse_inventory(told, Path("site")).slots == {"a": 8, "b": 4, "c": 2, "d": 0}


def test_all_images_is_told_from_nothing_said(lab: Inventory) -> None:
    training = resolve(TrainRequest("vit", train_images="all"), lab)
    assert training.train_images is None
    assert not training.is_subset
    assert training.extravars()["training_run_train_images"] is None


def test_unsaid_engine_is_left_to_the_role(lab: Inventory) -> None:
    assert "training_run_engine" not in resolve(TrainRequest("vit"), lab).extravars()
    said = resolve(TrainRequest("vit", engine="horovod"), lab).extravars()
    assert said["training_run_engine"] == "horovod"


def test_distance_of_checkpoints_is_told_only_if_asked_for(lab: Inventory) -> None:
    name = "training_run_checkpoint_seconds"
    assert name not in resolve(TrainRequest("vit"), lab).extravars()
    for seconds in (0, 30, "auto"):
        training = resolve(TrainRequest("vit", checkpoint_seconds=seconds), lab)
        assert training.extravars()[name] == seconds
        assert training.to_json()["checkpoint_seconds"] == seconds


def test_nodes_may_be_a_range(lab: Inventory) -> None:
    assert (parse_nodes("2"), parse_nodes("2..4")) == ((2, 2), (2, 4))
    for text in ("4..2", "two", "..2"):
        with pytest.raises(ValueError, match=r"\S"):
            parse_nodes(text)
    training = resolve(TrainRequest("vit", nodes=4, min_nodes=2), lab)
    assert training.extravars()["training_run_node_count"] == 4
    assert training.extravars()["training_run_node_minimum"] == 2
    assert "nodes 3" in problems_of(TrainRequest("vit", nodes=4, min_nodes=3), lab)
    none = problems_of(TrainRequest("vit", nodes=2, min_nodes=0), lab)
    assert "nodes 0..: must be above 0" in none


def test_unknown_model_lists_the_models(lab: Inventory) -> None:
    text = problems_of(TrainRequest("nonsense"), lab)
    assert "model 'nonsense': unknown" in text
    assert "vit    Vision transformer for 32 x 32 images" in text
    assert "cnn_a  Small convolutional network" in text


def test_unknown_dataset_lists_the_datasets(lab: Inventory) -> None:
    text = problems_of(TrainRequest("vit", dataset="mnist"), lab)
    assert "dataset 'mnist': unknown" in text
    assert "cifar10  60,000 colour images in 10 classes" in text


def test_too_many_nodes_lists_the_nodes(lab: Inventory) -> None:
    assert problems_of(TrainRequest("vit", nodes=3), lab) == (
        "nodes 3: this inventory has 2: alpha, beta"
    )


def test_local_cluster_can_grow_to_its_limit(local: Inventory) -> None:
    assert local.trainers == ()
    assert resolve(TrainRequest("vit", nodes=4), local).nodes == 4
    assert "at most 4 (local_cluster_max_nodes): node1, node2, node3, node4" in problems_of(
        TrainRequest("vit", nodes=5), local
    )


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"nodes": 0}, "nodes 0: must be above 0"),
        ({"procs_per_node": -1}, "processes per node -1: must be above 0"),
        ({"epochs": 0}, "epochs 0: must be above 0"),
        ({"batch": 0}, "batch 0: must be above 0"),
        ({"lr": 0.0}, "learning rate 0: must be above 0"),
        ({"lr": float("nan")}, "learning rate nan: must be above 0"),
        ({"lr": float("inf")}, "learning rate inf: must be above 0"),
        ({"train_images": 0}, "train images 0: must be above 0"),
        ({"train_images": 50001}, "train images 50,001: cifar10 has 50,000"),
        ({"nodes": 2, "batch": 6000}, "one step of 2 ranks takes 12,000 images, more than the"),
        ({"checkpoint_seconds": -1}, "checkpoint seconds -1: must be 0 or more"),
        (
            {"options": {"checkpoint_seconds": 5}},
            "--set checkpoint_seconds: has an option of its own",
        ),
        ({"precision": "fp64"}, "precision 'fp64': choose from fp32, bf16"),
        ({"engine": "pigeon"}, "engine 'pigeon': choose from horovod"),
        ({"transport": "mail"}, "transport 'mail': choose from tcp, ucx"),
        ({"options": {"epochs": 3}}, "--set epochs: has an option of its own"),
    ],
)
def test_each_value_is_checked(lab: Inventory, asked: dict[str, object], problem: str) -> None:
    assert problem in problems_of(TrainRequest("vit", **asked), lab)  # type: ignore[arg-type]


def test_all_problems_are_told_together(lab: Inventory) -> None:
    text = problems_of(TrainRequest("nonsense", nodes=9, epochs=-1, dataset="mnist"), lab)
    for problem in ("model 'nonsense'", "nodes 9", "epochs -1", "dataset 'mnist'"):
        assert problem in text


def test_options_are_read_as_yaml() -> None:
    assert parse_option("seed=2", int) == ("seed", 2)
    # To YAML 5e-4 is a text.
    typed = ["train", "--model", "vit", "--weight-decay", "5e-4", "--set", "clip_norm=1e0"]
    typed += ["--seed", "{"]
    assert build_parser().parse_args(typed).options == [
        *(("weight_decay", 5e-4), ("clip_norm", 1.0), ("seed", "{"))
    ]
    with pytest.raises(ValueError, match="not key=value"):
        parse_option("seed", int)
    assert (number_or("all", "all"), number_or("all", "500")) == ("all", 500)
    with pytest.raises(ValueError, match="some"):
        number_or("all", "some")


REPOSITORY = Project(Path(__file__).parents[2])


@pytest.fixture
def code(tmp_path: Path) -> str:
    """A project whose settings say all there is to say."""
    folder = tmp_path / "Mine"
    folder.mkdir()
    (folder / "train.py").touch()
    (folder / "trainyard.yml").write_text(
        "args: --lr 1\nlaunch: node\ndata: cifar10\nstall: 60\ngrace: 20\nresume_args: [--resume]\n"
    )
    return str(folder)


def test_what_is_typed_wins_over_the_settings_of_a_project(lab: Inventory, code: str) -> None:
    said = resolve_project(ProjectRequest(code, nodes=2), lab, REPOSITORY)
    assert said.extravars() == {
        "training_run_model": "mine",
        "training_run_dataset": "cifar10",
        "training_run_node_count": 2,
        "training_run_node_minimum": 2,
        "training_run_procs_per_node": 1,
        "training_run_stall_seconds": 60,
        "training_run_program": ["python3", "train.py", "--lr", "1"],
        "training_run_program_per": "node",
        "training_run_retries": 0,
        "training_run_grace_seconds": 20,
    }
    request = ProjectRequest(
        code, nodes=2, procs_per_node=3, script_args="", launch="rank", stall=0, grace=0
    )
    further = replace(request, transport="ucx", min_nodes=1, retries=3)
    typed = resolve_project(further, lab, REPOSITORY)
    variables = typed.extravars()
    assert variables["training_run_program"] == ["python3", "train.py"]
    assert variables["training_run_program_per"] == "rank"
    assert variables["training_run_transport"] == "ucx"
    assert variables["training_run_node_minimum"] == 1
    assert variables["training_run_stall_seconds"] == 0
    assert variables["training_run_grace_seconds"] == 0
    assert variables["training_run_retries"] == 3
    said_so = request.to_json()
    assert (said_so["grace"], said_so["stall"], said_so["script_args"]) == (0, 0, "")
    assert "retries" not in said_so
    assert (typed.world_size, typed.label) == (6, "mine_n2_p3")


def test_a_project_has_no_data_set_unless_one_is_asked_for(lab: Inventory, code: str) -> None:
    (Path(code) / "trainyard.yml").unlink()
    defaults = {"dataset": "cifar10", "stall_seconds": 9}
    project = resolve_project(ProjectRequest(code), replace(lab, defaults=defaults), REPOSITORY)
    assert project.extravars() == {
        "training_run_model": "mine",
        # Else the role would take the site's.
        "training_run_dataset": "",
        "training_run_node_count": 1,
        "training_run_node_minimum": 1,
        "training_run_procs_per_node": 1,
        "training_run_program": ["python3", "train.py"],
        "training_run_program_per": "rank",
        "training_run_retries": 0,
    }
    assert project.dataset is None
    training = resolve(TrainRequest("vit"), lab)
    assert set(project.to_json()) == set(training.to_json())


def test_all_problems_of_a_project_are_told_together(lab: Inventory, code: str) -> None:
    (Path(code) / "trainyard.yml").write_text("epochs: 3\n")
    request = ProjectRequest(
        code, entry="x.py", nodes=9, dataset="mnist", transport="mail", grace=-1, retries=-1
    )
    with pytest.raises(RequestError) as caught:
        resolve_project(request, lab, REPOSITORY)
    for problem in (
        "trainyard.yml: epochs: unknown",
        "entry x.py",
        "nodes 9",
        "dataset 'mnist'",
        "transport 'mail'",
        "grace -1",
        "retries -1",
    ):
        assert problem in str(caught.value)


def test_recipe_stands_between_request_and_model(lab: Inventory) -> None:
    recipe = read_recipe(REPOSITORY, "cnn_b_cifar10")
    request = TrainRequest("vit", recipe=recipe, epochs=3, options={"momentum": 0.5})
    training = resolve(request, lab)
    assert (training.epochs, training.learning_rate) == (3, 0.1)
    assert training.train_images is None
    assert (training.options["optimizer"], training.options["momentum"]) == ("sgd", 0.5)


@pytest.fixture(scope="module")
def shipped() -> Inventory:
    """One machine with the lists of models, data sets and options of this checkout."""
    variables = {
        name: value
        for file in ("models", "training", "datasets")
        for name, value in yaml.safe_load(
            (REPOSITORY.root / f"group_vars/all/{file}.yml").read_text()
        ).items()
    }
    hosts = {"trainers": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": variables}}}
    return parse_inventory(hosts, Path("inventory/lab"))


@pytest.mark.parametrize("path", sorted(REPOSITORY.root.glob("trainer/recipes/*.yml")))
def test_every_recipe_asks_for_what_there_is(path: Path, shipped: Inventory) -> None:
    recipe = read_recipe(REPOSITORY, path.stem)
    # Its options as if they had been typed, so that each is looked up.
    request = TrainRequest(recipe.model, recipe=recipe, options=recipe.options)
    assert resolve(request, shipped).epochs == recipe.epochs


def test_all_that_is_wrong_with_a_request_is_told_at_once(shipped: Inventory) -> None:
    options = {
        **{"clip_norm": -1, "optimizer": "lamb", "seed": True, "momentum": 1, "ema": "high"},
        **{"deterministic": 1, "accumulate": 0, "weight_decay": 0},
    }
    asked = TrainRequest("vit", options=options, train_images=48_000)
    assert problems_of(asked, shipped).splitlines() == [
        "train images 48,000: of the 50,000 of cifar10 2,500 are held out for validation; ask for "
        "47,500 or all, or for VALIDATION=0",
        "accumulate 0: must be at least 1",
        "clip_norm -1: must be above 0",
        "deterministic 1: must be true or false",
        "ema 'high': must be a number",
        "momentum 1: must be below 1",
        "optimizer 'lamb': choose from adamw, sgd",
        "seed True: must be a whole number",
    ]
    blind = {"validation_fraction": 0, "early_stop": 3}
    assert problems_of(TrainRequest("vit", options=blind), shipped) == (
        "early_stop and schedule plateau need the validation split: leave VALIDATION=0 out"
    )
    none_held_out = replace(asked, options={"validation_fraction": 0})
    assert resolve(none_held_out, shipped).train_images == 48_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"accumulate": 5}, "accumulate 5: does not divide batch 32"),
        ({"timeline": True}, "timeline True: needs ENGINE=horovod"),
        ({"buckets": 2}, "buckets 2: needs ENGINE=horovod"),
        ({"compression": "fp16"}, "compression fp16: needs ENGINE=horovod"),
        ({"image_size": 64}, "image_size 64: cifar10 has 32"),
        ({"mixup": float("inf")}, "mixup inf: must be finite"),
        ({"seed": -1}, "seed -1: must be at least 0"),
        ({"seed": 2**32}, "seed 4294967296: must be below 4294967296"),
    ],
)
def test_what_ranks_would_refuse_is_refused_before(
    options: dict[str, Any], said: str, shipped: Inventory
) -> None:
    assert problems_of(TrainRequest("vit", engine="ddp", options=options), shipped) == said


def test_a_head_alone_learns_from_weights_that_are_given(shipped: Inventory) -> None:
    head_alone = TrainRequest("vit", options={"freeze": "backbone"})
    assert "give WEIGHTS= too" in problems_of(head_alone, shipped)
    resolve(replace(head_alone, weights="best.pt"), shipped)
    resolve(replace(head_alone, resume="latest"), shipped)


def test_what_fits_together_is_taken(shipped: Inventory) -> None:
    fitting = {"accumulate": 4, "timeline": True, "buckets": 2, "compression": "fp16"}
    resolve(TrainRequest("vit", options={**fitting, "image_size": 32}), shipped)
    unused = {"timeline": False, "compression": "none", "seed": 2**32 - 1}
    resolve(TrainRequest("vit", engine="ddp", options=unused), shipped)


def test_the_seed_that_nobody_says_is_the_role_s(shipped: Inventory) -> None:
    defaults = yaml.safe_load(
        (REPOSITORY.root / "roles/training_run/defaults/main.yml").read_text()
    )
    assert shipped.options["seed"].default == defaults["training_run_recipe"]["seed"]


def test_a_slip_of_the_pen_is_no_reason_to_list_all_models(shipped: Inventory) -> None:
    assert problems_of(TrainRequest("resnet81"), shipped) == (
        "model 'resnet81': unknown; did you mean resnet18, resnet152, resnet101?"
    )
    assert problems_of(TrainRequest("gpt"), shipped) == (
        f"model 'gpt': unknown; there are {len(shipped.models)}, which make train MODEL=list prints"
    )


def test_unknown_recipe_lists_the_recipes() -> None:
    with pytest.raises(RequestError, match=r"recipe 'cnn_c': unknown; there are\n +cnn_b_cifar10"):
        read_recipe(REPOSITORY, "cnn_c")


def test_unknown_option_lists_the_options(lab: Inventory) -> None:
    entries = {"seed": "of everything random", "ema": {"about": "decay", "is": "number"}}
    options = {name: Option.from_entry(entry) for name, entry in entries.items()}
    listed = replace(lab, options=options)
    text = problems_of(TrainRequest("vit", options={"depth": 2}), listed)
    assert (
        text == "--set depth: unknown; there are\n    seed  of everything random\n    ema   decay"
    )
    text = problems_of(TrainRequest("vit", options={"sead": 2}), listed)
    assert text == "--set sead: unknown; did you mean seed?"
    assert resolve(TrainRequest("vit", options={"seed": 2}), listed).options == {"seed": 2}


def test_models_without_an_entry_share_one() -> None:
    variables = {
        "training_models": {"vit": {"description": "own", "dataset": "cifar10"}},
        "training_model_defaults": {"description": "torchvision", "dataset": "cifar10"},
        "training_adamw_defaults": {"learning_rate": 0.1},
        "training_adamw_models": ["swin_t"],
        "training_parameters": {"vit": 5, "resnet18": 7, "swin_t": 9},
    }
    hosts = {"trainers": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": variables}}}
    models = parse_inventory(hosts, Path("inventory/lab")).models
    assert list(models) == ["vit", "resnet18", "swin_t"]
    common = variables["training_model_defaults"]
    assert models["resnet18"].defaults == common
    assert models["swin_t"].defaults == {**common, "learning_rate": 0.1}
    assert (models["vit"].description, models["vit"].parameters) == ("own", 5)
    assert (models["resnet18"].description, models["resnet18"].parameters) == ("torchvision", 7)


@pytest.mark.parametrize("path", ["inventory/data", "inventory/lab/../image", "gpu/day.yml", "/"])
def test_an_inventory_has_no_folder_of_trainyard_s_own(path: str, tmp_path: Path) -> None:
    """What is remembered of it would lie there, and go with it."""
    inventory = tmp_path / path
    if inventory.suffix:
        inventory.parent.mkdir(parents=True)
        inventory.touch()
    elif path != "/":
        (tmp_path / "inventory/lab").mkdir(parents=True)
        inventory.mkdir()
    with pytest.raises(RequestError, match="an inventory cannot be called"):
        read_inventory(Project(tmp_path), inventory)


def test_no_inventory_has_the_checkout_for_its_folder() -> None:
    folder = REPOSITORY.state(REPOSITORY.root / "inventory/local/..")
    assert folder == REPOSITORY.root / ".trainyard/inventory"
