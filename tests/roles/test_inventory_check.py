"""The check of the inventory, through the playbook as users run it."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
GOOD = {
    "trainers": {
        "hosts": {
            "gpu01": {"ansible_host": "gpu01.example.com", "cluster_address": "10.0.0.11"},
            "gpu02": {"ansible_host": "gpu02.example.com", "cluster_address": "10.0.0.12"},
        },
        "vars": {"cluster_network": "10.0.0.0/24"},
    },
    "gpu_nodes": {"hosts": {}},
    "container_hosts": {"hosts": {}},
}


def check(
    inventory: Path, *options: str, playbook: str = "playbooks/validate.yml"
) -> tuple[int, list[str]]:
    """Run the playbook; return its status and the sentences about the inventory."""
    done = subprocess.run(
        ["ansible-playbook", "--inventory", inventory, *options, playbook],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).replace(f"{inventory}/", "").splitlines()
    assert not any("changed=1" in line for line in lines), lines
    start = [number for number, line in enumerate(lines) if "Nothing was changed." in line]
    if not start:
        return done.returncode, lines
    end = next(number for number in range(start[0], len(lines)) if "Origin:" in lines[number])
    return done.returncode, lines[start[0] + 1 : end]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """An inventory without mistakes."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(GOOD, sort_keys=False))
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_finds_nothing_in_a_good_one(inventory: Path) -> None:
    (inventory / "group_vars/trainers.yml").write_text("docker_engine_users: [ada]\nmine: 1\n")
    status, lines = check(inventory)
    assert status == 0, lines


def test_finds_nothing_in_the_inventories_of_the_checkout() -> None:
    for name in ("example", "local"):
        status, lines = check(CHECKOUT / "inventory" / name)
        assert status == 0, lines


