"""Why ssh does not get in: at a host, or at a bastion on the way to it."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace

from yard.contact import host_keys, refusal
from yard.contact.causes import Trouble, code_of
from yard.contact.ssh import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    Answer,
    Settings,
    run_ssh,
    settings_of,
)
from yard.plays.connections import Connection

# Codes of what lies between here and an sshd.
ON_THE_WAY = ("name_unknown", "refused", "no_route", "silent", "timed_out", "no_sshd", "closed")
# user@host:port of ProxyJump, as a URI too; an address of IPv6 stands in brackets.
JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>.+)@)?(?P<host>\[[^]]+\]|[^:]+)(?::(?P<port>\d+))?/?", re.DOTALL
)
DENIED = re.compile(r"Permission denied \((?P<methods>[\w,@.-]+)\)")
# What a bastion has in place of a host's variables.
SETTINGS_OF_BASTION = {
    "address_setting": "the address in ProxyJump",
    "port_setting": "the port in ProxyJump",
    "user_setting": "the user in ProxyJump",
    "user_origin": "ProxyJump or the configuration of ssh",
}
# How many lines of foreign words are shown.
MOST_LINES = 4


def trouble_at_bastions(target: Connection, settings: Settings) -> Trouble | None:
    """The trouble of the first bastion that does not let ssh in; None where all do.

    They are asked before the target: the ssh that ProxyJump starts has only people's own
    configuration, by which it might learn a host key.
    """
    hops = [_hop(target, settings, number) for number in range(len(settings.jumps))]
    ends: list[Settings] = []
    for hop in hops:
        told = settings_of(hop)
        if isinstance(told, str):
            return Trouble("ssh_unusable", values_of(hop, settings), last_lines(told))
        ends.append(told)
    for hop, told, onward in zip(hops, ends, [*ends, settings][1:], strict=True):
        # What ProxyJump does: the connection goes on from there.
        destination = f"{_bracketed(onward.address)}:{onward.port}"
        answer = run_ssh(hop, told, options=("-W", destination))
        if not answer.authenticated:
            found = trouble_at(hop, told, answer)
            return replace(
                found,
                values={**found.values, **SETTINGS_OF_BASTION},
                bastion=f"{told.address} (port {told.port})",
            )
    return None


def trouble_at(target: Connection, settings: Settings, answer: Answer) -> Trouble:
    """Why a machine could not be logged in on.

    Args:
        answer: of ssh, which ended with 255, or with nothing in its time.
    """
    values = values_of(target, settings)
    words = answer.words
    proof = last_lines(words)
    if answer.status is None and not code_of(words):
        return Trouble("no_answer", {**values, "seconds": str(COMMAND_SECONDS)}, proof)
    denied = DENIED.search(words)
    if denied is not None and code_of(words) != "too_many_keys":
        methods = tuple(denied["methods"].split(","))
        return refusal.explain(target, settings, answer, methods).with_values(values)
    code = code_of(words) or "ssh_failed"
    by_proxy = settings.proxy_command is not None and not answer.authenticated
    if by_proxy and code in (*ON_THE_WAY, "ssh_failed"):
        return Trouble(
            "proxy_failed", {**values, "proxy_command": settings.proxy_command or ""}, proof
        )
    if code == "silent" and settings.jumps:
        code = "timed_out"  # the bastion took the connection, not the host
    if code == "host_key_unknown":
        return _unknown_key(settings, values, answer)
    if code == "host_key_changed":
        return _changed_key(values, words)
    return Trouble(code, values, proof)


def values_of(target: Connection, settings: Settings) -> Mapping[str, str]:
    """What the sentences about a target are filled in with, and the commands to paste."""
    login = f"{settings.user}@{target.address}"
    port = [] if settings.port == 22 else ["-p", str(settings.port)]
    rest = [*port, *target.typed, login]
    asking = ["-o", "StrictHostKeyChecking=ask"]
    known_hosts = settings.known_hosts or ""
    return {
        "address": settings.address,
        "port": str(settings.port),
        "user": settings.user,
        "ssh": shlex.join([target.executable, *rest]),
        "run": shlex.join([target.executable, "-t", *rest]),
        "ask_and_pin": shlex.join([target.executable, *asking, *rest, "true"]),
        "sudo": "" if settings.user == "root" else "sudo ",
        "address_setting": "ansible_host",
        "port_setting": "ansible_port",
        "user_setting": "ansible_user",
        "seconds": str(CONNECT_SECONDS),
        "known_hosts": known_hosts,
        "known_hosts_quoted": shlex.quote(known_hosts),
        "known_name_quoted": shlex.quote(settings.known_name),
    }


def _unknown_key(settings: Settings, values: Mapping[str, str], answer: Answer) -> Trouble:
    if settings.known_hosts is None:
        return Trouble("host_key_unkept", values, last_lines(answer.words))
    keys = host_keys.scan(settings) if settings.is_direct else ()
    if keys:
        proof = tuple(f"{key.fingerprint} ({key.name})" for key in keys)
        return Trouble(
            "host_key_unknown", {**values, "pin": host_keys.pinning(settings, keys)}, proof
        )
    # Behind a bastion only ssh gets there; it shows the key once more and asks.
    fingerprint = host_keys.shown_fingerprint(answer.said)
    proof = (fingerprint,) if fingerprint else last_lines(answer.words)
    return Trouble("host_key_unknown", {**values, "pin": values["ask_and_pin"]}, proof)


def _changed_key(values: Mapping[str, str], words: str) -> Trouble:
    fingerprint = host_keys.shown_fingerprint(words)
    proof = [f"it shows {fingerprint}"] if fingerprint else []
    place = host_keys.offending(words)
    if place is not None:
        file, line = place
        proof.append(f"another one is in line {line} of {file}")
        values = {**values, "known_hosts": file, "known_hosts_quoted": shlex.quote(file)}
    return Trouble("host_key_changed", values, tuple(proof))


def _hop(target: Connection, settings: Settings, number: int) -> Connection:
    """A bastion as ssh goes to it: by its configuration, without the arguments for the host."""
    jump = settings.jumps[number]
    found = JUMP.fullmatch(jump)
    if found is None:
        return Connection(jump, address=jump, executable=target.executable)
    before = ("-J", ",".join(settings.jumps[:number])) if number else ()
    typed = (*_configuration(target.arguments), *before)
    port = ("-p", found["port"]) if found["port"] else ()
    login = ("-l", found["user"]) if found["user"] else ()
    return Connection(
        jump,
        address=found["host"].strip("[]"),
        executable=target.executable,
        arguments=(*typed, *port, *login),
        typed=typed,
        user=found["user"],
    )


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _configuration(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The file of ssh's configuration among arguments: the one thing that ProxyJump passes on."""
    for number, argument in enumerate(arguments):
        if argument == "-F" and number + 1 < len(arguments):
            return ("-F", arguments[number + 1])
        if argument.startswith("-F"):
            return ("-F", argument[2:])
    return ()


def last_lines(words: str) -> tuple[str, ...]:
    """The last lines of foreign words."""
    return tuple(line.rstrip() for line in words.splitlines() if line.strip())[-MOST_LINES:]
