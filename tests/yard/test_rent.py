"""Machines are rented, named and given back, at a stand-in for EC2 (`ec2_stand_in`)."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ec2_stand_in
import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import is_trusted_as_template
from ansible.utils.collection_loader import AnsibleCollectionConfig
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from ec2_stand_in import KEY_ID, REGION, SECRET, Call, Ec2, tags_of
from lasting_python import LASTING_PYTHON
from rich.console import Console
from stand_in_nodes import YardHere
from unpacked_sshd import make_key
from yard_command import REPOSITORY, Yard, made

from yard.commands import rent
from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted, RequestError, UnreachableError, YardError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.request.site import Site, list_sites, read_site

SHARED = (
    *("ansible.cfg", "bootstrap.sh", "group_vars", "playbooks", "pyproject.toml"),
    *("requirements.txt", "roles", "site.yml"),
)
SITE = "sites/lab.yml"
TAG = "trainyard:site"
DEADLINE = "trainyard:deadline"
READING = ("Describe", "Get")
# What changes something and makes nothing that has tags.
UNTAGGED = ("AuthorizeSecurityGroupIngress", "CreateTags", "ModifyInstanceAttribute")


@pytest.fixture(scope="session")
def server() -> Iterator[Ec2]:
    with ec2_stand_in.running() as ec2:
        yield ec2


@pytest.fixture
def ec2(server: Ec2) -> Ec2:
    """EC2 in which there is nothing of ours."""
    server.reset()
    return server


@dataclass
class Renter:
    """A person with a checkout, a key and site files."""

    yard: Yard
    ec2: Ec2
    key: Path

    def site(self, stem: str = "lab", **changes: Any) -> Path:
        """Write a site file; None leaves a key out."""
        document = {
            "region": REGION,
            "instance_type": "t3.large",
            "image": {"owner": "099720109477", "name": "ubuntu/images/hvm-ssd/ubuntu-xenial-*"},
            "user": "ubuntu",
            "hours": 8,
            "ssh_key": str(self.key),
            "allowed_sources": ["192.0.2.0/24"],
            "volumes": [{"gigabytes": 30}],
            **changes,
        }
        path = self.yard.root / "sites" / f"{stem}.yml"
        text = yaml.safe_dump({key: value for key, value in document.items() if value is not None})
        path.write_text(text)
        return path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.yard.command(*arguments),
            cwd=self.yard.root,
            env=self.yard.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def inventory(self) -> InventoryManager:
        """What Ansible makes of the inventory that was written."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.ec2.environment().items():
                patch.setenv(name, value)
            # For the plugin that asks EC2
            if AnsibleCollectionConfig.collection_finder is None:
                init_plugin_loader()
            source = str(self.yard.root / "inventory/lab")
            return InventoryManager(loader=DataLoader(), sources=[source])


@pytest.fixture
def renter(tmp_path: Path, ec2: Ec2) -> Renter:
    return make_renter(tmp_path, ec2)


