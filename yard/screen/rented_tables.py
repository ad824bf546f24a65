"""Tables of rented machines, and what they cost."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from yard.core.words import plural
from yard.request.site import Site
from yard.screen.plain_table import plain_table

COLUMNS = ("machine", "id", "state", "address", "until (UTC)")
FOUND_COLUMNS = ("site", "machine", "id", "region", "type", "market", "state", "since", "until")


def show_plan(console: Console, site: Site, plan: Mapping[str, Any]) -> None:
    """Print what stays, comes and goes, and what it costs."""
    table = plain_table("", *COLUMNS)
    for mark, key in (("stays", "keep"), ("goes", "remove")):
        for machine in plan[key]:
            until = machine["deadline"].removesuffix("Z")
            cells = (machine[name] for name in ("name", "id", "state", "address"))
            table.add_row(*map(Text, (mark, *cells, until)))
    for name in plan["make"]:
        table.add_row(*map(Text, ("new", name, "", "", "", plan["deadline"].removesuffix("Z"))))
    console.print(table)
    if plan["make"]:
        offer = plan["offer"]
        gpus = f", {plural(offer['gpus'], 'GPU')}" if offer["gpus"] else ""
        console.print(
            f"New machines: {site.instance_type} in {plan['zone']} ({offer['vcpus']} vCPUs, "
            f"{offer['memory_mib'] / 1024:.0f} GiB{gpus}), {_market(site)}, "
            f"image {plan['image_name'] or plan['image_id']}, "
            f"disks {_disks(plan['devices'])}",
            markup=False,
        )
    console.print(estimate(site, plan), markup=False)


def estimate(site: Site, plan: Mapping[str, Any]) -> str:
    """What all machines of the site cost from now on, with the source of the price."""
    number = len(plan["make"]) + len(plan["keep"])
    price, source = plan["offer"]["price"], plan["offer"]["source"]
    what = f"{number} x {site.instance_type}"
    if price is None:
        return (
            f"Costs: {what}, at a price that is not known: {source}. price_per_hour in "
            f"{site.path.name} makes an estimate possible."
        )
    hour = number * price
    return (
        f"Costs: {what} at ${price:.4f} an hour ({source}): ${hour:.2f} an hour, "
        f"${hour * plan['hours']:.2f} until {plan['deadline']} ({plan['hours']:.1f} h). "
        "Disks and traffic cost extra; after that time the machines go on, and cost, until they "
        "are given back."
    )


def show_things(console: Console, things: Sequence[Mapping[str, Any]]) -> None:
    """Print what carries the tag of a site."""
    table = plain_table("what", "id", "name", "state")
    for thing in things:
        cells = (thing["type"], thing["id"], thing["name"], thing.get("state", ""))
        table.add_row(*map(Text, cells))
    console.print(table)


def show_found(console: Console, things: Iterable[Mapping[str, Any]]) -> None:
    """Print the machines of all sites; what is past its deadline is marked."""
    table = plain_table(*FOUND_COLUMNS)
    for thing in things:
        keys = ("site", "name", "id", "region", "instance_type", "market", "state", "since")
        cells = [str(thing.get(key, "")) or "-" for key in keys]
        until = thing.get("deadline", "") or "no deadline"
        style = "red" if thing["overdue"] else ""
        table.add_row(*map(Text, cells), Text(until, style=style))
    console.print(table)


def _market(site: Site) -> str:
    return "spot" if site.market == "spot" else "on demand"


def _disks(devices: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{d['ebs']['volume_size']} GiB {d['ebs']['volume_type']}" for d in devices)
