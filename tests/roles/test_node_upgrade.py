"""What an earlier Trainyard left on a node, and this one finds there."""

import json
from pathlib import Path

from node.runs import lock

# As training_run_take wrote it up to layout 2 of the nodes' files (commit ad34ba8): one object.
LAYOUT_2 = {
    "run": "20261124T100000Z_vit_cifar10_b64_e5_n2_p1",
    "home": "/home/ada/trainyard",
    "owner": "ada",
    "since": 1795514400.0,
    "begun": 0.0,
}


def test_a_node_held_by_a_run_of_layout_2_is_held_and_given_back(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text(json.dumps(LAYOUT_2))
    assert lock.read(str(tmp_path)) == [LAYOUT_2]
    # The whole node, as before there were parts
    assert not lock.is_part(LAYOUT_2)
    other = {**LAYOUT_2, "home": "/home/bob/trainyard"}
    assert lock.own(str(tmp_path), other) is None
    lock.release(str(tmp_path), other)
    assert lock.own(str(tmp_path), LAYOUT_2) == LAYOUT_2
    lock.release(str(tmp_path), LAYOUT_2)
    # Nothing is left that an earlier version could misread
    assert list(tmp_path.iterdir()) == []