def make_renter(folder: Path, ec2: Ec2) -> Renter:
    root = folder / "checkout"
    (root / "inventory/local").mkdir(parents=True)
    (root / "inventory/local/hosts.yml").write_text("trainers: {hosts: {}}\n")
    (root / "sites").mkdir()
    for name in SHARED:
        (root / name).symlink_to(REPOSITORY / name)
    key = folder / "id_ed25519"
    pair = Ed25519PrivateKey.generate()
    form = (Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    key.write_bytes(pair.private_bytes(*form))
    public = pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    key.with_suffix(".pub").write_bytes(public)
    yard = Yard(root)
    for name in list(yard.environment):
        if name.startswith("AWS_"):
            del yard.environment[name]
    yard.environment |= {**ec2.environment(), **LASTING_PYTHON, "HOME": str(folder)}
    renter = Renter(yard, ec2, key)
    renter.site()
    return renter


@dataclass(frozen=True)
class Story:
    """Spot machines of one site from the first look to the end, beside others."""

    renter: Renter
    said: dict[str, subprocess.CompletedProcess[str]]
    calls: dict[str, list[Call]]
    machines: dict[str, list[dict[str, Any]]]
    inventory: InventoryManager
    rules: list[dict[str, Any]]
    foreign: dict[str, str]
    foreign_left: dict[str, Any]
    left: list[dict[str, Any]]


def plant_foreign(ec2: Ec2) -> dict[str, str]:
    """Machines without our tag or of another site, and things that bear our names without it."""
    client = ec2.client
    image = client.describe_images(Owners=["099720109477"])["Images"][0]["ImageId"]

    def machine(**tags: str) -> str:
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": listed}]} if tags else {}
        started = client.run_instances(ImageId=image, MinCount=1, MaxCount=1, **more)
        return str(started["Instances"][0]["InstanceId"])

    vpc = client.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = client.create_security_group(GroupName="trainyard-lab-2", Description="-", VpcId=vpc)
    client.create_key_pair(KeyName="trainyard-lab")
    return {
        "untagged": machine(),
        "other": machine(**{TAG: "lab2", "Name": "lab2-1"}),
        "namesake": machine(Name="lab-1"),
        "group": group["GroupId"],
        "key": "trainyard-lab",
    }


def look_at_foreign(ec2: Ec2, foreign: dict[str, str]) -> dict[str, Any]:
    states = {instance["InstanceId"]: instance["State"]["Name"] for instance in ec2.instances()}
    tags = {instance["InstanceId"]: tags_of(instance) for instance in ec2.instances()}
    names = [key["KeyName"] for key in ec2.client.describe_key_pairs()["KeyPairs"]]
    groups = [g["GroupId"] for g in ec2.client.describe_security_groups()["SecurityGroups"]]
    return {
        **{name: (states.get(foreign[name]), tags.get(foreign[name])) for name in FOREIGN},
        "group": foreign["group"] in groups,
        "key": foreign["key"] in names,
    }


FOREIGN = ("untagged", "other", "namesake")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, server: Ec2) -> Story:
    """Each command once: they are the expensive part."""
    server.reset()
    renter = make_renter(tmp_path_factory.mktemp("rent"), server)
    renter.site(market="spot", instance_type="g4dn.xlarge", price_per_hour=0.5)
    foreign = plant_foreign(server)
    said, calls, machines = {}, {}, {}

    def do(what: str, *arguments: str) -> None:
        server.calls.clear()
        said[what] = renter(*arguments)
        calls[what] = list(server.calls)
        machines[what] = server.instances("lab")

    do("rented", "provision", SITE, "--count", "2", "--yes")
    inventory = renter.inventory()
    groups = server.client.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["trainyard-lab"]}]
    )["SecurityGroups"]
    do("destroyed", "destroy", SITE, "--yes")
    client = server.client
    things = (
        *(*client.describe_key_pairs()["KeyPairs"], *client.describe_volumes()["Volumes"]),
        *client.describe_security_groups()["SecurityGroups"],
        *(*client.describe_launch_templates()["LaunchTemplates"], *server.groups.values()),
    )
    left = [thing for thing in things if tags_of(thing).get(TAG) == "lab"]
    return Story(
        *(renter, said, calls, machines, inventory, groups[0]["IpPermissions"], foreign),
        look_at_foreign(server, foreign),
        left,
    )


def changes(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.changes]


def check_the_estimate_says_where_its_price_is_from(story: Story) -> None:
    told = story.said["rented"].stdout
    assert "2 x g4dn.xlarge at $0.5000 an hour (price_per_hour of the site file)" in told
    assert "$1.00 an hour, $8.00 until 20" in told
    assert "1 GPU" in told


