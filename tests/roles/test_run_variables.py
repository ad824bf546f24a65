"""What role training_run makes of what it is given, without starting Ansible."""

from typing import Any

import pytest
import yaml
from ansible.plugins.filter import core as core_filters
from ansible.plugins.filter import mathstuff
from ansible.plugins.test import core as core_tests
from jinja2.nativetypes import NativeEnvironment
from role_files import ROLES


def made(name: str, values: dict[str, Any], *before: str) -> Any:
    """A variable of the role; `before` are those that it is made from."""
    variables = yaml.safe_load((ROLES / "training_run" / "vars/main.yml").read_text())
    variables |= variables["training_run_request"]
    environment = NativeEnvironment()
    environment.filters |= core_filters.FilterModule().filters()
    environment.filters |= mathstuff.FilterModule().filters()
    environment.tests |= core_tests.TestModule().tests()
    known = dict(values)
    for each in (*before, name):
        known[each] = environment.from_string(variables[each]).render(known)
    return known[name]


@pytest.mark.parametrize(
    ("nodes", "precision"),
    [
        *(([(True, ["8.0"])], "bf16"), ([(True, [])], "bf16"), ([(False, [])], "fp32")),
        *(([(False, ["7.0"]), (False, ["7.5", "7.5"])], "fp16"), ([(False, ["6.1"])], "fp32")),
        *(([(True, ["12.0"]), (False, ["7.5"])], "fp16"), ([(False, ["gfx906"])], "fp32")),
        *(([(False, ["7.5"]), (False, [])], "fp32"), ([(False, ["7.5"]), (True, [])], "fp32")),
    ],
)
def test_precision_is_what_all_nodes_multiply(
    nodes: list[tuple[bool, list[str]]], precision: str
) -> None:
    """Each node multiplies bf16 or not, and has GPUs of these capabilities."""
    answers = [
        {
            **{"bf16": bf16, "gpus": len(capabilities)},
            "gpu_devices": [{"capability": each, "trouble": ""} for each in capabilities],
        }
        for bf16, capabilities in nodes
    ]
    hosts = {
        f"node{number}": {"training_node_probed": {"answer": answer}}
        for number, answer in enumerate(answers)
    }
    values = {"training_run_nodes": list(hosts), "hostvars": hosts}
    chosen = made(
        "precision",
        {**values, "training_run_precision": "auto"},
        *("training_run_multiplies_bf16", "training_run_multiplies_fp16"),
    )
    assert chosen == precision


@pytest.mark.parametrize("node", ["node1", "node2"])
@pytest.mark.parametrize("resume", ["", "/runs/a/checkpoints"])
@pytest.mark.parametrize("weights", ["", "/home/ann/resnet18.safetensors"])
def test_weights_go_to_all_nodes_and_checkpoints_to_the_first(
    node: str, resume: str, weights: str
) -> None:
    values = {
        **{"training_run_resume_from": resume, "training_run_weights": weights},
        **{"training_run_nodes": ["node1", "node2"], "inventory_hostname": node},
        **{"training_run_weights_sha256": "abc", "training_run_metrics_from": ""},
        "training_run_code": "",
    }
    named = ("training_run_weights_name", "training_run_launcher", "training_run_goes_on_here")
    carried = [{"src": f"{resume}/"}] if resume and node == "node1" else []
    told: dict[str, Any] = {"resume_dir": "/resume"} if resume else {}
    if weights:
        carried.append({"src": weights, "dest": "weights.safetensors"})
        told |= {"weights": "/resume/weights.safetensors", "weights_sha256": "abc"}
    before = (*named, "training_run_carried_checkpoints")
    assert made("training_run_carried", values, *before) == carried
    assert made("training_run_resumption", values, *named) == told
