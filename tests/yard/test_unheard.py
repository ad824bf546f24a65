"""What an environment has from other work changes no command."""

import pytest

from yard.core.unheard import ENGINE, forget_settings, other_engine


def test_what_switches_checks_off_or_asks_is_forgotten() -> None:
    kept = {
        "ANSIBLE_SSH_ARGS": "-o UserKnownHostsFile=/etc/site/known_hosts",
        "ANSIBLE_VAULT_PASSWORD_FILE": "/home/ops/vault",
        "PATH": "/bin",
        "DOCKER_HOST": ENGINE,
        "DOCKER_CONFIG": "/home/ops/.docker",
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
        "DOCKER_HOST": "tcp://build.example.org:2376",
        "DOCKER_CONTEXT": "build",
        "DOCKER_TLS_VERIFY": "1",
    }
    forget_settings(environment)
    assert environment == kept


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, ""),
        ({"DOCKER_HOST": "unix:///run/docker.sock", "DOCKER_CONTEXT": "default"}, ""),
        ({"DOCKER_HOST": "", "DOCKER_CONTEXT": "build"}, "DOCKER_CONTEXT=build"),
        ({"DOCKER_HOST": "tcp://build:2376"}, "DOCKER_HOST=tcp://build:2376"),
    ],
)
def test_an_engine_that_is_not_asked_is_told(environment: dict[str, str], told: str) -> None:
    assert other_engine(environment) == told
