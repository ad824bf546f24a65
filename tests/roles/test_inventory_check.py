"""The check of the inventory, through the playbook as users run it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.inventory_check_addresses import name_trouble
from ansible_here import Inventory
from role_files import action_plugin, import_file

CHECKOUT = Path(__file__).parents[2]
plugin = action_plugin("inventory_check", "inventory_check")
check_files = import_file(CHECKOUT / "roles/inventory_check/files/check_files.py")
ROLE = yaml.safe_load((CHECKOUT / "roles/inventory_check/vars/main.yml").read_text())

Capture = pytest.CaptureFixture[str]

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


def look(inventory: Path, **extra: str) -> tuple[int, list[str]]:
    """The same of the role's action alone, which the playbook calls."""
    found = Inventory(inventory, extra)
    answer = found.act(
        plugin,
        sources=[str(inventory)],
        site=str(CHECKOUT / "playbooks"),
        roles=str(CHECKOUT / "roles"),
        playbook=str(CHECKOUT / "site.yml"),
        known=ROLE["inventory_check_inventory_variables"],
        renamed=ROLE["inventory_check_renamed"],
    )
    if not answer.get("failed"):
        return 0, []
    head, *lines = answer["msg"].replace(f"{inventory}/", "").splitlines()
    assert "Nothing was changed." in head
    return 2, lines


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
    # Machines whose containers are the nodes are few people's.
    replace(inventory / "hosts.yml", "container_hosts:\n  hosts: {}\n", "")
    status, lines = look(inventory)
    assert status == 0, lines


def test_finds_nothing_in_the_inventories_of_the_checkout() -> None:
    for name in ("example", "local"):
        status, lines = look(CHECKOUT / "inventory" / name)
        assert status == 0, lines


def test_an_inventory_beside_the_settings_of_the_site_has_them_as_such(tmp_path: Path) -> None:
    (tmp_path / "group_vars").symlink_to(CHECKOUT / "group_vars")
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(GOOD))
    status, lines = look(tmp_path / "hosts.yml")
    assert status == 0, lines


