#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: in what a node's Open MPI differs from what the role would make of it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: openmpi_look
short_description: Tells in what Open MPI differs from what it is to be
description:
  - Reads dpkg's status and the defaults of MCA parameters, all in one go. Changes nothing.
author: Trainyard
options:
  packages:
    description: Packages that are to be installed.
    type: list
    elements: str
    required: true
  blocks:
    description: >-
      For each runtime, C(prrte) of version 5 and newer and C(orte) of older ones, the block that
      each file is to have; without text it is to have none.
    type: dict
    required: true
  marker:
    description: What stands around a block, with C({mark}) for BEGIN and END.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look at Open MPI
  openmpi_look:
    packages: [openmpi-bin, libucx0]
    blocks:
      orte: {/etc/openmpi/openmpi-mca-params.conf: btl_tcp_if_include = 10.0.0.0/24}
      prrte: {/etc/openmpi/openmpi-mca-params.conf: btl_tcp_if_include = 10.0.0.0/24}
    marker: "# {mark} Ansible"
"""

RETURN = r"""
versions:
  description: Names and upstream versions of Open MPI and UCX, as installed.
  returned: always
  type: list
  elements: str
differences:
  description: In what the node differs from what it is to be.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.openmpi_installed import has_block, runtime_of, upstream_versions
from ansible.module_utils.packages_records import LIST_COMMAND, output_of, parse_packages, unsettled

OWNER = "openmpi"


def is_roots(module: AnsibleModule, path: Path, mode: str) -> bool:
    """Whether a file or directory is root's and has this mode. The module must be in a dry run."""
    wanted = {"owner": "root", "group": "root", "mode": mode}
    arguments = module.load_file_common_arguments(wanted, path=str(path))
    return path.exists() and not module.set_fs_attributes_if_different(arguments, False)


def has_defaults(module: AnsibleModule, path: Path, block: str) -> bool:
    """Whether a file has this block; one without a block may be missing."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not has_block(text, module.params["marker"], block):
        return False
    if not block and not path.exists():
        return True
    return is_roots(module, path, "0644") and is_roots(module, path.parent, "0755")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "required": True},
            "blocks": {"type": "dict", "required": True},
            "marker": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    module.check_mode = True  # attributes are compared, not set
    try:
        missing = unsettled(OWNER, module.params["packages"])
        versions = upstream_versions(parse_packages(output_of(LIST_COMMAND)))
    except RuntimeError as error:
        # The task that installs says it, and what mends it.
        module.exit_json(changed=False, versions=[], differences=[str(error)])
    differences = [f"packages: {', '.join(missing)}"] if missing else []
    runtime = runtime_of(versions)
    if runtime is None:
        differences.append("there is no Open MPI")
    else:
        blocks = module.params["blocks"][runtime].items()
        differences += [
            f"{path} has other defaults"
            for path, block in blocks
            if not has_defaults(module, Path(path), block)
        ]
    module.exit_json(
        changed=False,
        versions=[f"{name} {version}" for name, version in versions.items()],
        differences=differences,
    )


if __name__ == "__main__":
    main()
