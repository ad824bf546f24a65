"""What role ec2_machines decides, and what it reads from EC2; nothing here asks anybody."""

import json
import os
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.ec2_machines_planning import (
    DEADLINE,
    PlanError,
    devices_of,
    is_overdue,
    plan,
)
from ansible_here import LOADER, Host, module_answer, tasks_of
from role_files import ROLES

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
LIBRARY = ROLES / "ec2_machines/library"
KNOWN_HOSTS = SimpleNamespace(**runpy.run_path(str(LIBRARY / "ec2_machines_known_hosts.py")))
OFFER = SimpleNamespace(**runpy.run_path(str(LIBRARY / "ec2_machines_offer.py")))
SUBNETS = [
    {
        "subnet_id": f"subnet-{zone}",
        "vpc_id": "vpc-1",
        "cidr_block": f"10.0.{number}.0/24",
        "availability_zone": f"eu-central-1{zone}",
    }
    for number, zone in enumerate("ab")
]
IMAGES = [
    {"image_id": "ami-old", "creation_date": "2026-01-01", "root_device_name": "/dev/xvda"},
    {"image_id": "ami-new", "creation_date": "2026-10-01", "root_device_name": "/dev/sda1"},
]


def machine(number: int, name: str | None = None, **changes: Any) -> dict[str, Any]:
    tags = {DEADLINE: "2026-11-24T20:00Z", "Name": f"lab-{number}" if name is None else name}
    return {
        "instance_id": f"i-{number}",
        "instance_type": "g5.2xlarge",
        "image_id": "ami-old",
        "subnet_id": "subnet-b",
        "state": {"name": "running"},
        "public_ip_address": f"192.0.2.{number}",
        "tags": {key: value for key, value in tags.items() if value},
        **changes,
    }


def planned(*instances: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked = {
        "site": "lab",
        "count": 2,
        "hours": 4.0,
        "prolong": False,
        "instance_type": "g5.2xlarge",
        "market": "on-demand",
        "image": "1/debian-*",
        "images": IMAGES,
        "subnets": SUBNETS,
        "zones": ["eu-central-1a", "eu-central-1b"],
        "volumes": [{"gigabytes": 100}],
        "instances": list(instances),
        "offer": {"price": 1.0},
    }
    found: dict[str, Any] = plan({**asked, **changes}, NOW)
    return found


def test_an_empty_site_gets_the_newest_image_in_the_first_zone_that_has_the_type() -> None:
    found = planned(zones=["eu-central-1b"])
    assert found["make"] == ["lab-1", "lab-2"]
    assert (found["image_id"], found["subnet"]) == ("ami-new", "subnet-b")
    assert found["network"] == "10.0.1.0/24"
    assert (found["deadline"], found["hours"]) == ("2026-11-24T16:00Z", 4.0)
    assert found["devices"][0]["device_name"] == "/dev/sda1"
    assert planned()["subnet"] == "subnet-a"


def test_a_site_that_is_as_asked_stays() -> None:
    found = planned(machine(1), machine(2))
    assert [found[key] for key in ("make", "remove", "prolong", "nameless")] == [[], [], [], []]
    assert [kept["name"] for kept in found["keep"]] == ["lab-1", "lab-2"]
    assert found["deadline"] == "2026-11-24T20:00Z"


def test_machines_that_join_take_free_numbers_and_what_the_others_have() -> None:
    found = planned(machine(3), machine(1), count=4)
    assert found["make"] == ["lab-2", "lab-4"]
    assert found["image_id"] == "ami-old"
    assert found["deadline"] == "2026-11-24T20:00Z"


def test_an_image_that_is_no_longer_published_is_used_on() -> None:
    assert planned(machine(1), images=[])["image_id"] == "ami-old"


def test_those_with_the_largest_numbers_go() -> None:
    found = planned(machine(10), machine(2), machine(9), count=1)
    assert [gone["id"] for gone in found["remove"]] == ["i-9", "i-10"]
    assert [kept["name"] for kept in found["keep"]] == ["lab-2"]
    started, given_back = (
        task for task in tasks_of("ec2_machines", "make") if "amazon.aws.ec2_instance" in task
    )
    host = Host("ec2_machines", {"ec2_machines_plan": found})
    asked = given_back["amazon.aws.ec2_instance"]
    assert (asked["state"], host.template(asked["instance_ids"])) == ("absent", ["i-9", "i-10"])
    assert not host.value(started["when"])
    assert host.value(given_back["when"])


@pytest.mark.parametrize("name", ["", "web", "lab-x", "lab-01", "lab-0", "other-1"])
def test_a_machine_without_a_name_of_the_site_gets_one(name: str) -> None:
    found = planned(machine(1), machine(7, name))
    assert (found["nameless"], found["names"]) == (["i-7"], ["lab-2"])
    assert found["make"] == []


def test_more_time_is_for_all_that_stay() -> None:
    found = planned(machine(1), machine(2), machine(3), prolong=True, hours=1.0)
    assert (found["deadline"], found["prolong"]) == ("2026-11-24T13:00Z", ["i-1", "i-2"])


def test_machines_join_no_others_that_are_past_their_deadline() -> None:
    """They would be overdue from the start."""
    late = machine(1)
    late["tags"][DEADLINE] = "2026-11-24T12:00Z"
    with pytest.raises(PlanError, match=r"deadline: that of the machines .* is past: HOURS= gives"):
        planned(late)
    assert planned(late, prolong=True)["make"] == ["lab-2"]
    assert planned(late, count=1)["make"] == []


def test_a_machine_whose_deadline_somebody_removed_gets_that_of_the_others() -> None:
    bare = machine(2)
    del bare["tags"][DEADLINE]
    assert planned(machine(1), bare)["prolong"] == ["i-2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance_type": "t3.micro"}, "instance_type: lab-1 is t3.micro, and the site file says"),
        ({"instance_lifecycle": "spot"}, "market: lab-1 is spot, and the site file says on-demand"),
    ],
)
def test_machines_of_two_kinds_are_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        planned(machine(1, **changes))