def test_names_all_mistakes_together_with_line_and_remedy(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.12", "10.0.1.12")
    (inventory / "group_vars/trainers.yml").write_text(
        "# A comment\ndocker_engine_user: [ada]\nopenmpi_transport: tcp\ncluster_adress: x\n"
    )
    status, lines = look(inventory)
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


def test_of_very_many_mistakes_the_first_are_named(inventory: Path) -> None:
    names = "".join(f"docker_engine_{number}: x\n" for number in range(1051))
    (inventory / "group_vars/trainers.yml").write_text(names)
    status, lines = look(inventory)
    assert (status, len(lines)) == (2, 51)
    assert lines[-1] == "And 1,001 more. Is this the inventory that is meant?"


def test_names_files_of_variables_that_others_hide(inventory: Path) -> None:
    (inventory / "group_vars/all").mkdir()
    (inventory / "group_vars/all/vault.yml").write_text("vault_mine: 1\n")
    (inventory / "group_vars/all.yml").write_text("docker_engine_source: docker\n")
    (inventory / "host_vars").mkdir()
    for suffix in ("", ".yml", ".json"):
        (inventory / f"host_vars/gpu01.example{suffix}").write_text("{}\n")
    status, lines = look(inventory)
    assert status == 2
    words = "nobody reads this: of several for"
    assert lines == [
        f"group_vars/all.yml: {words} all, Ansible takes group_vars/all alone. Move what is in "
        "this one there.",
        *(
            f"host_vars/gpu01.example{suffix}: {words} gpu01.example, Ansible takes "
            "host_vars/gpu01.example alone. Move what is in this one there."
            for suffix in (".json", ".yml")
        ),
    ]
    seen = Inventory(inventory).hostvars["gpu01"]
    assert "docker_engine_source" not in seen
    assert seen["vault_mine"] == 1


def test_wants_addresses_and_certificates_of_a_closed_network(inventory: Path) -> None:
    (inventory / "ca.pem").touch()
    variables = inventory / "group_vars/all.yml"
    variables.write_text(
        "closed_network_http_proxy: http://ops:secret@proxy:3128\n"
        "closed_network_https_proxy: proxy:3128\n"
        "closed_network_debian_mirror: 'http://mirror/debian '\n"
        "closed_network_pip_index: http:///simple\n"
        "closed_network_npm_registry: 'https://mirror:none'\n"
        "closed_network_docker_mirrors: [https://mirror:5000, https://mirror/path]\n"
        "closed_network_ca: ca.pem\n"
    )
    status, lines = look(inventory)
    assert status == 2
    remedy = "Write it as http://proxy.example.org:3128 or https://mirror.example.org."
    assert lines == [
        "group_vars/all.yml:7: closed_network_ca: ca.pem does not begin with /. Name a file of "
        "this machine with its whole path, such as /etc/ssl/example-ca.pem.",
        "group_vars/all.yml:3: closed_network_debian_mirror: there is a space, a quote or a "
        f"bracket in it. {remedy}",
        "group_vars/all.yml:6: closed_network_docker_mirrors: Docker takes a mirror with a host "
        f"and a port alone. {remedy}",
        "group_vars/all.yml:2: closed_network_https_proxy: it does not begin with http:// or "
        f"https://. {remedy}",
        "group_vars/all.yml:5: closed_network_npm_registry: its port or its host is none. "
        + remedy,
        "group_vars/all.yml:4: closed_network_pip_index: there is no host in it. " + remedy,
    ]
    replace(variables, "ca.pem", "/nowhere/ca.pem")
    assert any("/nowhere/ca.pem is not there." in line for line in look(inventory)[1])
    variables.write_text(
        "closed_network_docker_mirrors: [https://mirror:5000]\n"
        "closed_network_ca: '{{ inventory_dir }}/ca.pem'\n"
        "closed_network_pip_index: https://ops:a%20b@mirror:8443/simple/\n"
    )
    status, lines = look(inventory)
    assert status == 0, lines


def test_wants_what_this_machine_reads_too_for_all_hosts(inventory: Path) -> None:
    (inventory / "group_vars/trainers.yml").write_text("trainer_image_target: cuda12\n")
    replace(inventory / "hosts.yml", "cluster_address: 10.0.0.12", "trainer_image_target: runtime")
    status, lines = look(inventory)
    assert status == 2
    assert lines[:2] == [
        "hosts.yml:8: trainer_image_target is set for gpu02 alone, and this machine, which builds "
        "the image, does not see it. Set it in group_vars/all/site.yml of the inventory.",
        "group_vars/trainers.yml:1: trainer_image_target is set for group trainers alone, and this "
        "machine, which builds the image, does not see it. Set it in group_vars/all/site.yml of "
        "the inventory.",
    ]
    (inventory / "hosts.yml").write_text(yaml.safe_dump(GOOD, sort_keys=False))
    (inventory / "group_vars/trainers.yml").rename(inventory / "group_vars/all.yml")
    status, lines = look(inventory)
    assert status == 0, lines


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
    status, lines = look(inventory)
    assert status == 2
    assert len(slips) >= 12
    for number, (line, (role, slip, name)) in enumerate(zip(lines, slips, strict=True), start=1):
        assert line.startswith(
            f"group_vars/trainers.yml:{number}: {slip} is not a variable of role {role}. "
        )
        assert line.endswith(f"Is {name} meant?"), line


def test_names_mistakes_of_every_kind(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.0/24", "10.0.0.0/33")
    replace(inventory / "hosts.yml", "gpu_nodes:", "gpunodes:")
    replace(inventory / "hosts.yml", "container_hosts:", "container_host:")
    (inventory / "group_vars/trainer.yml").write_text("docker_engine_users: [ada]\n")
    (inventory / "group_vars/all.yml").write_text("docker_engine_user: [ada]\n")
    status, lines = look(inventory)
    assert status == 2
    assert lines == [
        "hosts.yml:13: group container_hosts, which playbooks/local_up.yml works on, is missing. "
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
    assert look(inventory) == (
        2,
        [
            "hosts.yml:8: cluster_address_v6 of gpu02: 10.0.0.12 is of version 4. "
            "Is cluster_address meant?"
        ],
    )


def test_names_groups_that_plays_work_on(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "trainers:", "trainer:")
    status, lines = look(inventory)
    assert status == 2
    assert lines[0] == (
        "hosts.yml:1: group trainers, which playbooks/trainer_image_fit.yml works on, is missing. "
        'Is trainer meant? A group may be empty: "trainers: {hosts: {}}".'
    )


def test_finds_that_nobody_trains(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text(
        "trainers: {hosts: {}}\ngpu_nodes: {hosts: {}}\ncontainer_hosts: {hosts: {}}\n"
    )
    assert look(inventory) == (
        2,
        [
            "hosts.yml:1: group trainers has no host. Add the machines that train, or the group "
            'that has them: "trainers: {children: {name-of-the-group: {}}}".'
        ],
    )
    # In the syntax of the file
    (inventory / "hosts.yml").unlink()
    (inventory / "hosts").write_text("[gpu]\ngpu01 cluster_address=none\n")
    status, lines = look(inventory)
    assert status == 2
    assert lines == [
        "group trainers has no host. Add the machines that train, or the group that has them: "
        '"[trainers:children]", and "gpu" in the line below.'
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "text", "way"),
    [
        ("hosts", "gpu01\ngpu02 slots=4\n", '"[trainers]" in the line above the machines.'),
        (
            "hosts.toml",
            "[gpu.hosts]\ngpu01 = {}\n",
            """"[trainers]", and "children = ['gpu']" in the line below.""",
        ),
        (
            "hosts.sh",
            '#!/bin/sh\necho \'{"gpu": {"hosts": ["gpu01"]}}\'\n',
            '"trainers": {"children": ["gpu"]} of what it prints.',
        ),
    ],
)
def test_says_how_a_group_is_written_in_the_form_of_the_file(
    tmp_path: Path, name: str, text: str, way: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / name).chmod(0o755 if name.endswith("sh") else 0o644)
    status, lines = look(tmp_path)
    assert status == 2
    assert lines[0] == (
        "group trainers has no host. Add the machines that train, or the group that has them: "
        + way
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
        ("10.0.0.0", "10.0.0.0 has no mask. Write it as CIDR, such as 10.0.0.0/24."),
    ],
)
def test_says_of_a_bad_network_what_is_meant(inventory: Path, value: str, said: str) -> None:
    replace(inventory / "hosts.yml", "10.0.0.0/24", value)
    # openmpi_network and others take over the value: the mistake is one, and named once.
    assert look(inventory) == (2, [f"hosts.yml:10: cluster_network: {said}"])


def test_wants_one_network(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "cluster_network:", "some_network:")
    assert look(inventory) == (
        2,
        [
            "hosts.yml:3: cluster_network is not set for gpu01, gpu02. "
            "Give the group trainers the CIDR of the training network."
        ],
    )


def test_wants_addresses_and_not_names(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "      cluster_address: 10.0.0.12\n", "")
    assert look(inventory) == (
        2,
        [
            'hosts.yml:7: cluster_address of gpu02: "gpu02.example.com" is not an IP address. '
            "Set cluster_address to one in 10.0.0.0/24."
        ],
    )


def test_reads_what_has_no_lines(inventory: Path) -> None:
    (inventory / "more").write_text("[trainers:vars]\nopenmpi_netwrk=10.0.0.0/24\n")
    status, lines = look(inventory, trainer_image_relase="trixie")
    assert status == 2
    assert lines == [
        "hosts gpu01, gpu02: openmpi_netwrk is not a variable of role openmpi. "
        "Is openmpi_network meant?",
        "hosts gpu01, gpu02: trainer_image_relase is not a variable of role trainer_image. "
        "Is trainer_image_release meant?",
    ]


def test_wants_ports_and_addresses_that_ssh_takes(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "gpu01.example.com", "ops@gpu01.example.com")
    replace(inventory / "hosts.yml", "gpu02.example.com", "gpu02.example.com:22")
    replace(inventory / "hosts.yml", "    gpu02:\n", "    gpu02:\n      ansible_port: 220000\n")
    replace(inventory / "hosts.yml", "10.0.0.12", "10.0.0.255")
    status, lines = look(inventory)
    assert status == 2
    rest = "is more than a name or an address. ansible_user and ansible_port have the rest."
    assert lines == [
        f'hosts.yml:4: ansible_host of gpu01: "ops@gpu01.example.com" {rest}',
        "hosts.yml:7: ansible_port 220000 of gpu02 is no port. Write one of 1 to 65535.",
        f'hosts.yml:8: ansible_host of gpu02: "gpu02.example.com:22" {rest}',
        "hosts.yml:9: cluster_address of gpu02: 10.0.0.255 is the first or the last of "
        "10.0.0.0/24, which no machine has.",
    ]


@pytest.mark.process
def test_runs_with_a_limit(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "10.0.0.12", "10.0.1.12")
    status, lines = check(inventory, "--limit", "gpu01")
    assert status == 2
    assert len(lines) == 1


@pytest.mark.parametrize(
    "playbook", ["site", "playbooks/nodes", "playbooks/data", "playbooks/verify"]
)
def test_a_playbook_that_is_run_alone_looks_first(playbook: str) -> None:
    """With the host that it runs for all others end, see test_runs_with_a_limit."""
    file = CHECKOUT / f"{playbook}.yml"
    first = yaml.safe_load(file.read_text())[0]
    named = file.parent / first["ansible.builtin.import_playbook"]
    assert named == CHECKOUT / "playbooks/validate.yml"
    assert first.get("when", "not inventory_validated").startswith("not inventory_validated")


@pytest.mark.promise("row 39")
def test_nodes_with_gpus_of_two_vendors_have_an_image_each(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "gpu_nodes:\n  hosts: {}", "gpu_nodes: {hosts: {gpu01: {}}}")
    with (inventory / "hosts.yml").open("a") as file:
        file.write("amd_nodes:\n  hosts:\n    gpu02: {}\n")
    assert look(inventory)[0] == 0
    site = Inventory(inventory)
    plays = site.plays(CHECKOUT / "site.yml")
    deliveries = [hosts for name, hosts in plays if name == "Deliver the trainer image"]
    assert deliveries == [["gpu01"], ["gpu02"]]
    targets = {
        host: site.hostvars[host]["trainer_image_target"]
        for host in ("gpu01", "gpu02", "localhost")
    }
    assert targets == {"gpu01": "cuda12", "gpu02": "rocm", "localhost": "cuda12"}


def test_a_node_has_gpus_of_one_vendor(inventory: Path) -> None:
    replace(inventory / "hosts.yml", "gpu_nodes:\n  hosts: {}", "gpu_nodes: {hosts: {gpu01: {}}}")
    with (inventory / "hosts.yml").open("a") as file:
        file.write("amd_nodes:\n  hosts:\n    gpu01: {}\n")
    status, lines = look(inventory)
    place = (inventory / "hosts.yml").read_text().splitlines().index("    gpu01: {}") + 1
    assert (status, lines) == (
        2,
        [
            f"hosts.yml:{place}: gpu01 is in groups gpu_nodes and amd_nodes, and no image computes "
            "on GPUs of both vendors. Take it out of one: it trains on the GPUs of the other."
        ],
    )


def test_machines_with_amds_gpus_train(inventory: Path) -> None:
    with (inventory / "hosts.yml").open("a") as file:
        file.write("amd_nodes: {hosts: {gpu02: {}}}\n")
    assert look(inventory)[0] == 0
    with (inventory / "hosts.yml").open("a") as file:
        file.write("amd_node: {hosts: {gpu01: {}}}\n")
    assert "gpu01 in it is not in amd_nodes. Is amd_nodes meant?" in look(inventory)[1][0]


def test_names_hosts_and_addresses_that_cannot_be(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text(
        """trainers:
  hosts:
    gpu_01: {ansible_host: a.example.com, cluster_address: 10.0.0.11}
    "gpu;02": {ansible_host: b.example.com, cluster_address: 10.0.0.12}
    "gpu\\n03": {ansible_host: c.example.com, cluster_address: 10.0.0.13}
    gpu04: {ansible_host: A.example.com, cluster_address: 10.0.0.14}
    GPU04: {ansible_host: e.example.com, cluster_address: 10.0.0.15}
    gpu06: {ansible_host: f.example.com, cluster_address: 10.0.0.16}
    gpu07:
      ansible_host: g.example.com
      cluster_address: 10.0.0.16
    gpu08: {ansible_host: h.example.com, cluster_address: 10.0.0.18, cluster_address_v6: "fd00::1"}
    gpu09: {ansible_host: i.example.com, cluster_address: 10.0.0.19, cluster_address_v6: "fd00::1"}
    gpu[10:11]: {ansible_host: j.example.com}
    192.0.2.7: {cluster_address: 10.0.0.20}
    # Behind a gateway that has the port.
    gpu14: {ansible_host: l.example.com, ansible_port: 2222, cluster_address: 10.0.0.23}
    gpu15: {ansible_host: 10.0.0.24, ansible_port: "2222"}
    near.example.com: {ansible_host: k.example.com, ansible_port: 22, cluster_address: 10.0.0.21}
    other.example.com: {ansible_host: k.example.com, ansible_port: 23, cluster_address: 10.0.0.22}
  vars: {cluster_network: 10.0.0.0/24}
trainer: {hosts: {gpu12: {}}}
gpu_nodes: {hosts: {gpu13: {}}}
container_hosts: {hosts: {}}
# Machines that Trainyard does not work on.
switches: {hosts: {rack_1: {ansible_host: a.example.com}}}
"""
    )
    status, lines = look(inventory)
    assert status == 2
    rfc = "and a name has letters, digits and hyphens (RFC 1123)"
    rename = "Rename it; ansible_host says how it is reached."
    own = "Give every host an address of its own."
    outside = '"j.example.com" is not an IP address. Set cluster_address to one in 10.0.0.0/24.'
    assert lines == [
        "hosts.yml:22: nothing works on group trainer, and gpu12 in it is not in trainers. "
        "Is trainers meant?",
        "hosts.yml:23: gpu13 is in group gpu_nodes and not in trainers, so nothing uses its GPUs. "
        "Add it to trainers, or take it out of gpu_nodes.",
        f"hosts.yml:3: gpu_01 cannot be the name of a host: it has '_', {rfc}. {rename}",
        f"hosts.yml:4: gpu;02 cannot be the name of a host: it has ';', {rfc}. {rename}",
        f"hosts.yml:5: gpu\\n03 cannot be the name of a host: it has a line break, {rfc}. {rename}",
        "hosts.yml:7: GPU04 and gpu04 are the same name, because host names have no case. "
        "Rename one of both.",
        f"hosts.yml:14: cluster_address of gpu10: {outside}",
        f"hosts.yml:14: cluster_address of gpu11: {outside}",
        f"hosts.yml:6: ansible_host a.example.com belongs to gpu_01, gpu04. {own}",
        f"hosts.yml:14: ansible_host j.example.com belongs to gpu10, gpu11. {own}",
        f"hosts.yml:11: cluster_address 10.0.0.16 belongs to gpu06, gpu07. {own}",
        f"hosts.yml:13: cluster_address_v6 fd00::1 belongs to gpu08, gpu09. {own}",
        "hosts.yml:18: ansible_port 2222 of gpu15 is the port of the sshd in a run's container, so "
        "its own sshd would keep runs off. Set training_node_ssh_port to a free one, for all "
        "hosts.",
    ]


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ("{training_node_ssh_port: 22}", True),
        ("{training_node_ssh_port: '22'}", True),
        ("{training_node_ssh_port: 22, ansible_port: 2200}", False),
        ("{training_node_ssh_port: 22, ansible_connection: local}", False),
        ("{training_node_ssh_port: 2223}", False),
    ],
)
def test_runs_do_not_get_the_port_that_sshd_has_unsaid(
    inventory: Path, variables: str, refused: bool
) -> None:
    (inventory / "hosts.yml").write_text(
        "trainers:\n"
        "  hosts: {gpu01: {ansible_host: 10.0.0.1}, gpu02: {ansible_host: 10.0.0.2}}\n"
        f"  vars: {variables}\n"
    )
    expected = [
        "hosts.yml:3: training_node_ssh_port 22 is the port of the machines' own sshd, which would "
        "keep runs off. Set it to a free one, for all hosts."
    ]
    assert [line for line in look(inventory)[1] if "ssh_port" in line] == expected * refused


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("two words", "it has a space"),
        ("x" * 64, "a part of it has 64 characters, and may have 63"),
        (".".join(["x" * 60] * 5), "it has 304 characters, and a name at most 253"),
        ("-gpu", "a part of it begins or ends with a hyphen"),
        ("gpu..com", "a part between two dots is empty"),
        ("gpü", "it has 'ü'"),
        ("x" * 63, ""),
        ("3com.example.com", ""),
        ("10.0.0.1", ""),
        ("fd00::1", ""),
    ],
)
def test_says_why_a_name_cannot_be(name: str, trouble: str) -> None:
    said = name_trouble(name)
    assert said.startswith(trouble)
    assert bool(said) == bool(trouble)


