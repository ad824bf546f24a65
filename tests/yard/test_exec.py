"""What `make exec` makes of a node's answer: a status, and words."""

from pathlib import Path
from typing import Any

import pytest

from yard.commands.execute import result_of
from yard.core.errors import RequestError
from yard.plays.events import Event
from yard.plays.inventory import parse_inventory

# As Ansible has it where a module cannot be unpacked on a node
OF_A_FULL_DISK = (
    "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No usable temporary "
    "directory found in ['/tmp', '/var/tmp', '/home/ops']\n"
)
# As Ansible has it: what ssh says in a dozen lines, after words of its own
OF_A_CHANGED_KEY = (
    'Task failed: Data could not be sent to remote host "10.0.0.14". Make sure this host can be '
    "reached over ssh: @@@@@@@@@@@@@@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
    "Host key for 10.0.0.14 has changed and you have requested strict checking.\n"
    "Host key verification failed.\n"
)


@pytest.mark.parametrize(
    ("kind", "result", "status", "text"),
    [
        ("ok", {"rc": 0, "stdout": "a\n", "stderr": "b\n"}, 0, "a\nb\n"),
        ("failed", {"rc": 3, "stdout": "a"}, 3, "a"),
        ("ok", {"rc": 0, "stdout": "caf\udce9\n"}, 0, "caf\ufffd\n"),
        ("failed", {"rc": 124, "stdout": "a\n"}, 124, "a\nstopped after 60 s\n"),
        (
            "failed",
            {"msg": "Timed out after 85 second(s).", "timedout": {"period": 85}},
            124,
            "no answer within its time limit: Timed out after 85 second(s).\n",
        ),
        ("unreachable", {"msg": "No route to host"}, 255, "unreachable: No route to host\n"),
        (
            "unreachable",
            {"msg": OF_A_CHANGED_KEY},
            255,
            "unreachable: Host key for 10.0.0.14 has changed and you have requested strict "
            "checking. Host key verification failed.\n",
        ),
        # Where ssh said nothing, as of a machine that went meanwhile
        (
            "unreachable",
            {"msg": OF_A_CHANGED_KEY.partition("@")[0]},
            255,
            "unreachable: no answer\n",
        ),
        # What Ansible or ansible-runner could not take has nothing to do with time.
        ("failed", {"msg": "invalid UTF8"}, 1, "no result: invalid UTF8\n"),
        ("failed", {"rc": 127, "msg": "no python3"}, 1, "no result: no python3\n"),
        (
            "failed",
            {"msg": "Module result deserialization failed", "module_stderr": OF_A_FULL_DISK},
            1,
            "no result: nothing can be written there: df '/tmp' '/var/tmp' '/home/ops' shows what "
            "is full\n",
        ),
        ("ok", {}, 1, "no result: the output is larger than 32 MB\n"),
    ],
)
def test_an_answer_has_a_status_and_words(
    kind: str, result: dict[str, Any], status: int, text: str
) -> None:
    event = Event(f"runner_on_{kind}", 0.0, host="node1", result=result)
    assert result_of(event, 60) == (status, text)


def test_nodes_are_named_by_host_group_or_pattern() -> None:
    document = {
        "trainers": {"hosts": ["gpu01", "gpu02", "cpu01"]},
        "rack": {"hosts": ["cpu01", "gpu02", "switch"]},
    }
    inventory = parse_inventory(document, Path("lab"))
    assert inventory.select([]) == ("gpu01", "gpu02", "cpu01")
    assert inventory.select(["cpu01", "gpu*"]) == ("gpu01", "gpu02", "cpu01")
    assert inventory.select(["rack"]) == ("gpu02", "cpu01")
    with pytest.raises(RequestError, match="no node or group gpu9, x; there are: gpu01, gpu02"):
        inventory.select(["gpu9", "gpu01", "x"])
