#!/usr/bin/python
"""Ansible module: what a type of EC2 machine is, where there are some, and what one costs.

A price that cannot be had is no failure: null stands for it, with the reason as its source.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

with suppress(ImportError):  # AnsibleAWSModule says it
    import boto3

from ansible.module_utils.ec2_machines_errors import AWS_ERRORS
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

# Where AWS answers for the prices of all regions.
PRICE_REGION = "us-east-1"
# What a plain Linux machine is in the price list.
PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


def price_in(products: list[str]) -> float | None:
    """The price of an hour in answers of GetProducts, US dollars; the highest of several.

    Each product is JSON, of which `terms.OnDemand` has the offers, and these their prices by unit:
    https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
    """
    prices = [
        float(price["pricePerUnit"]["USD"])
        for product in products
        for offer in json.loads(product).get("terms", {}).get("OnDemand", {}).values()
        for price in offer["priceDimensions"].values()
        if price["unit"] == "Hrs" and "USD" in price["pricePerUnit"]
    ]
    return max(prices, default=0.0) or None


def _list_price(region: str, instance_type: str) -> float | None:
    wanted = {**PLAIN, "regionCode": region, "instanceType": instance_type}
    answer = boto3.client("pricing", region_name=PRICE_REGION).get_products(
        ServiceCode="AmazonEC2",
        Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in wanted.items()
        ],
    )
    return price_in(answer["PriceList"])


def _spot_price(client: Any, instance_type: str, zones: list[str]) -> float | None:
    """The newest price of each zone, of these the highest: the zone is chosen later."""
    answer = client.describe_spot_price_history(
        InstanceTypes=[instance_type],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=datetime.now(UTC),
    )
    prices = [
        float(entry["SpotPrice"])
        for entry in answer["SpotPriceHistory"]
        if entry["AvailabilityZone"] in zones
    ]
    return max(prices, default=None)


def _price(client: Any, params: Mapping[str, Any]) -> tuple[float | None, str]:
    if params["price_per_hour"]:
        return params["price_per_hour"], "price_per_hour of the site file"
    market, name = params["market"], params["instance_type"]
    try:
        if market == "spot":
            price, source = _spot_price(client, name, params["zones"]), "EC2's spot price now"
        else:
            price, source = _list_price(params["region"], name), "AWS's price list"
    except AWS_ERRORS as error:
        return None, f"AWS gave no price ({type(error).__name__}: {str(error)[:200]})"
    # Answers of other forms than the documented one.
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return None, f"AWS gave no price that can be read ({type(error).__name__})"
    return price, source if price is not None else f"{source} has none for {name}"


def _gpus(about: Mapping[str, Any]) -> int:
    cards: Iterator[Mapping[str, Any]] = iter(about.get("GpuInfo", {}).get("Gpus", []))
    return sum(card["Count"] for card in cards if card["Manufacturer"].upper() == "NVIDIA")


def main() -> None:
    """Run the module."""
    module = AnsibleAWSModule(
        argument_spec={
            "instance_type": {"type": "str", "required": True},
            "market": {"type": "str", "choices": ["on-demand", "spot"], "required": True},
            "zones": {"type": "list", "elements": "str", "required": True},
            "price_per_hour": {"type": "float", "default": 0},  # US dollars; 0 asks AWS
        },
        supports_check_mode=True,
    )
    name, zones = module.params["instance_type"], module.params["zones"]
    client = module.client("ec2")
    try:
        offered = client.describe_instance_type_offerings(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [name]}],
        )
        there = {entry["Location"] for entry in offered["InstanceTypeOfferings"]}
        if not there:
            module.fail_json(msg=f"instance_type: EC2 has no {name} in {module.region}")
        [about] = client.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    except AWS_ERRORS as error:
        module.fail_json_aws(error, msg=f"cannot ask EC2 for {name}")
    price, source = _price(client, {**module.params, "region": module.region})
    module.exit_json(
        changed=False,
        architecture=about["ProcessorInfo"]["SupportedArchitectures"][-1],
        zones=sorted(there & set(zones)),
        offer={
            "vcpus": about["VCpuInfo"]["DefaultVCpus"],
            "memory_mib": about["MemoryInfo"]["SizeInMiB"],
            "gpus": _gpus(about),
            "price": price,
            "source": source,
        },
    )


if __name__ == "__main__":
    main()
