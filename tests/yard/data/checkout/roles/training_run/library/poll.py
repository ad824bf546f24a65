"""Ansible module of the tests, called as the verb is: where a run stands, in the real form."""

import json
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(argument_spec={"directory": {"type": "path", "required": True}})
    directory = Path(module.params["directory"])
    time.sleep(0.3)
    status = directory / "exit_status"
    finished = status.exists()
    metrics = directory / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    steps = [record for record in records if record.get("event") == "step"]
    shown = [record for record in records if record.get("event") != "step"] + steps[-1:]
    module.exit_json(
        changed=False,
        state="finished" if finished else "running" if shown else "starting",
        exit_status=int(status.read_text()) if finished else None,
        metrics=shown,
        began=(directory / "logs/rank-0.log").exists(),
        checkpoints=0.0,
        events=0.0,
        silences=[],
        output={"offset": 0, "text": ""},
        log_offset=0,
    )


if __name__ == "__main__":
    main()