def test_knows_old_names(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inventory / "group_vars/trainers.yml").write_text("mine: 1\nsite_old_name: 2\n")
    renamed = {"site_old_name": "trainyard_user", "a_b": "cluster_c"}
    monkeypatch.setitem(ROLE, "inventory_check_renamed", renamed)
    status, lines = look(inventory, a_b="1")
    assert status == 2
    assert lines[:2] == [
        "group_vars/trainers.yml:2: site_old_name has a new name, trainyard_user. Write that.",
        "hosts gpu01, gpu02: a_b has a new name, cluster_c. Write that.",
    ]


def files_problems(inventory: Path, capsys: Capture) -> list[str]:
    """What the program says that looks at the files alone."""
    status = check_files.main([str(inventory)])
    said = capsys.readouterr().out
    assert status == (2 if said else 0)
    return said.replace(f"{inventory}/", "").splitlines()[1:]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("hosts.yml", b"trainers:\n  \xff\xfe\n", "2: this is not text: byte 0xff is not UTF-8."),
        ("group_vars/all.yml", b"\x00", "1: this is not text: byte 0x00"),
        ("group_vars/all.yml", b"a: 1\n\tb: 2\n", "2: this is not YAML: "),
        ("group_vars/all.yml", b"a: [1\nb: 2\n", "2: this is not YAML: did not find"),
        ("group_vars/all.yml", b"a: x: y\n", "1: this is not YAML: mapping values are not"),
        ("group_vars/all.yml", b"a: @x\n", "1: this is not YAML: "),
        ("group_vars/all.yml", b"- a\n", "1: a file of variables is a mapping."),
        ("host_vars/gpu01.yml", b"a: {b: 1,\n  b: 2}\n", '2: the key "b" stands in line 1 already'),
        ("group_vars/all.yml", b"a: 1\na: 1\n", '2: the key "a" stands in line 1 already'),
        ("below/more.yml", b"a: 1\n", "1: group a is not a mapping."),
        ("more.yml", b"- gpu01\n", "1: an inventory is a mapping of groups"),
        ("more.yml", b"a:\n  hosts: [b]\n", "2: hosts of group a is not a mapping."),
        ("more.yml", b"a:\n  host: {b: {}}\n", "2: group a cannot have host, and Ansible passes"),
        ("more.yml", b"a:\n  b: {}\n", "2: group a cannot have b, and Ansible passes over it."),
        ("more.yml", b"a:\n  hosts: {1: {}}\n", "2: 1 is a number to YAML, not a name."),
        ("more.yml", b"a:\n  hosts: {b: 5}\n", "2: what host b has is not a mapping."),
        ("group_vars/all.yml", b"site_accounts: ada\n", "1: site_accounts is a text (ada), and"),
        ("group_vars/all.yml", b"training_models: 5\n", "1: training_models is a number (5), and"),
        ("group_vars/all.yml", b"trainyard_uid: many\n", "1: trainyard_uid: argument"),
        (
            "group_vars/all.yml",
            b"training_node_uid: 2500\n",
            "1: training_node_uid has the value of trainyard_uid, as other parts have, and another "
            "one would keep runs off. Set trainyard_uid, in group_vars/all/site.yml",
        ),
        ("group_vars/trainers.yml", b"trainyard_uid: 2500\n", "1: trainyard_uid is set for group"),
        (
            "group_vars/all.yml",
            b"docker_engine_users: ada\n",
            "1: docker_engine_users is a text (ada), and must be a list. "
            "roles/docker_engine/README.md says what it holds.",
        ),
        ("group_vars/all.yml", b"local_cluster_size: two\n", "1: local_cluster_size: argument"),
        (
            "group_vars/all.yml",
            b"cifs_mount_shares:\n  - {src: //nas/x, path: /x, unknown: 1}\n",
            "2: cifs_mount_shares.unknown is not a variable of role cifs_mount. roles/",
        ),
        (
            "group_vars/all.yml",
            b"site_accounts:\n  - {name: bob}\n  - {name: ada, shel: '{{ x }}'}\n",
            "3: site_accounts.shel is not a variable of role accounts. Is shell meant?",
        ),
        (
            "group_vars/all.yml",
            b"site_accounts:\n  - {name: ada, sudo: yes}\n",
            "2: site_accounts: ",
        ),
        (
            "group_vars/all.yml",
            b"site_accounts:\n  - {name: ada, uid: '{{ x }}', authorized_keys: [not a key]}\n",
            "2: site_accounts: user ada: 'not a key' of authorized_keys is not a public key",
        ),
        (
            "group_vars/all.yml",
            b"site_accounts: [{name: ada, password_hash: $6$abc$def}]\n",
            "1: site_accounts: user ada: password_hash is not a whole hash.",
        ),
        (
            "group_vars/all.yml",
            b"site_accounts:\n  - {name: ada, uid: 3000}\n  - {name: bob, uid: 3000}\n",
            "3: site_accounts: uid 3000 is listed in line 2 too. Give each its own.",
        ),
        (
            "group_vars/all.yml",
            b"accounts_groups: [{name: Lab}, {name: 3rd, gid: 3000}]\n",
            "1: accounts_groups: '3rd' of 3rd is not the name of a group.",
        ),
    ],
)
def test_names_file_line_and_remedy(
    inventory: Path, file: str, content: bytes, said: str, capsys: Capture
) -> None:
    target = inventory / file
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content)
    lines = files_problems(inventory, capsys)
    assert lines
    assert lines[0].startswith(f"{file}:{said}")
    assert lines[0].count(". ") >= 1, "there is no remedy"