def test_what_ec2_does_not_have_is_said() -> None:
    with pytest.raises(PlanError, match="image: EC2 has none for 1/debian-"):
        planned(images=[])
    with pytest.raises(PlanError, match=r"subnet: EC2 has no g5\.2xlarge in eu-central-1a, eu-"):
        planned(zones=["eu-central-1c"])


def test_disks_are_encrypted_and_go_with_the_machine() -> None:
    volumes = [{"gigabytes": 30, "type": None}, {"gigabytes": 500, "type": "io2", "iops": 9000}]
    [system, data] = devices_of(volumes, "/dev/xvda")
    kept = {"encrypted": True, "delete_on_termination": True}
    assert system["ebs"] == {"volume_size": 30, "volume_type": "gp3", **kept}
    assert data["device_name"] == "/dev/sdf"
    assert data["ebs"] == {"volume_size": 500, "volume_type": "io2", "iops": 9000, **kept}


@pytest.mark.parametrize(
    ("deadline", "overdue"),
    [
        ("2026-11-24T12:01Z", False),
        ("2026-11-24T11:59Z", True),
        ("tomorrow", True),
        ("", True),
        (None, True),
    ],
)
def test_past_the_deadline(deadline: str | None, overdue: bool) -> None:
    assert is_overdue(deadline, NOW) is overdue


def test_host_keys_are_those_that_cloud_init_printed_first() -> None:
    block = "-----BEGIN SSH HOST KEY KEYS-----\n{}\n-----END SSH HOST KEY KEYS-----\n"
    # As cloud-init prints it, and later a program of the machine.
    console = (
        "[   12.3] cloud-init: 256 SHA256:abc root@ip (ED25519)\n"
        + block.format("ecdsa-sha2-nistp256 AAAAE2Vj root@ip\nssh-ed25519 AAAAC3Nz root@ip")
        + block.format("ssh-ed25519 AAAAevil root@ip")
    )
    keys = KNOWN_HOSTS.keys_on(console)
    assert keys == ["ecdsa-sha2-nistp256 AAAAE2Vj", "ssh-ed25519 AAAAC3Nz"]
    assert KNOWN_HOSTS.keys_on(console.partition("-----END")[0]) == []
    about = {"instance_id": "i-1", "public_ip_address": "192.0.2.1"}
    about["private_ip_address"] = "10.0.0.1"
    assert KNOWN_HOSTS.pins(about, keys[1:]) == ["192.0.2.1,10.0.0.1 ssh-ed25519 AAAAC3Nz i-1"]


def test_machines_without_host_keys_are_said_to_cost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Failed(Exception):
        pass

    def fail(**said: Any) -> None:
        raise Failed(said["msg"])

    module = SimpleNamespace(
        params={"path": str(tmp_path / "known"), "instances": [machine(1)], "patience": 0},
        check_mode=False,
        client=lambda service: SimpleNamespace(get_console_output=lambda **asked: {}),
        fail_json=fail,
    )
    known = KNOWN_HOSTS.main.__globals__
    monkeypatch.setitem(known, "AnsibleAWSModule", lambda **options: module)
    with pytest.raises(Failed, match=r"i-1 shows no SSH .* run and cost: make destroy gives them"):
        KNOWN_HOSTS.main()


