"""What went wrong with a run, as data: found by its nodes, its launcher, its ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Codes that only root on a node gives (role training_run), or this machine: the word of a rank, or
# of the launcher in its container, is none of these. schemas/ has what each of them gives.
OF_OTHERS = frozenset(
    {
        "container_killed",
        "container_out_of_memory",
        "engine_gone",
        "file_of_other_node",
        "module_of_project_missing",
        "files_beyond_limits",
        "files_refused",
        "gang_incomplete",
        "gpu_ecc_errors",
        "gpu_lost",
        "gpu_xid_errors",
        "host_unreachable",
        "node_out_of_memory",
        "program_error",
        "program_not_executable",
        "program_not_in_image",
        "rank_elsewhere",
        "ranks_at_different_lines",
        "rank_ended_by_kill",
        "rank_ended_early",
        "share_failed",
    }
)


@dataclass(frozen=True)
class Finding:
    """One thing that was found wrong.

    Attributes:
        code: what it is; `signatures.yml` has the words for it.
        values: the particulars that the words are filled in with.
        path: the file it stands in, relative to the run directory.
        host, rank: whom it is about, where that is known.
        proof: lines that prove it; empty where the file itself is the proof.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    host: str | None = None
    rank: int | None = None
    proof: tuple[str, ...] = ()


def parse_finding(
    document: Any, path: str, host: str | None = None, rank: int | None = None
) -> Finding | None:
    """Build a finding from a decoded object; None where it is none.

    Args:
        host, rank: whose file it is; what the values say of them counts more.
    """
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        return None
    values = document.get("values")
    values = values if isinstance(values, dict) else {}
    named_rank = values.get("rank")
    return Finding(
        code=document["code"],
        values=values,
        path=path,
        host=str(values["host"]) if "host" in values else host,
        rank=named_rank if isinstance(named_rank, int) else rank,
    )


def parse_finding_of_ranks(
    document: Any, path: str, host: str | None = None, rank: int | None = None
) -> Finding | None:
    """Build a finding from what a rank or the launcher wrote; None where it is none of theirs."""
    finding = parse_finding(document, path, host, rank)
    return None if finding is None or finding.code in OF_OTHERS else finding
