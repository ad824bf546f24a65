"""Action: list the nodes that trust each other, and how ssh reaches them.

    - name: List the nodes that trust each other
      ssh_trust_members:
        hosts: "{{ groups['trainers'] }}"   # that may be members
      register: ssh_trust_inventory         # members: their names, hosts: a Member each
      run_once: true

A host whose ssh_trust_state is absent is none of them. Nothing is contacted.
What stands before the key of each in authorized_keys is C(options) of it, and C(control_options)
for the control node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.action import ActionBase

SSH_PORT = 22
# authorized_keys(5). A port of the node's own loopback may be reached, for the image caches of role
# trainer_image; and none be opened there: the training user cannot listen on port 1, and sshd knows
# no shorter word for that.
TO_LOOPBACK = 'port-forwarding,permitopen="127.0.0.1:*",permitlisten="localhost:1"'


class MembersError(Exception):
    """What was asked for cannot be written; the text names the variable."""


@dataclass(frozen=True)
class Member:
    """A node as ssh reaches it.

    Attributes:
        member: its name in the inventory.
        names: names that ssh knows it by, its own first.
        addresses: addresses that ssh knows it by.
        address: its address for the other nodes; None where its name must do.
        port: its port for the other nodes.
        control_address: its address for the control node.
        control_port: its port for the control node.
    """

    member: str
    names: list[str]
    addresses: list[str]
    address: str | None
    port: int | str
    control_address: str
    control_port: int | str


def variable(variables: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """Return the first of these variables that is defined.

    One that is made from another one that is not defined is not defined either: a node outside
    this run has no facts.
    """
    for name in names:
        try:
            return variables[name]
        except (KeyError, AnsibleUndefinedVariable):
            continue
    return default


def member_of(name: str, variables: Mapping[str, Any]) -> Member:
    """Return a node, from its variables in the inventory."""
    address = variable(variables, "cluster_address", "ansible_host")
    own_address = variable(variables, "ansible_host")
    addresses = [address, variable(variables, "cluster_address_v6"), own_address]
    return Member(
        member=name,
        names=list(dict.fromkeys([name, *variable(variables, "hosts_file_aliases", default=[])])),
        addresses=[item for item in dict.fromkeys(addresses) if item and item != name],
        address=address,
        port=variable(variables, "ssh_trust_port", "ansible_port", default=SSH_PORT),
        control_address=variable(variables, "ansible_host", default=name),
        control_port=variable(variables, "ansible_port", default=SSH_PORT),
    )


@dataclass(frozen=True)
class Limits:
    """What a key of the training user opens.

    Attributes:
        restrict: whether it opens commands and a terminal alone.
        to_loopback: whether a node may reach the others' loopback with it.
        addresses: by name of its owner, from where it is let in; of an owner without any, from
            everywhere.
    """

    restrict: bool = True
    to_loopback: bool = False
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def options(self, owner: str, node: bool = True) -> str:
        """Return what stands before the owner's key, with a blank behind it where it is something.

        Args:
            owner: name of the machine that has the key.
            node: whether that is a node; the control node is none.
        """
        options = ["restrict,pty"] if self.restrict else []
        if self.restrict and self.to_loopback and node:
            options.append(TO_LOOPBACK)
        if addresses := self.addresses.get(owner):
            options.append(f'from="{",".join(addresses)}"')
        return ",".join(options) + " " if options else ""


def sources(
    hosts: Iterable[Mapping[str, Any]],
    more: Sequence[str],
    control_name: str,
    control: Sequence[str],
) -> dict[str, list[str]]:
    """Return from where each node's key, and that of the control node, may come.

    A node has the addresses that the inventory gives it. One that has names alone has none here:
    sshd would have to ask a name server about whom to let in.

    Args:
        hosts: each as this action returns it.
        more: addresses and networks from which every node may come beside its own.
        control_name: of the control node.
        control: its addresses and networks; without any it may come from everywhere.

    Raises:
        MembersError: something is neither an address nor a network.
    """
    for entry in (*more, *control):
        try:
            ip_network(entry, strict=False)
        except ValueError as error:
            raise MembersError(
                f"ssh_trust: {entry!r} in ssh_trust_sources or ssh_trust_control_sources is "
                "neither an address nor a network, such as 10.0.0.0/24."
            ) from error
    found = {}
    for host in hosts:
        own = [entry for entry in (host["member"], *host["addresses"]) if is_address(entry)]
        if own:
            found[host["member"]] = list(dict.fromkeys([*own, *more]))
    if control:
        found[control_name] = list(control)
    return found


def is_address(text: str) -> bool:
    """Whether this is an IP address that sshd can compare with that of a peer."""
    try:
        return not getattr(ip_address(text), "scope_id", None)
    except ValueError:
        return False


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Reads the variables of each host once."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the members."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "str", "required": True},
                # What stands for the control node in the list of keys
                "control_name": {"type": "str", "default": ""},
                "restrict": {"type": "bool", "default": True},
                "to_loopback": {"type": "bool", "default": False},
                "from_own_addresses": {"type": "bool", "default": True},
                # From where all nodes, and the control node, may come beside
                "sources": {"type": "list", "elements": "str", "default": []},
                "control_sources": {"type": "list", "elements": "str", "default": []},
            }
        )
        hostvars = (task_vars or {})["hostvars"]
        members = []
        for name in options["hosts"]:
            variables = hostvars[name]
            if variable(variables, "ssh_trust_state") != "absent":
                members.append(asdict(member_of(name, variables)))
        control_name = options["control_name"]
        try:
            limits = Limits(
                restrict=options["restrict"],
                to_loopback=options["to_loopback"],
                addresses=sources(
                    members if options["from_own_addresses"] else [],
                    options["sources"],
                    control_name,
                    options["control_sources"],
                ),
            )
        except MembersError as error:
            return {"failed": True, "msg": str(error)}
        return {
            "changed": False,
            "members": [member["member"] for member in members],
            "hosts": [
                {**member, "options": limits.options(member["member"])} for member in members
            ],
            "control_options": limits.options(control_name, node=False),
        }
