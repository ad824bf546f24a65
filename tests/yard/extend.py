"""Extends a recorded run by what newer trainers write: parts of a step, utilisation, retries."""

import json
import math
from pathlib import Path
from typing import Any

GIB = 2**30


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The metrics as written."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def time_the_steps(run: Path) -> None:
    """Add what a step took: 930 ms of computing, about 100 of communication, 12 of data."""
    lines = lines_of(run)
    for line in lines:
        if line["event"] in ("step", "epoch"):
            wave = math.sin(line["step"] / 17)
            line["data_seconds"] = 0.012 + 0.004 * wave
            line["compute_seconds"] = 0.93 + 0.03 * math.sin(line["step"] / 9)
            line["communication_seconds"] = 0.1 - 0.02 * wave
    write_lines(run / "metrics.jsonl", lines)


def sample_connections(run: Path, *connected: bool | None, samples: int = 6) -> None:
    """Add samples of a program's nodes, which say whether a rank met another node's."""
    for host, value in enumerate(connected, start=1):
        lines: list[dict[str, Any]] = [
            {"time": 1795173612.0 + 5 * count, "rss_bytes": {}, "gpus": [], "connected": value}
            for count in range(samples)
        ]
        write_lines(run / f"nodes/node{host}/utilisation.jsonl", lines)


def sample_the_nodes(run: Path, hosts: int = 2, gpus: int = 0) -> None:
    """Add a sample of every node every five seconds, one of them cut off in the middle."""
    times = [line["time"] for line in lines_of(run)]
    for host in range(hosts):
        samples = []
        for count in range(int(times[-1] - times[0]) // 5):
            wave = math.sin(count / 6 + host)
            samples.append(
                {
                    "time": times[0] + 5 * count,
                    "cpu_percent": 93 + 5 * wave,
                    "memory_bytes": (3.1 + 0.1 * host) * GIB,
                    "rss_bytes": {str(host): (0.78 + 0.01 * wave) * GIB},
                    "gpus": [
                        {
                            "index": gpu,
                            "name": "NVIDIA H200",
                            "utilisation_percent": 88 + 4 * wave - gpu,
                            "memory_bytes": (61 + gpu) * GIB,
                            "power_watts": 540 + 60 * wave,
                            "temperature_celsius": 58 + 6 * wave,
                        }
                        for gpu in range(gpus)
                    ],
                }
            )
        path = run / f"nodes/node{host + 1}/utilisation.jsonl"
        write_lines(path, samples)
        with path.open("a") as file:
            file.write('{"time": 17')


def retry(run: Path, died_after: int, resumed_from: int, pause: float = 25.0) -> None:
    """Make the run one that died after a step and went on from the checkpoint of an earlier one."""
    lines = lines_of(run)
    first = [line for line in lines if line["step"] <= died_after and line["event"] != "end"]
    again = [line for line in lines if line["step"] > resumed_from]
    shift = first[-1]["time"] + pause - again[0]["time"]
    start = {**lines[0], "step": resumed_from, "time": again[0]["time"] + shift - 2}
    again = [{**line, "time": line["time"] + shift} for line in again]
    write_lines(run / "metrics.jsonl", [*first, start, *again])


def make_project(run: Path, **project: Any) -> None:
    """Make the run one of a program of the user's own, which has written nothing yet."""
    manifest = json.loads((run / "manifest.json").read_text())
    unknown = ("dataset", "epochs", "batch_per_rank", "learning_rate", "train_images")
    manifest["configuration"] |= dict.fromkeys((*unknown, "precision", "train_images_available"))
    manifest["configuration"]["model"] = "digits"
    manifest["project"] = {
        "folder": "~/digits",
        "program": ["python3", "train.py", "--lr", "1"],
        "per": "rank",
        "files": 2,
        "bytes": 120,
        "sha256": "0" * 64,
        "left_out": [],
        "git": None,
        "metrics_pattern": None,
        "packages": None,
        "resume_args": [],
        **project,
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    for name in ("metrics.jsonl", "config.json", "world.json"):
        (run / name).unlink(missing_ok=True)
    for rank, host in enumerate(("node1", "node2")):
        log = run / f"logs/rank-{rank}.log"
        log.write_text(f"rank {rank} of 2 on {host} (pid 7)\n")


def end_ranks(run: Path, *statuses: int) -> None:
    """Let the ranks of a run end one after the other, the last rank first."""
    (run / "ranks").mkdir(exist_ok=True)
    for rank, status in enumerate(statuses):
        end = {
            "rank": rank,
            "host": f"node{rank + 1}",
            "started_at": 1795173610.5,
            "ended_at": 1795173700.5 - rank,
            "exit_status": status,
            "signal": None,
        }
        (run / f"ranks/{rank}.json").write_text(json.dumps(end))