SHARE = "cifs_mount_shares: [{{src: {0}, path: {1}, username: a, password: b, {2}}}]"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("training_run_memory_share: 25", "25.0 must be above 0 and at most 1"),
        ("training_node_ssh_port: 70000", "70000 must be above 0 and at most 65535"),
        ("training_run_grace_seconds: -3", "-3 must be 0 or more and at most 2147483647"),
        ("training_run_copy_megabytes: .inf", "inf must be 0 or more and finite"),
        ("training_node_probe_seconds: 0", "0 must be above 0 and at most 2147483647"),
        ("trainyard_uid: 4294967295", "4294967295 must be above 0 and at most 4294967294"),
        ("trainyard_uid: 0", "0 must be above 0 and at most 4294967294"),
        ("trainyard_root: /", '"/" must be the whole path of a folder for this alone'),
        ("trainyard_root: /home/", '"/home/" must be the whole path of a folder for this alone'),
        ("trainyard_root: ''", '"" must be the whole path of a folder for this alone'),
        ("training_node_data: /srv/../etc", '"/srv/../etc" must be the whole path of a folder'),
        ("trainyard_user: root", '"root" must be an account of its own'),
        ("trainyard_runtime: docker", "value of trainyard_runtime must be one of"),
        ("package_sources_ca: ca.pem", '"ca.pem" must be a whole path'),
        ("docker_engine_repository_key_checksum: sha256:0", '"sha256:0" must be an algorithm and'),
        ("firewall_ssh_ports: [22, 220000]", "220000 must be 0 or more and at most 65535"),
        ("firewall_node_ports: [1024-70000]", "70000 must be 0 or more and at most 65535"),
        ("firewall_node_ports: [http]", '"http" must be a port, or a range such as 1024-2048'),
        ("firewall_open: [{ports: [80], sources: [10.0.0.5/8]}]", "sources 10.0.0.5/8 has host"),
        ("site_accounts: [{name: ada, uid: -5}]", "uid -5 must be 0 or more and at most"),
        ("site_accounts: [{name: ada, shell: zsh}]", 'shell "zsh" must be a whole path'),
        ("site_accounts: [{name: ada, groups: adm}]", "groups adm must be a list"),
        ("training_run_environment: {A B: 1}", "A B must be a name of letters, digits and _"),
        (SHARE.format("nas:/x", "/srv/x", ""), 'src "nas:/x" must be //server/share'),
        (SHARE.format("//nas/x", "/", ""), 'path "/" must be the whole path of a folder'),
        (SHARE.format("//nas/x", "/x", "file_mode: 0644"), "file_mode 420 must be octal and in"),
    ],
)
def test_names_values_that_cannot_be_meant(
    inventory: Path, content: str, said: str, capsys: Capture
) -> None:
    (inventory / "group_vars/all.yml").write_text(f"mine: 1\n{content}\n")
    variable = content.partition(":")[0]
    lines = files_problems(inventory, capsys)
    assert len(lines) == 1
    assert lines[0].startswith(f"group_vars/all.yml:2: {variable}: {said}")


