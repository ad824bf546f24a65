#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: in what a node's Open MPI differs from what the role would make of it."""

from __future__ import annotations

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
