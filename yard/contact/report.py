"""What was found out at the first contact, for people and for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yard.contact.causes import Trouble
from yard.contact.here import Check
from yard.contact.look import Facts


@dataclass(frozen=True)
class HostReport:
    """What is known of one host.

    Attributes:
        place: where ssh goes, and as whom.
        trouble: the first thing that is wrong, if anything is.
        facts: what it tells of itself; None where it could not be asked.
        root: how the user becomes root there.
    """

    host: str
    place: str = ""
    trouble: Trouble | None = None
    facts: Facts | None = None
    root: str = ""
    note: str = ""


@dataclass(frozen=True)
class Contact:
    """The looks at this machine, and the hosts."""

    here: tuple[Check, ...]
    hosts: tuple[HostReport, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong anywhere."""
        wrong = [check.trouble for check in self.here] + [host.trouble for host in self.hosts]
        return not any(wrong)

    def groups(self) -> tuple[Mapping[str, Trouble], ...]:
        """The troubles by host, the same ones together: their proofs and commands may differ."""
        alike: dict[tuple[str, str, str], dict[str, Trouble]] = {}
        for host in self.hosts:
            if trouble := host.trouble:
                same = alike.setdefault((trouble.code, trouble.cause, trouble.advice), {})
                same[host.host] = trouble
        return tuple(alike.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "control_node": [
                {"check": check.name, "found": check.found, **_trouble(check.trouble)}
                for check in self.here
            ],
            "hosts": [
                {
                    "host": host.host,
                    "place": host.place or None,
                    "note": host.note or None,
                    "root": host.root or None,
                    "facts": None if host.facts is None else _facts(host.facts),
                    **_trouble(host.trouble),
                }
                for host in self.hosts
            ],
        }


def _trouble(trouble: Trouble | None) -> Mapping[str, Any]:
    if trouble is None:
        return {"ok": True, "trouble": None}
    names = ("code", "cause", "proof", "advice", "remedy", "on_host", "bastion")
    return {"ok": False, "trouble": {name: getattr(trouble, name) for name in names}}


def _facts(facts: Facts) -> Mapping[str, Any]:
    return {
        "user": facts.user,
        "release": facts.release,
        "python": facts.python,
        "seconds_off": round(facts.seconds_off, 1),
        "free_bytes": dict(facts.free),
    }