def test_names_values_of_ini_files_and_templates(inventory: Path) -> None:
    """What no node of YAML shows: Ansible tells where it stands."""
    (inventory / "more.ini").write_text(
        "[trainers]\ngpu01 training_run_memory_share=25\n\n[trainers:vars]\n"
        "training_node_ssh_port=70000\ndocker_engine_users=ada\nopenmpi_network=''\n"
        """site_accounts=[{"name": "ada", "shell": "zsh"}]\n"""
    )
    (inventory / "group_vars/trainers.yml").write_text(
        "bad: -3\ntraining_run_grace_seconds: '{{ bad }}'\ntraining_run_secrets: '{{ bad }}'\n"
        "firewall_ssh_ports: ['{{ 7 * 31000 }}', 22]\ndocker_engine_data_root: '{{ later }}'\n"
        'cifs_mount_seconds: \'{{ lookup("pipe", "echo -3") }}\'\n'
        "accounts_groups:\n  - {name: '{{ lab }}'}\n  - {name: '{{ bad }}', gid: -5}\n"
    )
    status, lines = look(inventory, training_node_probe_seconds="0")
    assert status == 2
    assert sorted(line.partition(". roles/")[0] for line in lines) == [
        "group_vars/trainers.yml:2: training_run_grace_seconds: -3 must be 0 or more and at most "
        "2147483647",
        "group_vars/trainers.yml:4: firewall_ssh_ports: 217000 must be 0 or more and at most 65535",
        "group_vars/trainers.yml:9: accounts_groups: gid -5 must be 0 or more and at most "
        "4294967294",
        "hosts gpu01, gpu02: training_node_probe_seconds: 0 must be above 0 and at most 2147483647",
        "more.ini:2: training_run_memory_share: 25.0 must be above 0 and at most 1",
        "more.ini:5: training_node_ssh_port: 70000 must be above 0 and at most 65535",
        "more.ini:6: docker_engine_users is a text (ada), and must be a list",
        'more.ini:8: site_accounts: shell "zsh" must be a whole path',
    ]


