"""Which image fits the GPUs and the drivers of the nodes, and how the choice is kept."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.local_cluster_gpus import PLACE, GpuMachine
from ansible.module_utils.nvidia_driver_cards import capability_of
from ansible.module_utils.trainer_image_fit import (
    Gpu,
    Image,
    MisfitError,
    Node,
    choose_image,
    has_code_for,
    read_images,
    read_node,
    without_gpu,
)
from ansible.template import Templar
from ansible_here import LOADER, PLAYBOOKS, Host, Inventory, module_answer
from gpu_machines import FakeDriver
from role_files import ROLES

from yard.plays.inventory import parse_inventory

CHECKOUT = ROLES.parent
TABLE = yaml.safe_load((CHECKOUT / "docker/trainer/cuda.yml").read_text())
IMAGES = read_images(TABLE)

# Compute capabilities of GPUs (developer.nvidia.com/cuda-gpus).
P40, V100, T4, A100, A10 = "6.1", "7.0", "7.5", "8.0", "8.6"
L40S, H100, B200, B300, RTX_PRO_6000 = "8.9", "9.0", "10.0", "10.3", "12.0"


def node(name: str, branch: int, *capabilities: str) -> Node:
    gpus = tuple(Gpu(f"card {number}", kind) for number, kind in enumerate(capabilities))
    return Node(name, f"driver {branch}", branch, gpus)


def chosen(*nodes: Node) -> str:
    return str(choose_image(IMAGES, nodes).name)


def refused(*nodes: Node) -> str:
    with pytest.raises(MisfitError) as error:
        choose_image(IMAGES, nodes)
    return str(error.value)


@pytest.mark.parametrize("branch", [525, 535, 550, 570])
@pytest.mark.parametrize(
    ("capability", "image"),
    [
        (P40, "cuda12-legacy"),
        (V100, "cuda12"),
        (T4, "cuda12"),
        (A100, "cuda12"),
        (L40S, "cuda12"),
        (H100, "cuda12"),
    ],
)
def test_a_driver_before_580_gets_cuda_12(branch: int, capability: str, image: str) -> None:
    assert chosen(node("a", branch, capability)) == image


@pytest.mark.parametrize(
    ("capability", "image"),
    [
        (P40, "cuda12-legacy"),
        (V100, "cuda12"),
        (T4, "cuda13"),
        (A100, "cuda13"),
        (A10, "cuda13"),
        (L40S, "cuda13"),
        (H100, "cuda13"),
        (B200, "cuda13"),
        (B300, "cuda13"),
        (RTX_PRO_6000, "cuda13"),
    ],
)
def test_driver_580_gets_the_newest_that_knows_the_gpu(capability: str, image: str) -> None:
    assert chosen(node("a", 580, capability)) == image


@pytest.mark.parametrize("branch", [525, 535, 550, 570])
def test_blackwell_before_580_is_told_which_driver_would_do(branch: int) -> None:
    said = refused(node("a", branch, B200), node("b", 580, H100))
    assert f"a has driver {branch}\n" in said
    assert "With a driver of branch 580 or newer on a, cuda13 serves all" in said
    assert "nvidia_driver_branch" in said


@pytest.mark.parametrize(
    ("nodes", "image"),
    [
        ((node("a", 580, H100), node("b", 535, A100)), "cuda12"),
        ((node("a", 580, H100), node("b", 580, V100)), "cuda12"),
        ((node("a", 580, H100), node("b", 550, P40)), "cuda12-legacy"),
        ((node("a", 580, H100), node("b", 580, L40S, T4)), "cuda13"),
        ((node("a", 550, P40, H100),), "cuda12-legacy"),
        # A host of the group that has no GPU after all, and so no driver.
        ((node("a", 580, H100), node("b", 0)), "cuda13"),
    ],
)
def test_mixed_nodes_get_the_newest_that_serves_all(nodes: tuple[Node, ...], image: str) -> None:
    assert chosen(*nodes) == image


def test_gpus_that_no_image_serves_together_are_two_groups() -> None:
    said = refused(node("old", 580, V100), node("new", 580, B200), node("also", 580, H100))
    assert "old has GPU card 0, compute capability 7.0" in said
    assert "new has GPU card 0, compute capability 10.0" in said
    assert "  cuda13, driver 580 or newer: new, also\n  cuda12, driver 525 or newer: old" in said


def test_hosts_without_gpus_are_told_before_an_image_is_built() -> None:
    said = refused(node("a", 580), node("b", 0))
    assert said.startswith("a, b are in gpu_nodes, and no NVIDIA GPU is on the PCI bus there: see")
    assert without_gpu([node("a", 580, H100), node("b", 0)]).startswith("b is in gpu_nodes, and")
    assert without_gpu([node("a", 580, H100)]) == ""


def test_a_driver_that_is_too_old_for_all_is_refused() -> None:
    said = refused(node("a", 470, A100))
    assert "cuda12 needs driver 525 or newer" in said
    assert "With a driver of branch 580 or newer on a, cuda13 serves all" in said


@pytest.mark.parametrize(("capability", "words"), [("", "unknown to Trainyard"), ("5.2", "5.2")])
def test_a_gpu_without_an_image_is_named(capability: str, words: str) -> None:
    said = refused(node("a", 580, A100), node("b", 580, capability))
    assert "No image has code for: b (card 0, " in said
    assert words in said
    assert "trainer_image_target" in said


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [("8.6", "8.9", True), ("8.0", "8.9", True), ("8.9", "8.6", False), ("8.0", "9.0", False)],
)
def test_code_runs_within_its_generation(code: str, capability: str, runs: bool) -> None:
    image = Image("an image", "2.0", "12.0", 525, (code,))
    assert has_code_for(image, Gpu("a card", capability)) is runs


@pytest.mark.parametrize(
    ("loaded", "installs", "branch", "driver"),
    [
        ("550.163.01", 550, 550, "driver 550.163.01"),
        ("", 535, 535, "driver 535, which set-up installs"),
        ("580.65.06", 0, 580, "driver 580.65.06"),
        ("550.163.01", 580, 550, "driver 550.163.01"),
        ("580.65.06", 550, 550, "driver 550, which set-up installs"),
        ("", 0, 0, "no driver"),
    ],
)
def test_the_older_of_the_drivers_counts(
    loaded: str, installs: int, branch: int, driver: str
) -> None:
    gpus = [{"label": "A100", "capability": "8.0"}]
    found = read_node("a", {"loaded": loaded, "installs": installs, "gpus": gpus})
    assert (found.branch, found.driver) == (branch, driver)
    assert found.gpus == (Gpu("A100", "8.0"),)


def test_a_node_without_a_driver_that_gets_none_is_refused() -> None:
    assert "a has no driver" in refused(Node("a", "no driver", 0, (Gpu("card", A100),)))


@pytest.mark.parametrize(
    ("device", "capability"),
    [
        (0x102D, ""),  # K80
        (0x17FD, "5.2"),  # M40
        (0x15F8, "6.0"),  # P100
        (0x1B38, P40),
        (0x1DB6, V100),
        (0x1EB8, T4),
        (0x2184, "7.5"),  # GTX 1660
        (0x20B2, A100),
        (0x2236, A10),
        (0x2504, "8.6"),  # RTX 3060
        (0x26B9, L40S),
        (0x27B8, "8.9"),  # L4
        (0x2330, H100),
        (0x2335, "9.0"),  # H200
        (0x2901, B200),
        (0x2BB1, RTX_PRO_6000),
        (0x2E2A, "12.1"),  # GB10
        (0x31C0, "10.3"),  # GB300
        (0x3340, ""),
    ],
)
def test_the_capability_is_known_by_the_device_id(device: int, capability: str) -> None:
    assert capability_of(device) == capability


def test_every_image_of_the_table_can_be_built() -> None:
    variables = yaml.safe_load((ROLES / "trainer_image/vars/main.yml").read_text())
    options = yaml.safe_load((ROLES / "trainer_image/meta/argument_specs.yml").read_text())
    choices = options["argument_specs"]["main"]["options"]["trainer_image_target"]["choices"]
    recipes = variables["trainer_image_recipes"]
    assert set(recipes) == set(choices) == {"runtime", "test", *TABLE, "rocm"}
    cleaned = (CHECKOUT / "playbooks/clean_up.yml").read_text()
    for name, entry in TABLE.items():
        lists = CHECKOUT / "docker/trainer/requirements"
        version = entry["torch"].partition("+")[0]
        assert recipes[name]["lists"][-1] == name
        assert f"\ntorch=={version} " in (lists / f"{name}.txt").read_text()
        assert f"- trainyard/trainer-{name}\n" in cleaned


class Site:
    """An inventory of hosts that are this machine, each with a PCI bus of its own as a stand-in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hosts: dict[str, dict[str, Any]] = {}
        self.variables: dict[str, Any] = {}
        self.group = "gpu_nodes"

    def add(self, name: str, device: int, loaded: str) -> None:
        sys_of_host = self.root / name
        card = sys_of_host / "bus/pci/devices/0000:3b:00.0"
        card.mkdir(parents=True, exist_ok=True)
        for file, number in (("vendor", 0x10DE), ("device", device), ("class", 0x030200)):
            (card / file).write_text(f"0x{number:04x}\n")
        (sys_of_host / "module/nvidia").mkdir(parents=True, exist_ok=True)
        (sys_of_host / "module/nvidia/version").write_text(loaded)
        self.hosts[name] = {"ansible_connection": "local", "nvidia_driver_sys": str(sys_of_host)}

    @property
    def extra(self) -> dict[str, Any]:
        return {"ansible_become": False, "trainyard_inventory_state": str(self.root)}

    def write(self) -> Path:
        """Write the inventory, and return its place."""
        inventory = self.root / "hosts.yml"
        hosts = {"hosts": self.hosts}
        document = {"trainers": hosts, "all": {"vars": self.variables}}
        if self.group:
            document[self.group] = hosts
        inventory.write_text(yaml.safe_dump(document))
        return inventory

    def set_up(self) -> str:
        """Run what `make setup` runs before it builds the image."""
        done = subprocess.run(
            [
                *("ansible-playbook", "playbooks/trainer_image_fit.yml"),
                *("--inventory", str(self.write()), "--extra-vars", json.dumps(self.extra)),
            ],
            cwd=CHECKOUT,
            env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        return " ".join((done.stdout + done.stderr).split())

    def targets(self) -> set[str]:
        """The image as a playbook has it, and as `yard` has it."""
        seen = Inventory(self.write(), self.extra).hostvars
        played = {seen[host]["trainer_image_target"] for host in self.hosts}
        hostvars = dict.fromkeys(self.hosts, self.variables)
        told = {"hosts": list(self.hosts)}
        document = {"trainers": told, self.group: told, "_meta": {"hostvars": hostvars}}
        inventory = parse_inventory(document, self.root / "hosts.yml", self.root / "fits")
        return played | {inventory.image_target}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.variables = {"nvidia_driver_modules": "site"}
    site.add("Gpu02", 0x2330, "580.65.06")
    site.add("gpu01", 0x20B2, "580.65.06")
    return site


@pytest.mark.process
def test_the_choice_is_kept_and_a_change_is_said(site: Site) -> None:
    assert site.targets() == {"cuda12"}, "nothing is chosen yet"
    record = Inventory(site.write(), site.extra).hostvars["gpu01"]["trainer_image_fit_file"]
    first = module_answer(
        *("trainer_image", "trainer_image_choose"),
        **{"images": TABLE, "hosts": ["Gpu02", "gpu01"], "record": record},
        answers={"Gpu02": told("580.65.06", H100), "gpu01": told("580.65.06", A100)},
    )
    assert first["message"].startswith("The image for NVIDIA GPUs is cuda13 (PyTorch 2.13.0+cu130")
    assert site.targets() == {"cuda13"}
    # A host that cannot be asked counts with what it told.
    site.add("gpu01", 0x20B2, "550.163.01")
    site.hosts["Gpu02"] = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    said = site.set_up()
    assert "failed=0" in said
    assert "unreachable=1 failed" not in said
    assert "is cuda12 (PyTorch 2.10.0+cu128, CUDA 12.8); it was cuda13. " in said
    assert "gpu01: driver 550.163.01, compute capability 8.0" in said
    assert site.targets() == {"cuda12"}


def told(loaded: str, capability: str) -> dict[str, Any]:
    """What a node with one GPU tells."""
    return {"loaded": loaded, "installs": 0, "gpus": [{"label": "card", "capability": capability}]}


def test_nothing_is_chosen_before_all_have_been_asked_and_then_once(tmp_path: Path) -> None:
    record = tmp_path / "fits/a.json"
    arguments = {"images": TABLE, "hosts": ["Gpu02", "gpu01"], "record": str(record)}
    choose = partial(module_answer, "trainer_image", "trainer_image_choose", **arguments)
    one = {"gpu01": told("580.65.06", A100)}
    assert "is not chosen yet: Gpu02 could not be asked" in choose(answers=one)["message"]
    both = {**one, "Gpu02": told("580.65.06", H100)}
    assert choose(answers=both, _ansible_check_mode=True)["changed"]
    assert not record.exists()
    assert choose(answers=both)["changed"]
    again = choose(answers=one)
    assert (again["changed"], again["message"], again["target"]) == (False, "", "cuda13")
    misfits = choose(answers={"gpu01": told("580.65.06", V100), "Gpu02": told("580.65.06", B200)})
    assert misfits["failed"]
    assert misfits["msg"].startswith("trainer_image: no image for NVIDIA GPUs serves all nodes")
    assert "Make two inventories" in misfits["msg"]
    assert json.loads(record.read_text()) == {"target": "cuda13", "answers": both}


def test_hosts_are_asked_where_nvidias_gpus_are_and_the_site_has_chosen_nothing(site: Site) -> None:
    (play,) = LOADER.load_from_file(
        str(PLAYBOOKS / "trainer_image_fit.yml"), trusted_as_template=True
    )
    (choose,) = play["tasks"]

    def asked() -> bool:
        inventory = Inventory(site.write(), site.extra)
        known = {"groups": inventory.groups, "inventory_hostname": "gpu01"}
        # The play has no choice of its own.
        variables = {**known, "trainer_image_target": "", **site.variables}
        condition = Templar(loader=LOADER, variables=variables).evaluate_conditional
        return bool(condition(choose["when"]))

    assert asked()
    site.variables["trainer_image_target"] = "cuda12-legacy"
    assert site.targets() == {"cuda12-legacy"}
    assert not asked()
    del site.variables["trainer_image_target"]
    for group in ("amd_nodes", ""):
        site.group = group
        assert not asked()
    site.group = "amd_nodes"
    assert site.targets() == {"rocm"}
    host = Host("trainer_image", {"trainer_image_target": "rocm"})
    assert host.value("trainer_image_repository") == "trainyard/trainer-rocm"


@pytest.mark.process
def test_what_the_driver_tells_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that came after the list of device ids."""
    site.add("gpu01", 0x3340, "580.65.06")
    bus = str(site.root / "gpu01")
    foresee = partial(module_answer, "nvidia_driver", "nvidia_driver_foresee", sys=bus)
    slot = "in slot 0000:3b:00.0"
    assert foresee()["gpus"] == [{"label": f"device 3340 {slot}", "capability": ""}]
    driver = FakeDriver(site.root / "driver", GpuMachine("t4", 1, "580.65.06"))
    answers = driver.root / PLACE / "machine.json"
    answers.write_text(answers.read_text().replace("07:00.0", "3B:00.0"))  # where the site has it
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    assert foresee()["gpus"] == [{"label": f"NVIDIA T4 {slot}", "capability": T4}]
