"""Faults of the checkpoints that a run is resumed from."""

import json
import os
import re

from commands import BackgroundRun
from trainings import SHORTEST

from faults.fault import Ledger


def test_truncated_checkpoint_is_refused_and_the_one_before_is_used(ledger: Ledger) -> None:
    options = {**SHORTEST, "EPOCHS": 3}
    whole = BackgroundRun(**options)
    assert whole.finish().status == 0
    newest = whole.directory / "checkpoints/epoch-3.pt"
    os.truncate(newest, newest.stat().st_size // 2)
    resumed = BackgroundRun(**options, RESUME=whole.run_id)
    assert resumed.finish().status == 0
    log = (resumed.directory / "logs/rank-0.log").read_text()
    assert re.search(r"refused: cannot read the checkpoint \S+/epoch-3\.pt: its sha256 is", log)
    # It begins after epoch 2, and ends to the bit where the whole run ended.
    ends = [
        json.loads((run.directory / "metrics.jsonl").read_text().splitlines()[-1])
        for run in (whole, resumed)
    ]
    assert resumed.summary()["steps"] == whole.summary()["steps"] == 12
    assert [end["loss"] for end in ends] == [ends[0]["loss"]] * 2
    assert [end["test_loss"] for end in ends] == [ends[0]["test_loss"]] * 2
    ledger.conclude("checkpoint truncated, RESUME=", resumed, "the one before is used")