def check_machines_come_as_the_site_file_says(story: Story) -> None:
    done = story.said["rented"]
    assert done.returncode == 0, done.stdout + done.stderr
    machines = story.machines["rented"]
    assert [tags_of(machine)["Name"] for machine in machines] == ["lab-1", "lab-2"]
    [run] = [call for call in story.calls["rented"] if call.action == "RunInstances"]
    expected = {
        "MinCount": "2",
        "MaxCount": "2",
        "InstanceType": "g4dn.xlarge",
        "LaunchTemplate.LaunchTemplateName": "trainyard-lab",
        "Placement.GroupName": "trainyard-lab",
        "MetadataOptions.HttpTokens": "required",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "30",
        "BlockDeviceMapping.1.Ebs.Encrypted": "true",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "NetworkInterface.1.SubnetId": machines[0]["SubnetId"],
    }
    assert {key: run.parameters.get(key) for key in expected} == expected
    [template] = [call for call in story.calls["rented"] if call.action == "CreateLaunchTemplate"]
    assert template.parameters["LaunchTemplateData.InstanceMarketOptions.MarketType"] == "spot"
    deadlines = {tags_of(machine)[DEADLINE] for machine in machines}
    moment = datetime.strptime(deadlines.pop(), "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC)
    assert not deadlines
    assert abs(moment - datetime.now(UTC) - timedelta(hours=8)) < timedelta(minutes=15)


def check_nothing_is_made_without_the_tag(story: Story) -> None:
    made = {
        call.action: call.tags() for call in story.calls["rented"] if call.action not in UNTAGGED
    }
    made = {action: tags for action, tags in made.items() if not action.startswith(READING)}
    assert sorted(made) == [
        *("CreateLaunchTemplate", "CreatePlacementGroup", "CreateSecurityGroup"),
        *("ImportKeyPair", "RunInstances"),
    ]
    for action, tags in made.items():
        assert tags, action
        for kind, given in tags.items():
            assert given.get(TAG) == "lab", f"{action} {kind}"
    assert set(made["RunInstances"]) == {"instance", "volume"}


def check_the_security_group_opens_nothing_else(story: Story) -> None:
    [ssh] = [rule for rule in story.rules if rule["IpProtocol"] == "tcp"]
    [among] = [rule for rule in story.rules if rule["IpProtocol"] != "tcp"]
    assert (ssh["FromPort"], ssh["ToPort"]) == (22, 22)
    assert [entry["CidrIp"] for entry in ssh["IpRanges"]] == ["192.0.2.0/24"]
    assert not ssh.get("Ipv6Ranges")
    assert not ssh.get("UserIdGroupPairs")
    assert among["IpProtocol"] == "-1"
    assert not among["IpRanges"]
    assert not among.get("Ipv6Ranges")
    groups = {g["GroupId"] for m in story.machines["rented"] for g in m["SecurityGroups"]}
    assert {pair["GroupId"] for pair in among["UserIdGroupPairs"]} == groups
    assert len(groups) == 1


def check_the_private_key_stays_here(story: Story) -> None:
    private = story.renter.key.read_text().splitlines()[1]
    assert not [c for c in story.calls["rented"] for v in c.parameters.values() if private in v]


def check_the_inventory_works_as_it_is(story: Story) -> None:
    groups = story.inventory.get_groups_dict()
    assert sorted(groups["trainers"]) == sorted(groups["gpu_nodes"]) == ["lab-1", "lab-2"]
    of_one = story.inventory.get_host("lab-1").vars
    machine = story.machines["rented"][0]
    for name, key in (("ansible_host", "PublicIpAddress"), ("cluster_address", "PrivateIpAddress")):
        assert of_one[name] == machine[key]
        assert not is_trusted_as_template(of_one[name])
    of_all = story.inventory.groups["trainers"].vars
    assert of_all["cluster_network"] == "172.31.0.0/20"
    assert of_all["ansible_user"] == "ubuntu"
    assert of_all["ansible_ssh_private_key_file"] == str(story.renter.key)


def check_destroy_removes_what_carries_the_tag_and_nothing_else(story: Story) -> None:
    done = story.said["destroyed"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Asked again: nothing in eu-central-1 carries the tag trainyard:site=lab" in done.stdout
    assert story.left == []
    assert story.machines["destroyed"] == []
    assert story.foreign_left == {
        "untagged": ("running", {}),
        "other": ("running", {TAG: "lab2", "Name": "lab2-1"}),
        "namesake": ("running", {"Name": "lab-1"}),
        "group": True,
        "key": True,
    }
    assert sorted({call.action for call in changes(story.calls["destroyed"])}) == [
        *("DeleteKeyPair", "DeleteLaunchTemplate", "DeletePlacementGroup", "DeleteSecurityGroup"),
        "TerminateInstances",
    ]
    assert not (story.renter.yard.root / "inventory/lab").exists()


def check_credentials_are_seen_nowhere(story: Story) -> None:
    texts = [done.stdout + done.stderr for done in story.said.values()]
    root = story.renter.yard.root
    files = [path for path in root.rglob("*") if path.is_file() and REPOSITORY not in path.parents]
    assert any(path.suffix == ".log" for path in files)
    texts += [path.read_text(errors="replace") for path in files]
    assert not [text for text in texts if SECRET in text or KEY_ID in text]


CHECKS = (
    check_the_estimate_says_where_its_price_is_from,
    check_machines_come_as_the_site_file_says,
    check_nothing_is_made_without_the_tag,
    check_the_security_group_opens_nothing_else,
    check_the_private_key_stays_here,
    check_the_inventory_works_as_it_is,
    check_destroy_removes_what_carries_the_tag_and_nothing_else,
    check_credentials_are_seen_nowhere,
)


@pytest.mark.process
@pytest.mark.promise("row 32", "make provision", "make destroy")
def test_a_site_from_the_first_look_to_the_end(story: Story) -> None:
    """One test, for `make test` runs the one that is the proof of the promises."""
    for check in CHECKS:
        check(story)


def write_inventory(renter: Renter, name: str = "lab", region: str = REGION) -> Path:
    """Leave the files that `make provision` writes."""
    folder = renter.yard.root / "inventory" / name
    folder.mkdir(parents=True)
    (folder / "groups.yml").write_text(f"---\n# Written by `make provision` for the site {name}.\n")
    (folder / "known_hosts.txt").write_text("")
    source = folder / "machines.aws_ec2.yml"
    source.write_text(f"---\nplugin: amazon.aws.aws_ec2\nregions: [{region}]\n")
    return source


@pytest.fixture
def asked(renter: Renter, monkeypatch: pytest.MonkeyPatch) -> "Asked":
    """The same person's commands in this process, with what is found at EC2 given."""
    asked = Asked(YardHere(renter.yard.root))
    asked.yard.environment = renter.yard.environment

    def found(context: Context, scope: object) -> list[dict[str, Any]]:
        return asked.things

    for look in ("look_for_things", "look_for_machines"):
        monkeypatch.setattr(rent, look, found)
    monkeypatch.setattr(rent, "look_for_plan", lambda context, extravars: PLAN)
    monkeypatch.setattr(rent, "make_machines", lambda *_: asked.done.append("make"))
    monkeypatch.setattr(rent, "remove_things", lambda *_: asked.done.append("remove"))
    return asked


@dataclass
class Asked:
    """What is there, and what was done."""

    yard: YardHere
    things: list[dict[str, Any]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.yard(*arguments)


# Two machines are to be made.
PLAN = {
    **{"keep": [], "remove": [], "prolong": [], "make": ["lab-1", "lab-2"]},
    **{"deadline": "2030-01-01T00:00Z", "hours": 8.0, "zone": "eu-central-1a"},
    **{"image_id": "ami-1", "image_name": "xenial"},
    "devices": [{"device_name": "/dev/sda1", "ebs": {"volume_size": 30, "volume_type": "gp3"}}],
    "offer": {"gpus": 0, "vcpus": 2, "memory_mib": 8192, "price": None, "source": "nobody says"},
}


def machine(name: str, site: str = "lab", overdue: bool = False) -> dict[str, Any]:
    """One of a site, as module ec2_machines_tagged tells it."""
    found = {"type": "instance", "id": f"i-{name}", "name": name, "site": site, "region": REGION}
    return {**found, "state": "running", "overdue": overdue}


@pytest.mark.parametrize("command", [("destroy",), ("provision", "--count", "2")])
def test_machines_of_another_region_are_not_forgotten(
    renter: Renter, asked: Asked, command: tuple[str, ...]
) -> None:
    """Somebody gave the site file another region while machines are rented."""
    source = write_inventory(renter, region="eu-west-1")
    done = asked(command[0], SITE, *command[1:], "--yes")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "sites/lab.yml: region: is eu-central-1, and inventory/lab/machines.aws" in done.stderr
    assert "machines in eu-west-1: give sites/lab.yml that region and make destroy" in done.stderr
    assert asked.done == []
    source.write_text("---\nregions:\n")
    assert "does not say in which region" in asked(command[0], SITE, *command[1:], "--yes").stderr
    assert source.is_file()


def test_machines_that_other_credentials_do_not_show_are_not_forgotten(
    renter: Renter, asked: Asked
) -> None:
    source = write_inventory(renter)
    done = asked("destroy", SITE, "--yes")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "is AWS_PROFILE that of make provision?" in done.stderr
    assert "rm inventory/lab/machines.aws_ec2.yml" in done.stderr
    assert sorted(entry.name for entry in source.parent.iterdir()) == [
        *("groups.yml", "known_hosts.txt", "machines.aws_ec2.yml"),
    ]
    # Who knows that nothing is there any more says so.
    source.unlink()
    done = asked("destroy", SITE, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There is nothing to remove" in done.stdout
    assert not source.parent.exists()


def test_nothing_is_rented_without_an_answer(asked: Asked) -> None:
    done = asked("provision", SITE, "--count", "2")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Rent 2 machines? There is no terminal to answer on" in done.stderr
    assert "YES=1" in done.stderr
    assert asked.done == []
    assert asked("provision", SITE, "--count", "2", "--yes").returncode == 0
    assert asked.done == ["make"]


def test_where_nothing_costs_nothing_is_asked(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rent, "look_for_plan", lambda *_: {**PLAN, "make": []})
    done = asked("provision", SITE, "--count", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing to change." in done.stdout


@pytest.mark.promise("make provision-check")
def test_forgotten_machines_are_named(asked: Asked) -> None:
    asked.things = [machine("lab-1", overdue=True), machine("lab2-1", "lab2", overdue=True)]
    done = asked("provision-check", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    document = json.loads(done.stdout)
    overdue = {machine["name"]: machine["overdue"] for machine in document["machines"]}
    assert overdue == {"lab-1": True, "lab2-1": True}
    # The other site has no site file here.
    assert sorted(document["commands"]) == [
        f"aws ec2 terminate-instances --instance-ids i-lab2-1 --region {REGION}",
        "make destroy SITE=sites/lab.yml",
    ]
    assert "make destroy SITE=sites/lab.yml" in asked("provision-check").stdout


def test_destroy_asks_first(asked: Asked) -> None:
    asked.things = [machine("lab-1")]
    done = asked("destroy", SITE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Remove 1 thing, 1 machine of them" in done.stderr
    assert asked.done == []


def test_a_mistake_in_one_site_file_hides_no_machines_of_others(
    renter: Renter, asked: Asked
) -> None:
    """And a key is needed for renting alone."""
    renter.site(ssh_key="/nowhere/key")
    renter.site("bad", hours=None)
    asked.things = [machine("lab2-1", "lab2", overdue=True)]
    done = asked("provision-check", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert [machine["id"] for machine in document["machines"]] == ["i-lab2-1"]
    assert document["problems"] == ["sites/bad.yml: hours: is missing"]
    asked.things = []
    done = asked("provision-check")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Nothing in eu-central-1 is past its deadline." in done.stdout
    assert done.stderr == "yard: sites/bad.yml: hours: is missing\n"
    done = asked("destroy", SITE, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr


MISTAKES = {
    "region": (1, "region: must be a region of AWS"),
    "instance_type": (None, "instance_type: is missing"),
    "hours": (2000, "hours: must be hours, from 0.1 to 744, not 2000"),
    "market": ("cheap", "market: must be on-demand or spot, not 'cheap'"),
    "image": ({"owner": 99720109477}, "image: owner: must be 12 digits in quotation marks"),
    "ssh_key": ("/nowhere/key", "there is no /nowhere/key.pub: ssh-keygen -t ed25519"),
    "allowed_sources": (["0.0.0.0/0"], "must not be 0.0.0.0/0, which is everybody"),
    "subnet": ("10.0.0.0/24", "subnet: must be the id of a subnet"),
    "placement_group": ("yes", "placement_group: must be true or false"),
    "volumes": ([{"type": "gp9"}], "volumes: disk 1: must have gigabytes"),
    "tags": ({"trainyard:site": "x"}, "tags: trainyard:site is taken"),
    "instance_typ": ("t3.large", "instance_typ: unknown; there are name, region"),
    "name": ("local", "name: must not be example or local"),
    "user": ("Admin!", "user: must be the name of an account"),
    "price_per_hour": ("1 $", "price_per_hour: must be US dollars"),
}


@pytest.mark.parametrize("kind", [Interrupted, ClusterError, UnreachableError])
def test_a_command_that_does_not_come_to_its_end_says_what_may_cost(
    tmp_path: Path, kind: type[YardError]
) -> None:
    project = Project(tmp_path)
    context = Context(project, tmp_path, Console(), Interrupts())
    (tmp_path / "sites").mkdir()
    file = tmp_path / "sites/lab.yml"
    file.write_text("region: eu-central-1\ninstance_type: t3.large\nhours: 8\n")
    site = read_site(project, file)
    with pytest.raises(kind) as said, rent._costs_are_said(context, site):
        raise kind("it ended; log has what was done")
    assert "make destroy SITE=sites/lab.yml gives them back" in str(said.value)


def test_all_mistakes_of_a_site_file_are_named_at_once(renter: Renter, asked: Asked) -> None:
    mistaken: dict[str, Any] = {key: value for key, (value, _) in MISTAKES.items()}
    renter.site(**mistaken)
    done = asked("provision", SITE, "--count", "2", "--yes")
    assert done.returncode == 2
    for key, (_, words) in MISTAKES.items():
        assert words in done.stderr, f"{key}: {done.stderr}"
    assert done.stderr.count("sites/lab.yml: ") == len(MISTAKES)
    assert asked.done == []


def test_a_site_has_no_folder_of_trainyard_s_own(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "sites").mkdir()
    text = "region: eu-central-1\ninstance_type: t3.large\nhours: 8\n"
    taken = tmp_path / "sites/bundle.yml"
    taken.write_text(text)
    with pytest.raises(RequestError, match=r"must not be bundle: \.trainyard/bundle is"):
        read_site(project, taken)
    # The name decides, and not the file's.
    (tmp_path / "sites/data.yml").write_text(f"{text}name: lab\n")
    sites, problems = list_sites(project)
    assert [site.name for site in sites] == ["lab"]
    assert len(problems) == 1


def test_both_endings_of_yaml_are_site_files(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    for name in ("lab.yml", "big.yaml", "example.yml", "lab.yml~", ".lab.yml.swp"):
        text = "region: eu-central-1\ninstance_type: t3.large\nhours: 8\n"
        (tmp_path / "sites" / name).write_text(text)
    sites, problems = list_sites(Project(tmp_path))
    assert [site.path.name for site in sites] == ["big.yaml", "lab.yml"]
    assert problems == []


def test_the_request_is_checked_before_anything_is_asked(renter: Renter, asked: Asked) -> None:
    (renter.yard.root / "inventory/lab").mkdir()
    (renter.yard.root / "inventory/lab/hosts.yml").write_text("trainers: {hosts: {}}\n")
    done = asked("provision", SITE, "--count", "0", "--hours", "0", "--yes")
    assert done.returncode == 2
    for words in ("COUNT=0: must be from 1 to 256; make destroy", "HOURS=0: must be from 0.1"):
        assert words in done.stderr
    assert "inventory/lab is an inventory of your own (hosts.yml)" in done.stderr
    missing = asked("destroy", "sites/none.yml", "--yes")
    assert missing.returncode == 2
    assert "SITE=sites/none.yml: there is no such file; copy sites/example.yml" in missing.stderr
    assert asked.done == []


def test_settings_that_destroy_left_are_no_inventory_of_somebody_else(
    renter: Renter, asked: Asked
) -> None:
    (renter.yard.root / "inventory/lab/group_vars").mkdir(parents=True)
    (renter.yard.root / "inventory/lab/host_vars").mkdir()
    done = asked("provision", SITE, "--count", "2")
    assert "Rent 2 machines? There is no terminal" in done.stderr, done.stdout + done.stderr
    done = asked("destroy", SITE, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (renter.yard.root / "inventory/lab/group_vars").is_dir()


@pytest.mark.process
def test_the_example_is_a_site_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, and with every line that is commented out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    make_key(tmp_path / ".ssh/id_ed25519")
    text = (REPOSITORY / "sites/example.yml").read_text()
    plain, _, options = text.partition("# All below may be left out")
    path = tmp_path / "lab.yml"
    path.write_text(plain)
    assert read_site(Project(REPOSITORY), path).hours == 8
    said = "\n".join(line.removeprefix("# ").removeprefix("#") for line in options.splitlines()[1:])
    path.write_text(plain + said)
    site = read_site(Project(REPOSITORY), path)
    assert site.market == "on-demand"
    assert {key for key, value in vars(site).items() if value is None} == set()


def test_what_the_role_takes_is_what_a_site_file_says() -> None:
    """Each key reaches a variable that the role declares."""
    specs = REPOSITORY / "roles/ec2_machines/meta/argument_specs.yml"
    options = yaml.safe_load(specs.read_text())["argument_specs"]["present"]["options"]
    site = Site(
        **{field.name: None for field in fields(Site)}  # type: ignore[arg-type]
        | {"image": {"owner": "1", "name": "2"}, "path": Path("/x")}
    )
    said = dict.fromkeys(vars(site), 1) | {"image": site.image, "path": site.path}
    assert set(Site(**said).extravars()) <= set(options)  # type: ignore[arg-type]


@pytest.mark.process
@pytest.mark.parametrize(
    ("target", "command"),
    [
        (
            ("provision", "SITE=sites/lab.yml", "COUNT=2", "HOURS=4", "YES=1"),
            "provision 'sites/lab.yml' --count='2' --hours='4' --yes",
        ),
        (("destroy", "SITE=sites/lab.yml", "YES=1"), "destroy 'sites/lab.yml' --yes"),
        (("provision-check", "SITE=a.yml", "JSON=1"), "provision-check 'a.yml' --json"),
        (("provision-check",), "provision-check"),
    ],
)
def test_the_targets_of_make(target: tuple[str, ...], command: str) -> None:
    assert " ".join(made(*target).replace("\\\n", " ").split()).endswith(command)
