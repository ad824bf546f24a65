"""What can go wrong, as data: a code and values, and the sentence that people read.

Whoever decides something about a failed run decides by code and values. The sentences stand here
and nowhere else; they may change, codes may not (schemas/rank_failure.schema.json and
schemas/launcher_failures.schema.json in the repository describe both).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Scalar = str | int | float

SENTENCES: Mapping[str, str] = {
    # Why a rank ended.
    "wrong_configuration": "{message}",
    "wrong_world": (
        "the world is not the one asked for: {message}. No step was taken. "
        "Look at logs/mpirun.log for how mpirun placed them."
    ),
    "no_cluster_address": (
        "{host} has no address in the training network {network}: "
        "correct cluster_network, or the machine's address"
    ),
    "loss_not_a_number": ("{message}; a smaller learning rate or a longer warm-up usually helps"),
    "share_gone": "the file system of {path} can no longer be read: {message}; it is {share}",
    "file_denied": "the account of the ranks may not read or write {path}",
    "file_system_gone": "{path} can no longer be read or written: {message}",
    "dataset_missing": (
        "no prepared data set in {path}: dataset.json is missing; prepare it first"
    ),
    "dataset_damaged": "{message}",
    "checkpoint_unusable": "{message}",
    "disk_full": "the disk of {path} is full",
    "gpu_unusable": (
        "the run was given GPUs, and PyTorch cannot compute on those of {host}: {message}"
    ),
    "gpu_out_of_memory": "{message}",
    "python_error": "{error}: {message}",
    # What a rank does while the run hangs; seconds are those since its last sign of life.
    "rank_stopped": (
        "rank {rank} on {host} (pid {pid}): stopped by a signal, no sign of life for {seconds} s"
    ),
    "rank_waits_for_share": (
        "rank {rank} on {host} (pid {pid}): waiting for the share {share}, "
        "no sign of life for {seconds} s"
    ),
    "rank_waits_for_disk": (
        "rank {rank} on {host} (pid {pid}): waiting for a disk or a share, "
        "no sign of life for {seconds} s"
    ),
    "rank_waits_for_ranks": (
        "rank {rank} on {host} (pid {pid}): waiting for other ranks, "
        "no sign of life for {seconds} s"
    ),
    "rank_waits": ("rank {rank} on {host} (pid {pid}): waiting, no sign of life for {seconds} s"),
    "rank_computes": (
        "rank {rank} on {host} (pid {pid}): computing, no sign of life for {seconds} s"
    ),
    # Why mpirun was ended, or not even started.
    "peer_silent": "no answer from {host}",
    "stalled": "no rank of this node has made progress for {seconds} s",
    "start_stalled": "the ranks have not begun to train within {seconds} s",
    "peer_unreachable": "the container on {host} ({address}) cannot be reached: {message}",
    "mpirun_killed": "mpirun on {host} ended by signal {signal} ({word})",
    "node_disk_full": "the disk of {path} is full: {bytes:,} bytes are free",
    "node_inodes_used_up": "the disk of {path} takes no more files (inodes)",
}


@dataclass(frozen=True)
class Problem:
    """One thing that went wrong; `code` is a key of `SENTENCES`."""

    code: str
    values: Mapping[str, Scalar]

    @property
    def text(self) -> str:
        """The sentence for people."""
        return SENTENCES[self.code].format_map(self.values)

    def to_json(self) -> dict[str, Any]:
        """Code and values as plain JSON values."""
        return {"code": self.code, "values": dict(self.values)}

    @classmethod
    def from_json(cls, document: Any) -> "Problem":
        """The inverse of `to_json`.

        Raises:
            ValueError: the document is no problem whose sentence can be made.
        """
        match document:
            case {"code": str(code), "values": dict(values)} if code in SENTENCES:
                scalars = all(isinstance(value, str | int | float) for value in values.values())
                problem = cls(code, values)
            case _:
                raise ValueError(f"no problem: {document!r}")
        try:
            complete = scalars and bool(problem.text)
        except (KeyError, ValueError) as error:
            raise ValueError(f"values of {code} are {values!r}") from error
        if not complete:
            raise ValueError(f"values of {code} are {values!r}")
        return problem
