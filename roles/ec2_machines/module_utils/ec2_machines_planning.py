"""What is to be made and what goes, so that a site has as many machines as were asked for."""

import string
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

DEADLINE = "trainyard:deadline"
FORM = "%Y-%m-%dT%H:%MZ"
# Names of the disks behind the first one, as EC2 recommends them.
FURTHER_DEVICES = tuple(f"/dev/sd{letter}" for letter in string.ascii_lowercase[5:16])

Instance = Mapping[str, Any]


class PlanError(Exception):
    """There is no way to what was asked for; the message has the remedy."""


def parse_deadline(text: str | None) -> datetime | None:
    """Read a deadline; None where there is none that can be read."""
    try:
        return datetime.strptime(text or "", FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def write_deadline(moment: datetime) -> str:
    """Write a moment in UTC, to the minute."""
    return moment.astimezone(UTC).strftime(FORM)


def is_overdue(deadline: str | None, now: datetime) -> bool:
    """Whether a machine is past its deadline; one without a deadline that can be read is."""
    moment = parse_deadline(deadline)
    return moment is None or moment < now


def number_of(site: str, name: str) -> int | None:
    """The number in a machine's name; None where it is no name of this site's machines."""
    head, _, tail = name.rpartition("-")
    is_number = tail.isascii() and tail.isdigit() and not tail.startswith("0")
    return int(tail) if head == site and is_number else None


def newest_image(images: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any]:
    """The newest of some images.

    Raises:
        PlanError: there is none.
    """
    if not images:
        raise PlanError(
            f"image: EC2 has none for {wanted} and the type's architecture in this region: correct "
            "owner and name of image in the site file"
        )
    return max(images, key=lambda image: (image["creation_date"], image["image_id"]))


def devices_of(volumes: Sequence[Mapping[str, Any]], root: str) -> list[dict[str, Any]]:
    """Disks as amazon.aws.ec2_instance takes them.

    Args:
        root: the name that the image gives the system's disk.
    """
    devices = []
    for name, volume in zip((root, *FURTHER_DEVICES), volumes, strict=False):
        ebs = {
            "volume_size": volume["gigabytes"],
            "volume_type": volume.get("type") or "gp3",
            "encrypted": True,
            "delete_on_termination": True,
        }
        ebs |= {key: volume[key] for key in ("iops", "throughput") if volume.get(key)}
        devices.append({"device_name": name, "ebs": ebs})
    return devices


def plan(asked: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Compute what is to be done.

    Args:
        asked: the options of module ec2_machines_plan.

    Raises:
        PlanError: machines that are there differ from what is asked for or are past their deadline
            where others are to join, or there is no image or no subnet.
    """
    site, instances = asked["site"], asked["instances"]
    _refuse_others(instances, asked["instance_type"], asked["market"])
    numbers = {
        instance["instance_id"]: number_of(site, instance["tags"].get("Name", ""))
        for instance in instances
    }
    nameless = [identity for identity, number in numbers.items() if number is None]
    free = _free_numbers({number for number in numbers.values() if number is not None})
    names = {identity: f"{site}-{next(free)}" for identity in nameless}
    names |= {identity: f"{site}-{number}" for identity, number in numbers.items() if number}
    surplus = max(0, len(instances) - asked["count"])
    by_number = sorted(instances, key=lambda instance: _order(names[instance["instance_id"]]))
    kept = by_number[: len(by_number) - surplus]
    making = max(0, asked["count"] - len(instances))
    deadline, prolong = _deadline(asked, kept, now)
    if making and deadline <= now:
        # They would be overdue from the start, and their estimate would be nothing.
        raise PlanError(
            "deadline: that of the machines that are there is past: HOURS= gives all of them a new "
            "one"
        )
    image = _image(asked)
    subnet = _subnet(asked)
    return {
        "make": [f"{site}-{next(free)}" for _ in range(making)],
        "remove": [_shown(instance, names) for instance in by_number[len(kept) :]],
        "keep": [_shown(instance, names) for instance in kept],
        "prolong": prolong,
        "nameless": nameless,
        "names": [names[identity] for identity in nameless],
        "deadline": write_deadline(deadline),
        "hours": max(0.0, (deadline - now).total_seconds() / 3600),
        "image_id": image["image_id"],
        "image_name": image.get("name", ""),
        "devices": devices_of(asked["volumes"], image.get("root_device_name") or "/dev/xvda"),
        "subnet": subnet["subnet_id"],
        "vpc": subnet["vpc_id"],
        "network": subnet["cidr_block"],
        "zone": subnet["availability_zone"],
        "offer": asked["offer"],
    }


def _refuse_others(instances: Sequence[Instance], instance_type: str, market: str) -> None:
    """Refuse to mix machines, which would train at the pace of the slowest.

    Raises:
        PlanError: a machine that is there is not of the type, or paid in another way.
    """
    for instance in instances:
        name = instance["tags"].get("Name") or instance["instance_id"]
        there = {"instance_type": instance["instance_type"], "market": _market(instance)}
        for key, asked in (("instance_type", instance_type), ("market", market)):
            if there[key] != asked:
                raise PlanError(
                    f"{key}: {name} is {there[key]}, and the site file says {asked}: make destroy "
                    "first, or give the site file the old value or another name"
                )


def _market(instance: Instance) -> str:
    return "spot" if instance.get("instance_lifecycle") == "spot" else "on-demand"


def _free_numbers(used: set[int]) -> Any:
    number = 0
    while True:
        number += 1
        if number not in used:
            yield number


def _order(name: str) -> int:
    return int(name.rpartition("-")[2])


def _deadline(
    asked: Mapping[str, Any], kept: Sequence[Instance], now: datetime
) -> tuple[datetime, list[str]]:
    """The deadline of the site, and the ids of machines that are to get it."""
    new = now + timedelta(hours=asked["hours"])
    if asked["prolong"]:
        return new, [instance["instance_id"] for instance in kept]
    theirs = {
        instance["instance_id"]: parse_deadline(instance["tags"].get(DEADLINE)) for instance in kept
    }
    there = [moment for moment in theirs.values() if moment is not None]
    lacking = [identity for identity, moment in theirs.items() if moment is None]
    return max(there, default=new), lacking


def _image(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    used = [instance["image_id"] for instance in asked["instances"]]
    # One that is no longer published can be started all the same.
    by_id = {image["image_id"]: image for image in asked["images"]}
    if used:
        found: Mapping[str, Any] = by_id.get(used[0], {"image_id": used[0]})
        return found
    return newest_image(asked["images"], asked["image"])


def _subnet(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    fit = [
        subnet
        for subnet in asked["subnets"]
        if asked["instances"] or subnet["availability_zone"] in asked["zones"]
    ]
    if not fit:
        places = ", ".join(sorted({s["availability_zone"] for s in asked["subnets"]}))
        raise PlanError(
            f"subnet: EC2 has no {asked['instance_type']} in {places}: name a subnet of another "
            "zone in the site file, or another type"
        )
    subnet: Mapping[str, Any] = min(fit, key=lambda entry: entry["availability_zone"])
    return subnet


def _shown(instance: Instance, names: Mapping[str, str]) -> dict[str, Any]:
    identity = instance["instance_id"]
    return {
        "id": identity,
        "name": names[identity],
        "state": instance["state"]["name"],
        "address": instance.get("public_ip_address") or instance.get("private_ip_address") or "",
        "deadline": instance["tags"].get(DEADLINE, ""),
    }