@pytest.mark.parametrize("file", ["more.yml", "group_vars/all.yml", "group_vars/trainers"])
def test_names_links_to_nowhere(inventory: Path, file: str, capsys: Capture) -> None:
    (inventory / file).symlink_to("/nowhere")
    assert files_problems(inventory, capsys) == [
        f"{file}: cannot be read: the link leads nowhere. Mend the link or the permissions, or "
        "remove it."
    ]


def test_names_files_that_cannot_be_read(inventory: Path, capsys: Capture) -> None:
    # Root may read every file; the memory of a process begins with nothing, also for root.
    (inventory / "more.yml").symlink_to("/proc/self/mem")
    assert files_problems(inventory, capsys)[0].startswith(
        "more.yml: cannot be read: Input/output error."
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("more", "[trainers]\ngpu03 cluster_address=10.0.0.13\n"),
        ("more.ini", "[trainers]\ngpu03 cluster_address=10.0.0.13\n"),
        ("more", "gpu03\ngpu04\n"),
        ("docker.yml", "plugin: community.docker.docker_containers\n"),
        ("notes.md", "a: [\n"),
        ("group_vars/all.yml", "$ANSIBLE_VAULT;1.1;AES256\n3331\n"),
        ("group_vars/all.yml", "a: &x {b: 1}\nc: {<<: *x, <<: *x}\nd: *x\ne: *x\n"),
        ("group_vars/all.yml", "docker_engine_users: '{{ people }}'\ntrainyard_uid: '2001'\n"),
        ("group_vars/all.yml", "site_accounts: [{name: ada, password_hash: '{{ vault_ada }}'}]\n"),
        ("group_vars/all.yml", "site_accounts: ['{{ ada }}', {<<: {name: bob}, uid: 3001}]\n"),
        ("group_vars/all.yml", "login_shell_users: [{name: '{{ me }}', shell: zsh}]\n"),
        ("group_vars/all.yml", "accounts_groups: [{name: lab, gid: 3000}]\n"),
        ("group_vars/all.yml", "trainyard_root: /data\ntraining_run_share: ''\n"),
        ("group_vars/all.yml", "ansible_become_password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n"),
        ("group_vars/all.yml", ""),
    ],
)
def test_passes_over_what_is_right(
    inventory: Path, file: str, content: str, capsys: Capture
) -> None:
    (inventory / file).write_text(content)
    assert files_problems(inventory, capsys) == []


