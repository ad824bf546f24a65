"""Stands in for EC2: moto's server on loopback, with a record of every call.

What moto lacks is added: placement groups, consoles that show a host key, and the list of prices.
Its machines are records; nothing runs on them, unless a test puts a real machine behind each
(`Ec2.started`, `Ec2.ended`).
"""

import base64
import io
import json
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

import boto3
from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

REGION = "eu-central-1"
KEY_ID, SECRET = "AKIDEXAMPLEONLY00000", "secret-that-must-be-seen-nowhere"
LIST_PRICE = 1.212
# What cloud-init prints on a machine's first start, with what syslog puts before it.
CONSOLE = """[   12.3] cloud-init[614]: ci-info: no authorized SSH keys fingerprints found
<14>Nov 24 22:00:01 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Nov 24 22:00:01 cloud-init: 256 SHA256:abc root@ip (ED25519)
<14>Nov 24 22:00:01 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
-----BEGIN SSH HOST KEY KEYS-----
ssh-ed25519 {key} root@ip
-----END SSH HOST KEY KEYS-----
"""
HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJustAnExampleOfAKeyThatIsNone00000000000000"


@dataclass(frozen=True)
class Call:
    """A call of the API: its action, and its parameters as they were sent."""

    action: str
    parameters: Mapping[str, str]

    @property
    def changes(self) -> bool:
        """Whether it makes, changes or removes something."""
        return not self.action.startswith(("Describe", "Get"))

    def tags(self) -> dict[str, dict[str, str]]:
        """The tags that it gives to what it makes, by kind of resource."""
        tags: dict[str, dict[str, str]] = {}
        for name, kind in self.parameters.items():
            begin, _, rest = name.partition(".")
            number, _, last = rest.partition(".")
            if begin == "TagSpecification" and last == "ResourceType":
                tags[kind] = dict(self._pairs(f"TagSpecification.{number}.Tag"))
        return tags

    def values(self, begin: str) -> list[str]:
        """The values of parameters with this beginning."""
        return [value for name, value in self.parameters.items() if name.startswith(begin)]

    def _pairs(self, begin: str) -> Iterator[tuple[str, str]]:
        number = 1
        while f"{begin}.{number}.Key" in self.parameters:
            yield (
                self.parameters[f"{begin}.{number}.Key"],
                self.parameters[f"{begin}.{number}.Value"],
            )
            number += 1


@dataclass
class Ec2:
    """The server, and what it was asked."""

    address: str = ""
    calls: list[Call] = field(default_factory=list)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    # What the consoles show, by id of the machine.
    host_keys: dict[str, str] = field(default_factory=dict)
    # Told of machines that start and end, as moto has them, before the one who asked is answered.
    started: Callable[[Iterable[Any]], None] = lambda machines: None
    ended: Callable[[Iterable[str]], None] = lambda ids: None

    def environment(self) -> dict[str, str]:
        """What points boto3 here."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            # Nothing of the person who runs the tests.
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @cached_property
    def client(self) -> Any:
        """A client of its own, whose calls are recorded too."""
        return boto3.client(
            "ec2",
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )

    def instances(self, site: str | None = None) -> list[dict[str, Any]]:
        """Machines that have not ended, in order of their names."""
        found = [
            instance
            for reservation in self.client.describe_instances()["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
            and (site is None or tags_of(instance).get("trainyard:site") == site)
        ]
        return sorted(found, key=lambda instance: tags_of(instance).get("Name", ""))

    def changes(self) -> list[Call]:
        """The calls that were to change something."""
        return [call for call in self.calls if call.changes]

    def actions(self) -> list[str]:
        """Their names."""
        return [call.action for call in self.changes()]

    def reset(self) -> None:
        """Forget all machines and calls."""
        request = urllib.request.Request(f"{self.address}/moto-api/reset", method="POST")
        urllib.request.urlopen(request).read()
        self.calls.clear()
        self.groups.clear()
        self.host_keys.clear()


def tags_of(thing: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a resource."""
    return {tag["Key"]: tag["Value"] for tag in thing.get("Tags", [])}


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Print nothing."""


class _Recorder:
    """Records what is asked, answers what moto does not know, and hands the rest on."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target.endswith(".GetProducts"):
            self._ec2.calls.append(Call("GetProducts", {"body": body.decode()}))
            document = {"PriceList": [json.dumps(PRODUCT)]}
            return _answer(start, json.dumps(document).encode(), "application/x-amz-json-1.1")
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if "Action" in fields:
            self._ec2.calls.append(Call(fields.pop("Action"), fields))
        answered: Iterable[bytes] = self._moto(environ, start)
        return answered


