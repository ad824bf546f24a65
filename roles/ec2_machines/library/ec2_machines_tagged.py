#!/usr/bin/python
"""Ansible module: what carries the tag of a site, or the machines of all sites.

Of a site, everything of EC2 that carries its tag, of whatever kind. Without a site, machines and
disks without a machine of all sites. Machines that have ended are left out; EC2 names them for
an hour.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

with suppress(ImportError):  # AnsibleAWSModule says it
    from botocore.exceptions import ClientError

from ansible.module_utils.ec2_machines_errors import AWS_ERRORS
from ansible.module_utils.ec2_machines_planning import DEADLINE, is_overdue
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

SITE = "trainyard:site"
# States in which a machine is paid for, or comes back, or still holds its disks.
ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
# How each kind is asked for: the operation, its ids, the answer, and there the id and the name.
DESCRIBED = {
    "key-pair": ("describe_key_pairs", "KeyPairIds", "KeyPairs", "KeyPairId", "KeyName"),
    "launch-template": (
        *("describe_launch_templates", "LaunchTemplateIds"),
        *("LaunchTemplates", "LaunchTemplateId", "LaunchTemplateName"),
    ),
    "placement-group": (
        *("describe_placement_groups", "GroupIds", "PlacementGroups", "GroupId", "GroupName"),
    ),
    "security-group": (
        *("describe_security_groups", "GroupIds", "SecurityGroups", "GroupId", "GroupName"),
    ),
    "volume": ("describe_volumes", "VolumeIds", "Volumes", "VolumeId", "Name"),
}
# What is in the codes of errors about ids that there are not.
GONE = ("NotFound", "Unknown")


def _tags(entry: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in entry.get("Tags", [])}


def _machines(client: Any, region: str, wanted: list[Any], now: datetime) -> Iterator[Any]:
    filters = [*wanted, {"Name": "instance-state-name", "Values": list(ALIVE)}]
    for page in client.get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                tags = _tags(instance)
                yield {
                    **_thing("instance", instance["InstanceId"], tags.get("Name", ""), region),
                    "site": tags[SITE],
                    "instance_type": instance["InstanceType"],
                    "market": instance.get("InstanceLifecycle", "on-demand"),
                    "state": instance["State"]["Name"],
                    "address": instance.get("PublicIpAddress")
                    or instance.get("PrivateIpAddress", ""),
                    "since": instance["LaunchTime"].astimezone(UTC).isoformat()[:16] + "Z",
                    "deadline": tags.get(DEADLINE, ""),
                    "overdue": is_overdue(tags.get(DEADLINE), now),
                }


def _disks(client: Any, region: str, wanted: list[Any]) -> Iterator[Any]:
    """Disks that no machine has, and that are paid for."""
    filters = [*wanted, {"Name": "status", "Values": ["available"]}]
    for page in client.get_paginator("describe_volumes").paginate(Filters=filters):
        for volume in page["Volumes"]:
            site = _tags(volume)[SITE]
            thing = _thing("volume", volume["VolumeId"], "", region)
            yield {**thing, "site": site, "state": "no machine has it", "overdue": True}


def _others(client: Any, region: str, site: str) -> Iterator[Any]:
    """Everything but machines, as EC2 lists it by the tag."""
    filters = [{"Name": "key", "Values": [SITE]}, {"Name": "value", "Values": [site]}]
    for page in client.get_paginator("describe_tags").paginate(Filters=filters):
        for entry in page["Tags"]:
            kind, identity = entry["ResourceType"], entry["ResourceId"]
            name = None if kind == "instance" else _name(client, kind, identity)
            if name is not None:
                yield {**_thing(kind, identity, name, region), "site": site, "overdue": False}


def _name(client: Any, kind: str, identity: str) -> str | None:
    """The name of a thing; None where it is gone, while the list of tags still has it."""
    if kind not in DESCRIBED:
        return ""
    ask, ids, answered, key, name = DESCRIBED[kind]
    try:
        answer = getattr(client, ask)(**{ids: [identity]})
    except ClientError as error:
        if any(word in error.response["Error"]["Code"] for word in GONE):
            return None
        raise
    for thing in answer[answered]:
        if thing[key] == identity and thing.get("State") not in ("deleting", "deleted"):
            return str(thing.get(name, ""))
    return None


def _thing(kind: str, identity: str, name: str, region: str) -> dict[str, Any]:
    return {"type": kind, "id": identity, "name": name, "region": region}


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(
        argument_spec={"site": {"type": "str", "default": ""}}, supports_check_mode=True
    )
    client, site, region = module.client("ec2"), module.params["site"], module.region
    wanted = (
        [{"Name": f"tag:{SITE}", "Values": [site]}]
        if site
        else [{"Name": "tag-key", "Values": [SITE]}]
    )
    try:
        things = list(_machines(client, region, wanted, datetime.now(UTC)))
        things += _others(client, region, site) if site else _disks(client, region, wanted)
    except AWS_ERRORS as error:
        module.fail_json_aws(error, msg=f"cannot ask EC2 for what carries the tag {SITE}")
    module.exit_json(changed=False, things=things)


if __name__ == "__main__":
    main()