def test_names_all_mistakes_together_with_line_and_remedy(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.12", "10.0.1.12")
    (inventory / "group_vars/trainers.yml").write_text(
        "# A comment\ndocker_engine_user: [ada]\nopenmpi_transport: tcp\ncluster_adress: x\n"
    )
    status, lines = check(inventory)
    assert status == 2
    assert lines == [
        "group_vars/trainers.yml:2: docker_engine_user is not a variable of role docker_engine. "
        "Is docker_engine_users meant?",
        "group_vars/trainers.yml:3: openmpi_transport is not a variable of role openmpi. "
        "roles/openmpi/README.md lists them.",
        "group_vars/trainers.yml:4: cluster_adress is not a site-wide variable. "
        "Is cluster_address meant?",
        "hosts.yml:8: cluster_address of gpu02: 10.0.1.12 is not in cluster_network 10.0.0.0/24. "
        "One of both is wrong.",
    ]


def test_knows_the_prefix_of_every_role(inventory: Path) -> None:
    slips = []
    for file in sorted(CHECKOUT.glob("roles/*/meta/argument_specs.yml")):
        points = yaml.safe_load(file.read_text())["argument_specs"].values()
        names = sorted({name for point in points for name in point.get("options") or {}})
        # Without its last letter, as in cifs_mount_share.
        slips += [(file.parts[-3], name[:-1], name) for name in names[:1]]
    (inventory / "group_vars/trainers.yml").write_text(
        "".join(f"{slip}: 1\n" for _, slip, _ in slips)
    )
    status, lines = check(inventory)
    assert status == 2
    assert len(slips) >= 12
    for number, (line, (role, slip, name)) in enumerate(zip(lines, slips, strict=True), start=1):
        assert line.startswith(
            f"group_vars/trainers.yml:{number}: {slip} is not a variable of role {role}. "
        )
        assert line.endswith(f"Is {name} meant?"), line


def test_names_mistakes_of_every_kind_before_anything_is_done(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.0/24", "10.0.0.0/33")
    replace(inventory / "hosts.yml", "gpu_nodes:", "gpunodes:")
    replace(inventory / "hosts.yml", "container_hosts:", "container_host:")
    (inventory / "group_vars/trainer.yml").write_text("docker_engine_users: [ada]\n")
    (inventory / "group_vars/all.yml").write_text("docker_engine_user: [ada]\n")
    status, lines = check(inventory, playbook="site.yml")
    assert status == 2
    assert lines == [
        "group container_hosts, which playbooks/local_up.yml works on, is missing. "
        'Is container_host meant? A group may be empty: "container_hosts: {hosts: {}}".',
        "group_vars/trainer.yml: there is no group trainer, so nothing reads it. "
        "Is trainers meant?",
        "group_vars/all.yml:1: docker_engine_user is not a variable of role docker_engine. "
        "Is docker_engine_users meant?",
        "hosts.yml:10: cluster_network: '10.0.0.0/33' does not appear to be an IPv4 or IPv6 "
        "network. Write it as CIDR, such as 10.0.0.0/24.",
    ]


def test_wants_version_6_where_it_says_so(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "cluster_address: 10.0.0.12", "cluster_address_v6: 10.0.0.12")
    replace(inventory / "hosts.yml", "ansible_host: gpu02.example.com", "ansible_host: 10.0.0.12")
    assert check(inventory) == (
        2,
        [
            "hosts.yml:8: cluster_address_v6 of gpu02: 10.0.0.12 is of version 4. "
            "Is cluster_address meant?"
        ],
    )


def test_names_groups_that_plays_work_on(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "trainers:", "trainer:")
    status, lines = check(inventory)
    assert status == 2
    assert lines[0] == (
        "group trainers, which playbooks/nodes.yml works on, is missing. "
        'Is trainer meant? A group may be empty: "trainers: {hosts: {}}".'
    )


def test_finds_that_nobody_trains(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text(
        "trainers: {hosts: {}}\ngpu_nodes: {hosts: {}}\ncontainer_hosts: {hosts: {}}\n"
    )
    assert check(inventory) == (
        2,
        ["group trainers has no host. Add the machines that train."],
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "10.0.0.5/24",
            "10.0.0.5/24 is an address in a network. Is 10.0.0.0/24 meant?",
        ),
        (
            "10.0.0/24",
            "'10.0.0/24' does not appear to be an IPv4 or IPv6 network. "
            "Write it as CIDR, such as 10.0.0.0/24.",
        ),
    ],
)
def test_says_of_a_bad_network_what_is_meant(inventory: Path, value: str, said: str) -> None:
    replace(inventory / "hosts.yml", "10.0.0.0/24", value)
    # openmpi_network and others take over the value: the mistake is one, and named once.
    assert check(inventory) == (2, [f"hosts.yml:10: cluster_network: {said}"])


def test_wants_one_network(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "cluster_network:", "some_network:")
    assert check(inventory) == (
        2,
        [
            "hosts gpu01, gpu02: cluster_network is not set. "
            "Give the group trainers the CIDR of the training network."
        ],
    )


def test_wants_addresses_and_not_names(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "      cluster_address: 10.0.0.12\n", "")
    assert check(inventory) == (
        2,
        [
            'host gpu02: cluster_address of gpu02: "gpu02.example.com" is not an IP address. '
            "Set cluster_address to one in 10.0.0.0/24."
        ],
    )


def test_reads_what_has_no_lines(inventory: Path) -> None:
    (inventory / "more").write_text("[trainers:vars]\nopenmpi_netwrk=10.0.0.0/24\n")
    status, lines = check(inventory, "--extra-vars", "trainer_image_relase=trixie")
    assert status == 2
    assert lines == [
        "hosts gpu01, gpu02: openmpi_netwrk is not a variable of role openmpi. "
        "Is openmpi_network meant?",
        "hosts gpu01, gpu02: trainer_image_relase is not a variable of role trainer_image. "
        "Is trainer_image_release meant?",
    ]


def test_runs_with_a_limit(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.12", "10.0.1.12")
    status, lines = check(inventory, "--limit", "gpu01")
    assert status == 2
    assert len(lines) == 1


def test_site_begins_with_it(inventory: Path) -> None:
    first = yaml.safe_load((CHECKOUT / "site.yml").read_text())[0]
    assert first["ansible.builtin.import_playbook"] == "playbooks/validate.yml"
