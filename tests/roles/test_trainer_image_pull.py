"""How a node fetches an image: what is tried again, and what is not."""

import importlib
import sys
from typing import Any

import pytest
from ansible.module_utils.trainer_image_docker import DockerError
from role_files import ROLES

sys.path.append(str(ROLES / "trainer_image/library"))
pull = importlib.import_module("trainer_image_pull")

REFUSED = "dial tcp 127.0.0.1:{}: connect: connection refused"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine that fails with these words, one after the other, and then fetches."""

    def fails_with(*errors: str) -> list[str]:
        left, asked = list(errors), []

        def docker(*arguments: str) -> str:
            asked.append(arguments[1])
            if arguments[1] == "pull" and left:
                raise DockerError(left.pop(0))
            return ""

        monkeypatch.setattr(pull, "docker", docker)
        return asked

    return fails_with


def test_a_layer_that_a_dead_delivery_was_fetching_is_fetched_again(engine: Any) -> None:
    asked = engine(REFUSED.format(34327))
    pull.fetch("trainyard/trainer:1", "sha256:0", 36149)
    assert asked == ["pull", "pull", "tag", "rm"]


@pytest.mark.parametrize(
    "errors",
    [
        (REFUSED.format(36149),),
        ("no space left on device",),
        (REFUSED.format(34327), REFUSED.format(34327)),
    ],
)
def test_other_failures_are_told(errors: tuple[str, ...], engine: Any) -> None:
    engine(*errors)
    with pytest.raises(DockerError):
        pull.fetch("trainyard/trainer:1", "sha256:0", 36149)