# A product of the price list, of the documented form; the numbers are made up.
PRODUCT = {
    "product": {"attributes": {"instanceType": "g4dn.xlarge"}, "sku": "S"},
    "terms": {
        "OnDemand": {
            "S.J": {
                "priceDimensions": {
                    "S.J.6": {"unit": "Hrs", "pricePerUnit": {"USD": f"{LIST_PRICE:.10f}"}}
                }
            }
        }
    },
}


def _answer(start: Any, body: bytes, kind: str) -> list[bytes]:
    start("200 OK", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def _add_what_moto_lacks(ec2: Ec2) -> None:
    def create(self: Any) -> ActionResult:
        name = self._get_param("GroupName")
        identity = f"pg-{len(ec2.groups):017x}"
        tags = self._parse_tag_specification().get("placement-group", {})
        ec2.groups[name] = {
            "GroupName": name,
            "GroupId": identity,
            "State": "available",
            "Strategy": self._get_param("Strategy"),
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
        return ActionResult({"PlacementGroup": ec2.groups[name]})

    def describe(self: Any) -> ActionResult:
        names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
        filters = self._filters_from_querystring()
        names = names or filters.get("group-name", [])
        found = [
            group
            for group in ec2.groups.values()
            if (not names or group["GroupName"] in names) and (not ids or group["GroupId"] in ids)
        ]
        return ActionResult({"PlacementGroups": found})

    def delete(self: Any) -> ActionResult:
        del ec2.groups[self._get_param("GroupName")]
        return ActionResult({})

    describe_tags = EC2Response.describe_tags

    def tags(self: Any) -> Any:
        result: Any = describe_tags(self)
        filters = self._filters_from_querystring()
        for group in ec2.groups.values():
            for tag in group["Tags"]:
                asked = {"key": tag["Key"], "value": tag["Value"], "resource-id": group["GroupId"]}
                if all(value in filters.get(name, [value]) for name, value in asked.items()):
                    entry = {"ResourceId": group["GroupId"], "ResourceType": "placement-group"}
                    result.result["Tags"].append({**entry, **tag})
        return result

    def console(self: Any) -> ActionResult:
        identity = self._get_param("InstanceId")
        text = CONSOLE.format(key=ec2.host_keys.get(identity, HOST_KEY))
        output = base64.b64encode(text.encode()).decode()
        return ActionResult({"InstanceId": identity, "Output": output})

    run = EC2Response.run_instances

    def run_instances(self: Any) -> Any:
        """Start machines that are spot ones where a template says so."""
        result: Any = run(self)
        if self._get_param("LaunchTemplate"):
            for instance in result.result.instances:
                instance.lifecycle = "spot"
        ec2.started(result.result.instances)
        return result

    terminate = EC2Response.terminate_instances

    def terminate_instances(self: Any) -> Any:
        result: Any = terminate(self)
        ec2.ended(self._get_param("InstanceIds", []))
        return result

    for name, action in {
        "run_instances": run_instances,
        "terminate_instances": terminate_instances,
        "create_placement_group": create,
        "describe_placement_groups": describe,
        "delete_placement_group": delete,
        "describe_tags": tags,
        "get_console_output": console,
    }.items():
        setattr(EC2Response, name, action)


@contextmanager
def running() -> Iterator[Ec2]:
    """Serve on a port of loopback until the end of the block."""
    ec2 = Ec2()
    _add_what_moto_lacks(ec2)
    server = make_server("127.0.0.1", 0, _Recorder(ec2), threaded=True, request_handler=_Quiet)
    ec2.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ec2
    finally:
        server.shutdown()
        thread.join()
