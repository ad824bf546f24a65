"""What a monitoring asks for, in the text form of Prometheus: nodes, GPUs, runs, useful time."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from yard.runs.cluster_state import BUSY, DRAINED, FREE, ClusterState
from yard.runs.overview import UNFINISHED, UNREADABLE, WAITING, Overview
from yard.runs.summary import RUNNING

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# Each has a number, 0 too: no alert can be set on a series that comes and goes.
STATUSES = ("succeeded", "failed", "stopped", RUNNING, WAITING, UNFINISHED, UNREADABLE)
# Of a node, in its load.
OF_NODE = {
    "cpu_percent": "of all its cores, 0 to 100",
    "memory_used_bytes": "in use",
    "memory_bytes": "in all",
    "disk_free_bytes": "free where runs are",
    "disk_bytes": "size of the disk where runs are",
}
OF_GPU = {
    "utilisation_percent": "time in which it computed, 0 to 100",
    "memory_used_bytes": "of its memory, in use",
    "memory_bytes": "of its memory, in all",
}


def metrics_of(state: ClusterState | None, runs: Sequence[Overview]) -> bytes:
    """The text of all metrics.

    Args:
        state: what the nodes have told; None as long as they have not been asked.
    """
    registry = CollectorRegistry()
    registry.register(_Told([*(_of_nodes(state) if state else ()), *_of_runs(runs)]))
    return generate_latest(registry)


class _Told(Collector):
    def __init__(self, metrics: Sequence[GaugeMetricFamily]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[GaugeMetricFamily]:
        return self._metrics


def _of_nodes(state: ClusterState) -> Iterator[GaugeMetricFamily]:
    up = _gauge("node_up", "1 where a node answers and knows its runs", "node")
    busy = _gauge("node_runs", "runs on a node", "node")
    gpus = _gauge("node_gpus", "GPUs that the driver of a node reports", "node")
    loads = {name: _gauge(f"node_{name}", text, "node") for name, text in OF_NODE.items()}
    cards = {name: _gauge(f"gpu_{name}", text, "node", "gpu") for name, text in OF_GPU.items()}
    for node in state.nodes:
        up.add_metric([node.host], node.state in (FREE, BUSY, DRAINED))
        busy.add_metric([node.host], len(node.runs))
        if node.load is None:
            continue
        gpus.add_metric([node.host], len(node.load.gpus))
        for name, gauge in loads.items():
            _add(gauge, [node.host], getattr(node.load, name))
        for gpu in node.load.gpus:
            for name, gauge in cards.items():
                _add(gauge, [node.host, str(gpu.index)], getattr(gpu, name))
    silent = _gauge("run_silent_seconds", "since the newest line of its metrics", "run")
    age = _gauge("run_seconds", "since a run on the nodes took them", "run", "state")
    for run in state.runs:
        if run.since is not None:
            age.add_metric([run.run, run.state], state.time - run.since)
        told_at = run.newest.time if run.newest else None
        if told_at is not None and run.state == RUNNING:
            silent.add_metric([run.run], max(0.0, state.time - told_at))
    yield from (up, busy, gpus, *loads.values(), *cards.values(), age, silent)
    yield _gauge("nodes_asked_at_seconds", "when the nodes answered, Unix time", value=state.time)


def _of_runs(runs: Sequence[Overview]) -> Iterator[GaugeMetricFamily]:
    counts = Counter(run.status for run in runs)
    by_status = _gauge("runs", "runs of this checkout", "status")
    for status in STATUSES:
        by_status.add_metric([status], counts[status])
    yield by_status
    ratios = [
        run.summary.effective_training_time_ratio
        for run in sorted(runs, key=lambda run: run.run_id)
        if run.summary and run.summary.effective_training_time_ratio is not None
    ]
    if ratios:
        text = "of the newest run that has it: time in steps over its whole time"
        yield _gauge("useful_time_ratio", text, value=ratios[-1])


def _gauge(name: str, text: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"trainyard_{name}", text, value=value, labels=labels or None)


def _add(gauge: GaugeMetricFamily, labels: Sequence[str], value: float | None) -> None:
    if value is not None:
        gauge.add_metric(labels, value)
