#!/usr/bin/python
"""Ansible module: what the action `packages` does on a machine beside apt, in steps.

`look` tells what is missing, and what came with a role; `record` adds to the role's record what is
installed now and was not before; `release` marks packages as installed automatically, and tells
which of them no other package needs; `forget` removes the record, and leaves to the roles that
share a package with it what is still installed.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.packages_records import (
    DIRECTORY,
    LIST_COMMAND,
    empty_directories,
    missing_requests,
    names_with,
    output_of,
    packages_to_share,
    parse_packages,
    parse_removals,
    read_records,
    records_of_others,
    with_block,
)

# What is only recommended or suggested goes too.
SIMULATION = """\
apt-get --simulate -o APT::AutoRemove::RecommendsImportant=false
-o APT::AutoRemove::SuggestsImportant=false autoremove"""


def append(module: AnsibleModule, record: Path, names: list[str]) -> None:
    """Add packages to a record."""
    before = record.read_text(encoding="utf-8") if record.exists() else ""
    if not module.check_mode:
        DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(with_block(before, names))
        module.atomic_move(temporary, str(record))
        record.chmod(0o644)


def look(module: AnsibleModule) -> dict[str, Any]:
    """Compare the machine with what the role needs."""
    owner, names = module.params["owner"], module.params["names"]
    packages = parse_packages(output_of(LIST_COMMAND))
    native = output_of(["dpkg", "--print-architecture"]).strip()
    records = read_records(DIRECTORY)
    own = set(records.get(owner, []))
    installed = names_with("installed", packages)
    return {
        "installed": installed,
        "missing": missing_requests(names, packages, native),
        "own": sorted(own),
        "shared": packages_to_share(owner, names, records),
        # Or directories that hold no record any more
        "recorded": owner in records or bool(empty_directories(DIRECTORY.parent)),
        "removable": sorted((own & set(installed)) - records_of_others(records, owner)),
        "configured": sorted(own & set(names_with("config-files", packages))),
    }


def record(module: AnsibleModule) -> dict[str, Any]:
    """Add to the record what came, and what another role brought (`names`)."""
    owner = module.params["owner"]
    installed = set(names_with("installed", parse_packages(output_of(LIST_COMMAND))))
    came = (installed - set(module.params["before"])) | set(module.params["names"])
    # One that was removed by hand and came back is there already.
    new = sorted(came - set(read_records(DIRECTORY).get(owner, [])))
    if new:
        append(module, DIRECTORY / owner, new)
    return {"changed": bool(new), "recorded": new}


def release(module: AnsibleModule) -> dict[str, Any]:
    """Tell which packages nobody needs; in a dry run, which marks none, all."""
    names = module.params["names"]
    if not module.check_mode:
        output_of(["apt-mark", "auto", *names])
        removals = parse_removals(output_of(SIMULATION.split()))
        names = [name for name in names if name in removals]
    return {"changed": True, "unneeded": names}


def forget(module: AnsibleModule) -> dict[str, Any]:
    """Remove the record, and directories that hold nothing any more."""
    owner = module.params["owner"]
    installed = set(names_with("installed", parse_packages(output_of(LIST_COMMAND))))
    records = read_records(DIRECTORY)
    own = set(records.pop(owner, []))
    for other, names in records.items():
        left = sorted((own & installed) - set(names))
        if own & set(names) and left:
            append(module, DIRECTORY / other, left)
    if not module.check_mode:
        (DIRECTORY / owner).unlink(missing_ok=True)
        for path in empty_directories(DIRECTORY.parent):
            path.rmdir()
    return {"changed": True}


STEPS = {"look": look, "record": record, "release": release, "forget": forget}


def main() -> None:
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": list(STEPS), "required": True},
            "owner": {"type": "str", "required": True},
            "names": names,
            "before": names,
        },
        supports_check_mode=True,
        no_log=True,  # on the node: not the names of all packages in its journal
    )
    try:
        result = STEPS[module.params["step"]](module)
    except RuntimeError as error:
        module.fail_json(
            msg=f"packages: {error}. Nothing was removed or recorded for {module.params['owner']}. "
            "`dpkg --configure -a` and `apt-get --fix-broken install` mend an installation that "
            "broke off."
        )
    module.exit_json(**{"changed": False, **result})


if __name__ == "__main__":
    main()