@pytest.mark.process
def test_names_files_that_ansible_stops_at(inventory: Path) -> None:
    (inventory / "group_vars/trainers.yml").write_text("docker_engine_user: [ada]\n")
    (inventory / "group_vars/gpu_nodes.yml").write_bytes(b"a: \xff\n")
    (inventory / "group_vars/container_hosts.yml").write_text("a: [1\n")
    status, lines = check(inventory, playbook="site.yml")
    assert status == 2
    assert [line.split(": ")[0] for line in lines] == [
        "group_vars/container_hosts.yml:1",
        "group_vars/gpu_nodes.yml:1",
        "group_vars/trainers.yml:1",
    ]


class Machine:
    """A port on this machine that counts who connects, and closes the connection."""

    def __init__(self) -> None:
        self.connections = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # closed
                return
            self.connections += 1
            connection.close()


@pytest.fixture
def machine(inventory: Path) -> Iterator[Machine]:
    """What the hosts of the inventory are reached at."""
    machine = Machine()
    for number, host in enumerate(("gpu01", "gpu02"), start=1):
        address = f"127.0.0.{number}"
        replace(
            inventory / "hosts.yml",
            f"ansible_host: {host}.example.com\n",
            f"ansible_host: {address}\n      ansible_port: {machine.port}\n",
        )
    with machine.socket:
        yield machine


@pytest.mark.process
def test_the_inventory_is_looked_at_once_and_then_machines_are_contacted(
    inventory: Path, machine: Machine
) -> None:
    _, lines = check(inventory, "--tags", "hosts_file", playbook="site.yml")
    looks = [line for line in lines if "inventory_check : Look for mistakes" in line]
    assert len(looks) == 1
    assert machine.connections >= 1


@pytest.mark.process
def test_contacts_nobody_before_it_is_right(inventory: Path, machine: Machine) -> None:
    hosts = inventory / "hosts.yml"
    replace(hosts, "10.0.0.12", "10.0.0.11")
    done = subprocess.run(
        [sys.executable, "-m", "yard", "--inventory", inventory, "verify"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done
    assert f"{hosts}:" in done.stderr
    assert machine.connections == 0
    directory = done.stdout.split()[1]  # Verification verify-<time>
    assert directory.startswith("verify-")
    assert not (CHECKOUT / "runs" / directory).exists()
