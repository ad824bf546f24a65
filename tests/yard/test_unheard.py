"""What an environment has from other work changes no command."""

from yard.core.unheard import forget_settings


def test_what_switches_checks_off_or_asks_is_forgotten() -> None:
    kept = {
        "ANSIBLE_SSH_ARGS": "-o UserKnownHostsFile=/etc/site/known_hosts",
        "ANSIBLE_VAULT_PASSWORD_FILE": "/home/ops/vault",
        "PATH": "/bin",
    }
    environment = {
        **kept,
        "ANSIBLE_SSH_COMMON_ARGS": "-C -o 'StrictHostKeyChecking no'",
        "ANSIBLE_SSH_EXTRA_ARGS": "-oUserKnownHostsFile=/dev/null",
        "ANSIBLE_SCP_EXTRA_ARGS": "-o stricthostkeychecking=accept-new",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_RUN_TAGS": "mine",
        "GIT_DIR": "/home/ops/other/.git",
        "ANSIBLE_ASK_VAULT_PASS": "True",
    }
    forget_settings(environment)
    assert environment == kept
