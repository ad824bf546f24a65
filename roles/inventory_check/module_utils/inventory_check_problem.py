"""A mistake in an inventory: code and values for programs, a sentence with remedy for people."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# A folder that is no inventory has thousands of mistakes, and the first say as much.
MOST = 50
# The one place where codes become sentences. What is in braces are the problem's values.
TEXTS = {
    "file_unreadable": "cannot be read: {reason}. Mend the link or the permissions, or remove it.",
    "file_not_text": (
        "this is not text: byte {byte} is not UTF-8. Save the file as UTF-8, or take it out of the "
        "inventory."
    ),
    "yaml_tab": (
        "this is not YAML: {reason}, in what begins in line {begin}. "
        "Indent with spaces, not with tabs."
    ),
    "yaml_unquoted": (
        "this is not YAML: {reason}, in what begins in line {begin}. "
        "Put a text with a character that means something to YAML in quotes."
    ),
    "yaml_invalid": (
        "this is not YAML: {reason}, in what begins in line {begin}. "
        "See whether a bracket, a quote or a part of the indentation is missing."
    ),
    "key_twice": (
        'the key "{key}" stands in line {first} already, and YAML takes the last one. '
        "Remove one of both."
    ),
    "variables_hidden": (
        "nobody reads this: of several for {name}, Ansible takes {taken} alone. Move what is in "
        "this one there."
    ),
    "inventory_not_mapping": (
        'an inventory is a mapping of groups, such as "trainers: {{hosts: {{gpu01: {{}}}}}}". '
        "Write it so."
    ),
    "group_not_mapping": (
        "group {group} is not a mapping. Write what it has below hosts, vars or children."
    ),
    "section_not_mapping": (
        "{section} of group {group} is not a mapping. Write each entry as a key of its own: "
        '"{section}: {{name: {{}}}}".'
    ),
    "section_unknown": (
        "group {group} cannot have {section}, and Ansible passes over it. "
        "A group has hosts, vars and children."
    ),
    "section_misspelt": (
        "group {group} cannot have {section}, and Ansible passes over it. Is {near} meant?"
    ),
    "host_not_mapping": (
        'what host {host} has is not a mapping. Write its variables as "name: value".'
    ),
    "host_not_text": "{host} is {kind} to YAML, not a name. Put it in quotes.",
    "variables_not_mapping": 'a file of variables is a mapping. Write each as "name: value".',
    "host_name_invalid": (
        "{host} cannot be the name of a host: {reason}. Rename it; ansible_host says how it is "
        "reached."
    ),
    "host_name_twice": (
        "{host} and {other} are the same name, because host names have no case. Rename one of both."
    ),
    "host_not_trainer": (
        "{host} is in group {group} and not in trainers, so nothing uses its GPUs. "
        "Add it to trainers, or take it out of {group}."
    ),
    "gpus_of_two_vendors": (
        "{host} is in groups {group} and {other}, and no image computes on GPUs of both vendors. "
        "Take it out of one: it trains on the GPUs of the other."
    ),
    "group_missing": (
        "group {group}, which playbooks/{playbook} works on, is missing. "
        "A group may be empty: {empty}."
    ),
    "group_missing_near": (
        "group {group}, which playbooks/{playbook} works on, is missing. Is {near} meant? "
        "A group may be empty: {empty}."
    ),
    "group_misspelt": (
        "nothing works on group {group}, and {host} in it is not in {near}. Is {near} meant?"
    ),
    "group_trainers_empty": (
        "group trainers has no host. Add the machines that train, or the group that has them: "
        "{children}."
    ),
    "group_file_misspelt": ("there is no group {group}, so nothing reads it. Is {near} meant?"),
    "role_variable_unknown": (
        "{variable} is not a variable of role {role}. roles/{role}/README.md lists them."
    ),
    "role_variable_misspelt": ("{variable} is not a variable of role {role}. Is {near} meant?"),
    "site_variable_misspelt": "{variable} is not a site-wide variable. Is {near} meant?",
    "variable_renamed": "{variable} has a new name, {new}. Write that.",
    "role_variable_kind": (
        "{variable} is {kind}, and must be {declared}. roles/{role}/README.md says what it holds."
    ),
    "role_variable_type": "{variable}: {reason}. roles/{role}/README.md says what it holds.",
    "account_invalid": "{variable}: {reason}",
    "site_variable_kind": (
        "{variable} is {kind}, and must be {declared}. {site_file}:{site_line} has an example."
    ),
    "network_invalid": "{variable}: {reason}. Write it as CIDR, such as 10.0.0.0/24.",
    "network_is_address": ("{variable}: {network} is an address in a network. Is {near} meant?"),
    "network_missing": (
        "cluster_network is not set for {owners}. Give the group trainers the CIDR of the training "
        "network."
    ),
    "network_differs": (
        "the nodes differ in cluster_network: {networks}. Set it once, for group trainers."
    ),
    "url_invalid": (
        "{variable}: {reason}. Write it as http://proxy.example.org:3128 or "
        "https://mirror.example.org."
    ),
    "certificates_missing": (
        "{variable}: {reason}. Name a file of this machine with its whole path, such as "
        "/etc/ssl/example-ca.pem."
    ),
    "variable_not_for_all": (
        "{variable} is set for {whom} alone, and this machine, which builds the image, does not "
        "see it. Set it in group_vars/all/site.yml of the inventory."
    ),
    "variable_follows": (
        "{variable} has the value of {setting}, as other parts have, and another one would keep "
        "runs off. Set {setting}, in group_vars/all/site.yml of the inventory."
    ),
    "address_invalid": (
        '{variable} of {host}: "{address}" is not an IP address. '
        "Set {variable} to one in {network}."
    ),
    "address_version": (
        "{variable} of {host}: {address} is of version {version}. Is cluster_address meant?"
    ),
    "address_outside": (
        "{variable} of {host}: {address} is not in cluster_network {network}. One of both is wrong."
    ),
    "address_of_all": (
        "{variable} of {host}: {address} is the first or the last of {network}, which no machine "
        "has."
    ),
    "reached_invalid": (
        'ansible_host of {host}: "{address}" is more than a name or an address. ansible_user and '
        "ansible_port have the rest."
    ),
    "port_invalid": "ansible_port {port} of {host} is no port. Write one of 1 to 65535.",
    "port_of_runs": (
        "ansible_port {port} of {host} is the port of the sshd in a run's container, so its own "
        "sshd would keep runs off. Set training_node_ssh_port to a free one, for all hosts."
    ),
    "port_of_sshd": (
        "training_node_ssh_port {port} is the port of the machines' own sshd, which would keep "
        "runs off. Set it to a free one, for all hosts."
    ),
    "address_twice": (
        "{variable} {address} belongs to {owners}. Give every host an address of its own."
    ),
}


class Problem(NamedTuple):
    """A mistake in an inventory.

    Attributes:
        code: its kind, a key of TEXTS.
        values: scalars. `file` and `line` say where, from 1; `hosts` (names with commas) says for
            which hosts, where no file does.
    """

    code: str
    values: dict[str, Any]

    @property
    def text(self) -> str:
        """The sentence for people, behind the place as editors and compilers write it."""
        sentence = TEXTS[self.code].format(**self.values)
        if "line" in self.values:
            return f"{self.values['file']}:{self.values['line']}: {sentence}"
        if "file" in self.values:
            return f"{self.values['file']}: {sentence}"
        if "hosts" in self.values:
            hosts = self.values["hosts"].split(",")
            return f"host{'s' if len(hosts) > 1 else ''} {few(hosts)}: {sentence}"
        return sentence


def few(hosts: Sequence[str]) -> str:
    """Name some hosts: three of many are enough to look at."""
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return ", ".join(hosts[:3]) + more


def shown(file: Path, checkout: Path) -> str:
    """A file as people write it: without the checkout's path, where it is below."""
    return str(file.relative_to(checkout) if file.is_relative_to(checkout) else file)


def report(problems: Sequence[Problem]) -> str:
    """All problems as one text, each in a line of its own."""
    count = f"{len(problems)} mistakes" if len(problems) > 1 else "a mistake"
    head = f"The inventory has {count}. Nothing was changed."
    # A name with a line break stays in its line.
    lines = ["".join(c if c.isprintable() else repr(c)[1:-1] for c in p.text) for p in problems]
    if len(lines) > MOST:
        lines[MOST:] = [f"And {len(lines) - MOST:,} more. Is this the inventory that is meant?"]
    return "\n".join([head, *lines])
