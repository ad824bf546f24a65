#!/usr/bin/python
"""Stands in for the module of role training_node: two images, and a note of what it was told."""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    arguments = {"remove": {"type": "bool"}, "note": {"type": "path"}, "broken": {"type": "bool"}}
    module = AnsibleModule(argument_spec=arguments)
    if module.params["broken"]:
        module.fail_json(msg="there is no room")
    with open(module.params["note"], "w", encoding="utf-8") as file:
        file.write(f"{module.params['remove']}\n")
    found = [
        {"kind": "image", "name": "trainyard/trainer:now", "bytes": 10**9, "kept": "current"},
        {"kind": "image", "name": "trainyard/trainer:old", "bytes": 10**9, "kept": None},
        {"kind": "run", "name": "bench-20260101T000000Z", "bytes": None, "kept": "goes_on"},
        {"kind": "run", "name": "verify-20260101T000000Z", "bytes": None, "kept": "not_home"},
    ]
    module.exit_json(changed=False, found=found, removed=[], trouble="")


if __name__ == "__main__":
    main()
