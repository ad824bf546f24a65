"""Values of the right type that cannot be meant, as the name of what they are for says."""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

# The largest number that can be meant. None is below 0.
MOST = {
    r"(.*_)?ports?": 65535,
    r".*_share": 1,
    r"(.*_)?[ug]id": 2**32 - 2,  # uid_t has 32 bits, and -1 is nobody's
    r".*_seconds": 2**31 - 1,  # of systemd, ssh and rsync
    r".*_gigabytes": 2**33,  # of bytes the kernel counts 2^63
    r".*_percent": 100,
    r".*": 2**63 - 1,
}
# Without any of it there is no run, or what is new on a node is taken back at once.
ABOVE_NOTHING = (
    r"trainyard_uid|.*_port|local_cluster_size|.*_(poll|probe|status|watch|rollback|reboot)_seconds"
    r"|training_.*_(share|processes|files|count|epochs|batch_per_rank|procs_per_node)"
)
# Whole folders of the system are others' too: their owner would change, or all in them would go.
FOLDER = (
    r"(?!/(bin|boot|dev|etc|home|lib|proc|root|run|sbin|sys|tmp|usr|var)/?$)"
    r"(/(?!\.\.?(/|$))[\w.@+-]+)+/?"
)
# What a text is, in words and as a pattern; the first that has the name.
TEXTS = {
    r"(.*_)?ports": ("a port, or a range such as 1024-2048", r"ephemeral|\d+(-\d+)?"),
    r"path|(trainyard|training_node)_root|training_node_data|dataset_directory"
    r"|cluster_check_node_directory|trainer_image_landing": (
        "the whole path of a folder for this alone, such as /srv/trainyard",
        FOLDER,
    ),
    r"docker_engine_data_root|training_run_share": ("the whole path of a folder", f"|{FOLDER}"),
    r".*_native_root": ("a folder below the home, or a whole path", r"(?!/*$|.*\.\.)[^\s:,]+"),
    r"login_shell_path": ("the whole path of a folder", r"/[^:\s]*"),
    r".*_mode": ('octal and in quotes, such as "0644"', r"0?[0-7]{3}"),
    r".*_checksum": ("an algorithm and a sum, as sha256:0123…", r"|\w+:([\da-fA-F]{32,}|\w+://.+)"),
    r"trainyard_user": ("an account of its own", r"(?!root$)[a-z_][a-z0-9_.-]{0,31}"),
    r"name|.*_users?": ("the name of an account", r"[^\s:/,]*"),
    r".*_checkpoint_seconds": ("seconds, or auto", r"auto|\d+(\.\d+)?"),
    r".*_procs_per_node": ("a number above 0, or node", r"[1-9]\d*|node"),
    r"training_node_gpus": ("all, or numbers or UUIDs with commas between", r"|[\w-]+(,[\w-]+)*"),
    r"local_cluster_virtual_.*": ("a size such as 16G", r"\d+[KMGT]?"),
    r"chrony_sources": ("server ADDRESS or pool NAME", r"(server|pool|peer)( +[\w.:-]+)+"),
    r"src": ("//server/share", r"//[^/\s,]+(/[^/,]+)+"),
    r"directories": ("a path inside of the share", r"(?!/|.*\.\.).+"),
}
SOURCES = r"(firewall|ssh_trust)_.*sources|sources"
SETTINGS = r".*_(environment|mca|secrets)"


def trouble(name: str, value: Any, option: Mapping[str, Any]) -> str:
    """Return why a value cannot be meant; empty where it can.

    Args:
        name: of the variable, or of the key in it.
        option: what the role's specification says of it.
    """
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, list) != (option.get("type") == "list"):
        return f"{value} must be {'no' if isinstance(value, list) else 'a'} list"
    if isinstance(value, list):
        entry = {**option, "type": option.get("elements")}
        return next(filter(None, (trouble(name, each, entry) for each in value)), "")
    if isinstance(value, dict):
        return _trouble_of_keys(name, value, option.get("options") or {})
    if isinstance(value, int | float):
        return _trouble_of_number(name, value)
    return _trouble_of_text(name, str(value), option)


def _trouble_of_keys(name: str, keys: Mapping[Any, Any], known: Mapping[str, Any]) -> str:
    for key, value in keys.items():
        if found := trouble(key, value, known[key]) if key in known else "":
            return f"{key} {found}"
        # Of an environment
        odd = not re.fullmatch(r"\w+", str(key)) or isinstance(value, list | dict)
        if re.fullmatch(SETTINGS, name) and odd:
            return f"{key} must be a name of letters, digits and _, with one value"
    return ""


def _trouble_of_number(name: str, number: float) -> str:
    if name.endswith("_mode"):
        return f"{number} must be {TEXTS['.*_mode'][0]}"  # YAML takes 0644 for 420
    most = next(most for pattern, most in MOST.items() if re.fullmatch(pattern, name))
    above = re.fullmatch(ABOVE_NOTHING, name) is not None
    if (number > 0 if above else number >= 0) and number <= most:
        return ""
    limit = f"at most {most}" if most < MOST[".*"] else "finite"
    return f"{number} must be {'above 0' if above else '0 or more'} and {limit}"


def _trouble_of_text(name: str, text: str, option: Mapping[str, Any]) -> str:
    if re.fullmatch(SOURCES, name):
        try:
            ip_network(text)
        except ValueError as error:
            return str(error)
    matching = (form for pattern, form in TEXTS.items() if re.fullmatch(pattern, name))
    words, form = next(matching, ("", ".*"))
    if not re.fullmatch(form, text, re.DOTALL):
        return f'"{text}" must be {words}'
    if option.get("type") == "path" and text and not text.startswith(("/", "~")):
        return f'"{text}" must be a whole path'
    is_number = re.fullmatch(r"(.*_)?([ug]id|ports?)", name) and re.fullmatch(r"-?\d+(-\d+)?", text)
    numbers = re.findall(r"(?<!\d)-?\d+", text) if is_number else ()
    return next(filter(None, (_trouble_of_number(name, int(each)) for each in numbers)), "")
