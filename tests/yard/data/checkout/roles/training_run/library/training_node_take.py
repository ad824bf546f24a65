#!/usr/bin/python
"""In the tests' checkout: a node of which another run has GPU 0, unless it is node1."""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={"gpus_wanted": {"type": "int"}, "host": {"type": "str"}},
    )
    first = 0 if module.params["host"] == "node1" else 1
    numbers = range(first, first + module.params["gpus_wanted"])
    gpus = [{"index": number, "uuid": f"GPU-{number}"} for number in numbers]
    module.exit_json(changed=True, gpus=gpus, port=2222 + first)


if __name__ == "__main__":
    main()
