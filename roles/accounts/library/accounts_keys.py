#!/usr/bin/python
"""Ansible module: the keys that may log in as a user, written as that user."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.setup.accounts_keys import (
    KeysError,
    Wish,
    bring_about,
    home_of,
    without_key,
)


def printable(text: str) -> str:
    """Return a text of the user's for the terminal of somebody else: nothing in it acts there."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "lines": {"type": "list", "elements": "str", "required": True},
            "exclusive": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    user, lines = module.params["user"], module.params["lines"]
    if no_keys := without_key(lines):
        module.fail_json(msg=f"accounts: user {user}: not a public key: {no_keys[0]}")
    try:
        home = home_of(user)
        wish = Wish(tuple(lines), module.params["exclusive"])
        before, after = bring_about(home, wish, module.check_mode)
    except KeyError:
        module.fail_json(msg=f"accounts: user {user} does not exist")
    except KeysError as error:
        module.fail_json(msg=f"accounts: {error}")
    module.exit_json(
        changed=before != after,
        diff={
            "before": printable(before),
            "after": printable(after),
            "before_header": f"{home.path}/.ssh/authorized_keys",
        },
    )


if __name__ == "__main__":
    main()