def test_a_machine_that_was_stopped_and_started_keeps_its_host_keys() -> None:
    """It has another address then, and a console without keys."""
    about = {"instance_id": "i-1", "private_ip_address": "10.0.0.1"}
    keys = ["ecdsa-sha2-nistp256 AAAAE2Vj", "ssh-ed25519 AAAAC3Nz"]
    other = {"instance_id": "i-11", "public_ip_address": "192.0.2.11"}
    stopped = KNOWN_HOSTS.kept_pins(
        KNOWN_HOSTS.pins(other, ["ssh-ed25519 AAAAother"])
        + KNOWN_HOSTS.pins({**about, "public_ip_address": "192.0.2.1"}, keys),
        about,
    )
    assert stopped == [f"10.0.0.1 {key} i-1" for key in keys]
    started = KNOWN_HOSTS.kept_pins(stopped, {**about, "public_ip_address": "192.0.2.9"})
    assert started == [f"192.0.2.9,10.0.0.1 {key} i-1" for key in keys]
    assert KNOWN_HOSTS.kept_pins(stopped, {**about, "instance_id": "i-2"}) == []


def test_the_price_is_that_of_an_hour() -> None:
    def product(*dimensions: dict[str, Any]) -> str:
        prices = {str(number): entry for number, entry in enumerate(dimensions)}
        return json.dumps({"terms": {"OnDemand": {"S.J": {"priceDimensions": prices}}}})

    hour = {"unit": "Hrs", "pricePerUnit": {"USD": "1.2120000000"}}
    once = {"unit": "Quantity", "pricePerUnit": {"USD": "99.0"}}
    assert OFFER.price_in([product(hour, once)]) == 1.212
    # A product of no price, of which there are some, makes no machine free.
    free = {"unit": "Hrs", "pricePerUnit": {"USD": "0.0000000000"}}
    assert OFFER.price_in([product(free)]) is None
    assert OFFER.price_in([]) is None


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Unable to locate credentials", "set AWS_PROFILE"),
        ('Could not connect to the endpoint URL: "https://ec2.example/"', "set HTTPS_PROXY."),
    ],
)
def test_the_remedy_is_that_of_what_aws_said(said: str, remedy: str) -> None:
    (task,) = tasks_of("ec2_machines", "refused")
    host = Host("ec2_machines", {"ansible_failed_result": {"msg": said}, **task["vars"]})
    shown = host.template(task["ansible.builtin.fail"]["msg"])
    assert shown.startswith(said)
    assert remedy in shown
    assert ("AWS_PROFILE" in shown) != ("HTTPS_PROXY" in shown)


def test_without_credentials_aws_is_not_asked_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    asked = {"region": "eu-central-1", "site": "lab"}
    answer = module_answer("ec2_machines", "ec2_machines_tagged", **asked)
    assert answer["failed"]
    assert "Unable to locate credentials" in answer["msg"]
    # Whoever asks says how it does.
    for name in ("absent", "check", "look"):
        (looks,) = (
            task
            for task in LOADER.load_from_file(str(ROLES / f"ec2_machines/tasks/{name}.yml"))
            if "rescue" in task
        )
        assert "refused" in str(looks["rescue"])


def test_here_is_the_address_that_this_machine_is_seen_from() -> None:
    [task] = [
        task
        for task in tasks_of("ec2_machines", "access")
        if "amazon.aws.ec2_security_group" in task
    ]

    def sources(seen: str) -> tuple[list[str], list[str]]:
        told = {"status": 200, "content": f"{seen}\n"}
        host = Host("ec2_machines", {"ec2_machines_here": told, **task["vars"]})
        ssh, _ = task["amazon.aws.ec2_security_group"]["rules"]
        return host.template(ssh["cidr_ip"]), host.template(ssh["cidr_ipv6"])

    assert sources("198.51.100.7") == (["198.51.100.7/32"], [])
    assert sources("2001:db8::7") == ([], ["2001:db8::7/128"])
    silent = {"ec2_machines_here": {"status": -1, "msg": "<urlopen error timed out>"}}
    said = Host("ec2_machines", silent).refused("access")
    assert "does not say with which address this machine is seen: <urlopen error timed out>" in said
    assert "No machine was rented. Write the address into allowed_sources" in said


def test_machines_that_came_while_the_question_was_open_are_not_doubled() -> None:
    """Somebody else has rented for the same site: what was agreed to is another matter now."""
    agreed = planned(count=1)
    still = {"ec2_machines_still": {"instances": [machine(1)]}}
    given = {"ec2_machines_plan": agreed, "ec2_machines_agreed": agreed, **still}
    said = Host("ec2_machines", given).refused("make")
    assert "machines of the site have changed since you were asked" in said
    names = [task["name"] for task in tasks_of("ec2_machines", "make")]
    looks = names.index("See that they are those of the plan that was agreed to")
    assert looks < min(names.index("Start machines"), names.index("Give machines back"))
    still["ec2_machines_still"]["instances"].clear()
    assert Host("ec2_machines", {**given, **still}).refused("make") == ""
