import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer.config import CHOICES, TrainConfig
from trainer.errors import ConfigError

DECIDED_BY_THE_LAUNCH = {
    *("model", "dataset", "data_dir", "run_dir", "engine", "precision", "epochs"),
    *("batch_per_rank", "learning_rate", "train_images", "world_size", "hosts", "slots"),
    *("resume_dir", "checkpoint_seconds", "seconds_between_failures", "weights", "weights_sha256"),
    "test_only",
}


def test_round_trip(config: dict[str, Any]) -> None:
    document = TrainConfig.from_json(config).to_json()
    assert config.items() <= document.items()
    assert TrainConfig.from_json(document).to_json() == document


def test_backend_may_be_left_out(config: dict[str, Any]) -> None:
    del config["backend"]
    assert TrainConfig.from_json(config).backend == "gloo"


def test_null_means_all_training_images(config: dict[str, Any]) -> None:
    assert TrainConfig.from_json({**config, "train_images": None}).train_images is None


def test_whole_number_is_accepted_as_a_rate(config: dict[str, Any]) -> None:
    rate = TrainConfig.from_json({**config, "learning_rate": 1}).learning_rate
    assert isinstance(rate, float)


def test_unknown_key_is_named_with_the_valid_ones(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"unknown key .*: epoch; valid are model, .*epochs"):
        TrainConfig.from_json({**config, "epoch": 3})


def test_missing_key_is_named(config: dict[str, Any]) -> None:
    del config["seed"]
    with pytest.raises(ConfigError, match=r"missing key .*: seed"):
        TrainConfig.from_json(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", 3),
        ("epochs", 0),
        ("epochs", True),
        ("epochs", 1.5),
        ("batch_per_rank", "64"),
        ("learning_rate", 0.0),
        ("learning_rate", "fast"),
        ("learning_rate", None),
        ("weight_decay", -0.1),
        ("warmup_fraction", 1.0),
        ("label_smoothing", -0.1),
        ("train_images", 0),
        ("precision", "fp8"),
        ("engine", "carrier pigeon"),
        ("optimizer", "lion"),
        ("momentum", 1.0),
        ("accumulate", 3),
        ("clip_norm", 0),
        ("mixup", -1),
        ("ema", 1),
        ("channels_last", 1),
        ("compression", "zip"),
        ("buckets", 0),
        ("reference_batch", 0),
        ("keep_checkpoints", 0),
        ("checkpoint_seconds", -1),
        ("seconds_between_failures", 0),
        ("resume_dir", 7),
        ("backend", "ucc"),
        ("world_size", 0),
        ("hosts", []),
        ("hosts", "node1"),
        ("hosts", ["node1", 2]),
        ("hosts", ["node1", "node1"]),
        ("hosts", ["node1", "node2", "node3"]),
        ("slots", [2, 1]),
        ("slots", [1]),
        ("slots", [2.0]),
        ("slots", [True, True]),
        ("slots", []),
    ],
)
def test_bad_value_is_refused_by_name(config: dict[str, Any], key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        TrainConfig.from_json({**config, key: value})


def test_rate_follows_the_images_of_a_step(config: dict[str, Any]) -> None:
    config["learning_rate"] = 0.1
    assert TrainConfig.from_json(config).peak_learning_rate == 0.1
    # 2 ranks of 16 images.
    config["reference_batch"] = 64
    assert TrainConfig.from_json(config).peak_learning_rate == pytest.approx(0.05)


def test_buckets_are_horovods(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="buckets needs engine 'horovod'"):
        TrainConfig.from_json({**config, "engine": "ddp", "buckets": 2})


def test_deterministic_run_measures_no_buckets(config: dict[str, Any]) -> None:
    """What a time decides would differ from run to run, and with it the order of additions."""
    assert TrainConfig.from_json(config).exchange_buckets is None
    config["deterministic"] = True
    assert TrainConfig.from_json(config).exchange_buckets == 1
    config["buckets"] = 4
    assert TrainConfig.from_json(config).exchange_buckets == 4


def test_inventory_names_the_engines_and_precisions_there_are() -> None:
    variables = yaml.safe_load(Path("/group_vars/all/training.yml").read_text())
    # `independent` measures and does not train: the benchmarks alone use it.
    assert set(variables["training_engines"]) == set(CHOICES["engine"]) - {"independent"}
    # `auto` becomes one of the others before the trainer starts.
    assert set(variables["training_precisions"]) == {*CHOICES["precision"], "auto"}


def test_inventory_names_the_options_there_are() -> None:
    """What `make train ARGS="--set ..."` takes is checked against this list, without torch."""
    variables = yaml.safe_load(Path("/group_vars/all/training.yml").read_text())
    fields = {field.name for field in dataclasses.fields(TrainConfig)}
    assert set(variables["training_options"]) == fields - DECIDED_BY_THE_LAUNCH


def test_inventory_and_trainer_judge_options_alike(config: dict[str, Any]) -> None:
    variables = yaml.safe_load(Path("/group_vars/all/training.yml").read_text())
    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    for name, entry in variables["training_options"].items():
        refused: list[Any] = ["no such word"]
        if "least" in entry:
            refused.append(entry["least"] - 1)
        refused += [entry[limit] for limit in ("above", "below") if limit in entry]
        for value in refused:
            with pytest.raises(ConfigError, match=name):
                TrainConfig.from_json({**config, name: value})
        for value in (*entry.get("choices", ()), *([entry["least"]] if "least" in entry else ())):
            TrainConfig.from_json({**config, name: value})
        if defaults[name] is not dataclasses.MISSING:
            assert entry.get("default", defaults[name]) == defaults[name]
        assert set(entry.get("choices", ())) == set(CHOICES.get(name, ()))


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_file_that_is_no_json_object(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="JSON"):
        TrainConfig.from_file(path)


def test_command_line_ends_with_status_2(config: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "modle": "vit"}))
    done = subprocess.run(
        ["python3", "-m", "trainer", "train", "--config", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "unknown key in the configuration: modle" in done.stderr
    assert "Traceback" not in done.stderr
