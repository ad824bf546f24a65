"""`summary.json`: a run in one object."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from yard.core.errors import Exit
from yard.core.files import in_form, read_json, write_json
from yard.core.words import percent, printable
from yard.plays.contract import NOTHING_STARTED
from yard.runs.diagnosis import Diagnosis, diagnose
from yard.runs.manifest import NOT_OURS, iso, other_version
from yard.runs.metrics import Metric, of_event
from yard.runs.readings import last_values
from yard.runs.record import RunRecord
from yard.runs.useful_time import effective_training_time_ratio
from yard.runs.world import Resumed

# Codes of findings about what did not come home; see `LeftBehind`.
FILES_REFUSED, FILES_BEYOND_LIMITS = "files_refused", "files_beyond_limits"
# The code of a finding: a share took no copies, see `training_run_share`.
SHARE_FAILED = "share_failed"
GPU_LOST, GPU_ECC_ERRORS, GPU_XID_ERRORS = "gpu_lost", "gpu_ecc_errors", "gpu_xid_errors"
# What the report calls a run that is not over; the file never has it.
RUNNING = "running"
LEFT_NOTHING = (
    "the program ended well and left nothing: no file in $TRAINYARD_OUTPUT_DIR, "
    "$TRAINYARD_CHECKPOINT_DIR or its working directory, no metrics, and nothing in a log. "
    "Many examples do nothing, without a word, where a node has fewer than two GPUs; others do "
    "their work only under `if __name__ == '__main__'`. See whether it trained at all."
)
# A program that is over so soon, in seconds, has most likely found a reason to do nothing. Imports
# alone take longer on a busy machine: then its ranks held no connections.
AT_ONCE, AT_ONCE_UNCONNECTED = 10, 60
LEFT_WORDS = (
    "the program was over soon, and left no file and no metrics. Many examples do "
    "nothing where a node has fewer than two GPUs. See whether it trained at all. Its last "
    "output:"
)
MOST_WORDS = 200
# Loading or exchange that takes this share of a step is named as what keeps GPUs idle.
IN_THE_WAY = 0.25
CHANCE_REMEDY = (
    "Look at the training loss in the report. Where it does not fall, try LR= a tenth or ten times "
    "as high, and more EPOCHS= or TRAIN_IMAGES=: large models need many steps. Where it falls, "
    "the training images differ from the test images, or the labels of one of the two are wrong."
)
NEVER_CONNECTED = (
    "no rank ever held a connection to another node: each node trained by itself, and the ranks "
    "did not share what they learned. torch.distributed.init_process_group(), hvd.init(), or the "
    "Accelerator of accelerate brings the ranks together; without it, DistributedDataParallel and "
    "distributed samplers see a world of one. If each rank is meant to work alone, nothing is "
    "wrong."
)


@dataclass(frozen=True)
class LeftBehind:
    """Files of ranks that did not come home from a node; see the schema of `Summary`."""

    host: str
    code: str
    files: int
    names: str


@dataclass(frozen=True)
class Summary:
    """How a run went. schemas/summary.schema.json says what each field is."""

    run_id: str
    name: str | None
    status: str
    exit_status: int
    launcher_exit_status: int | None
    model: str
    dataset: str | None
    engine: str | None
    precision: str | None
    world_size: int | None
    hosts: tuple[str, ...]
    nodes: int
    procs_per_node: int | str
    batch_per_rank: int | None
    epochs: int | None
    steps: int
    train_images: int | None
    train_images_available: int | None
    test_images: int | None
    images_per_second: float | None
    final_loss: float | None
    test_accuracy: float | None
    seconds_total: float | None
    seconds_to_first_step: float | None
    started_at: str | None
    finished_at: str | None
    diagnosis: Diagnosis | None
    missing_hosts: tuple[str, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    attempts: int = 1
    readings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    effective_training_time_ratio: float | None = None
    resumed: Resumed | None = None
    test_loss: float | None = None
    best_epoch: int | None = None
    best_test_accuracy: float | None = None
    validation_accuracy: float | None = None
    validation_loss: float | None = None
    validation_images: int | None = None
    test_top5: float | None = None
    test_classes: Mapping[str, float | None] = field(default_factory=dict)
    test_confusion: Sequence[Sequence[int]] = ()

    @property
    def subject(self) -> str:
        """What was trained, like `vit on cifar10`, or the program's name alone."""
        return subject_of(self.model, self.dataset)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_summary(run: Path) -> Summary | None:
    """Read the summary of a run directory; None while the run has none.

    Raises:
        OtherVersionError: a newer version wrote it, or it is damaged.
    """
    document = read_json(run / "summary.json")
    if document is None:
        return None
    try:
        summary: Summary = in_form(Summary, document)
        return summary
    except NOT_OURS as error:
        raise other_version(run / "summary.json", error) from error


def is_over(run: Path) -> bool:
    """Whether a run has a summary, of this version of yard or another one."""
    return read_json(run / "summary.json") is not None


def write_summary(run: Path, summary: Summary) -> None:
    """Write the summary into its run directory."""
    write_json(run / "summary.json", summary.to_json())


def summarise(record: RunRecord) -> Summary:
    """Make the summary of a run that is over, from what was collected of it."""
    exit_status = run_exit_status(record)
    status = {Exit.DONE: "succeeded", Exit.INTERRUPTED: "stopped"}.get(exit_status, "failed")
    summary = _summary(record, status, exit_status, record.manifest.launch.finished_at)
    return replace(
        summary,
        diagnosis=diagnose(record) if status == "failed" else None,
        missing_hosts=() if exit_status == Exit.UNFIT else record.missing_hosts,
        left_behind=files_left_behind(record),
        warnings=(*summary.warnings, *(_warnings(record) if status == "succeeded" else ())),
    )


def summarise_so_far(record: RunRecord, now: float) -> Summary:
    """Say how a run goes that is not over at `now`, in Unix seconds; never written to a file."""
    return replace(_summary(record, RUNNING, Exit.DONE, now), finished_at=None)


def _summary(
    record: RunRecord, status: str, exit_status: Exit, finished_at: float | None
) -> Summary:
    """What both have, for a run until `finished_at` (Unix seconds)."""
    configuration = {**record.manifest.configuration, **record.config}
    ends = of_event(record.metrics, "end")
    epochs = of_event(record.metrics, "epoch")
    losses = [metric.loss for metric in of_event(record.metrics, "step") if metric.loss is not None]
    tested = [m for m in (*epochs, *ends) if m.test_accuracy is not None]
    validated = [m for m in epochs if m.validation_accuracy is not None]
    seconds_total = _since(record.manifest.started_at, finished_at)
    return Summary(
        run_id=record.run_id,
        name=record.manifest.name,
        status=status,
        exit_status=int(exit_status),
        launcher_exit_status=record.launcher_exit_status,
        model=configuration["model"],
        dataset=configuration.get("dataset"),
        engine=configuration.get("engine"),
        precision=configuration.get("precision"),
        world_size=_world_size(record),
        hosts=record.hosts,
        nodes=record.manifest.configuration["nodes"],
        procs_per_node=record.manifest.configuration["procs_per_node"],
        batch_per_rank=configuration.get("batch_per_rank"),
        epochs=configuration.get("epochs"),
        steps=_steps(record),
        train_images=_first_known(record.world.train_images, configuration.get("train_images")),
        train_images_available=_first_known(
            record.world.train_images_available, configuration.get("train_images_available")
        ),
        test_images=record.world.test_images,
        images_per_second=_throughput(ends, epochs, record.metrics),
        final_loss=ends[-1].loss if ends else (losses[-1] if losses else None),
        test_accuracy=tested[-1].test_accuracy if tested else None,
        test_loss=tested[-1].test_loss if tested else None,
        best_epoch=ends[-1].best_epoch if ends else None,
        best_test_accuracy=ends[-1].best_test_accuracy if ends else None,
        validation_accuracy=validated[-1].validation_accuracy if validated else None,
        validation_loss=validated[-1].validation_loss if validated else None,
        validation_images=record.world.validation_images,
        test_top5=ends[-1].test_top5 if ends else None,
        test_classes=_by_class(ends[-1]) if ends else {},
        test_confusion=tuple(ends[-1].test_confusion or ()) if ends else (),
        seconds_total=seconds_total,
        seconds_to_first_step=_since(record.manifest.started_at, first_step_time(record)),
        started_at=iso(record.manifest.started_at),
        finished_at=iso(finished_at),
        diagnosis=None,
        attempts=record.attempts,
        readings=last_values(record.readings),
        warnings=(
            *(silence.text for silence in record.silences),
            *record.left_processes,
            *record.container_files,
            *_share_warnings(record),
            *_gpu_warnings(record),
            *_heat_warnings(record),
            *_idle_warnings(record),
            *dict.fromkeys(
                f"W&B: {_shown(metric.wandb_refused)}"
                for metric in record.metrics
                if metric.wandb_refused
            ),
        ),
        effective_training_time_ratio=effective_training_time_ratio(record.metrics, seconds_total),
        resumed=record.world.resumed,
    )


def files_left_behind(record: RunRecord) -> tuple[LeftBehind, ...]:
    """What ranks left that did not come home, as the nodes say."""
    return tuple(
        LeftBehind(
            host=finding.host or "?",
            code=finding.code,
            files=_count(finding.values.get("files")),
            names=str(finding.values.get("names", "")),
        )
        for finding in record.findings
        if finding.code in (FILES_REFUSED, FILES_BEYOND_LIMITS)
    )


def run_exit_status(record: RunRecord) -> Exit:
    """How the run itself ended.

    A run is done when mpirun ended with 0, the trainer wrote its last line and every task of the
    launch went well. One that had finished before the user asked to stop is not called stopped.
    Of a program of the user's own there is nothing but its status to tell it by.
    """
    launch = record.manifest.launch
    ended_well = record.is_project or bool(of_event(record.metrics, "end"))
    if (
        record.launcher_exit_status == 0
        and ended_well
        and launch.playbook in ("successful", "cancelled")
    ):
        return Exit.DONE
    if record.stop_requested:
        return Exit.INTERRUPTED
    # What an attempt before this one has left is put aside (attempts/).
    left = record.rank_logs or record.metrics or record.readings
    never_began = record.attempts == 1 and not left
    unreachable = any(failure.unreachable for failure in launch.failures)
    if never_began and (launch.phase in NOTHING_STARTED or unreachable):
        return Exit.UNFIT
    return Exit.FAILED


def first_step_time(record: RunRecord) -> float | None:
    """When the first step was done, on the control node's clock, in Unix seconds.

    The metrics line has the node's clock, which on real sites may be off. It is believed as far as
    it fits what was seen here: the step was not there in one poll, and was in the next.
    """
    launch = record.manifest.launch
    steps = [metric.time for metric in of_event(record.metrics, "step")]
    steps += [
        # Without a time of its own it was done when it was seen.
        launch.first_step_before if reading.time is None else reading.time
        for reading in record.readings
        if reading.step is not None and launch.first_step_before is not None
    ]
    if not steps or launch.first_step_after is None or launch.first_step_before is None:
        return None
    return min(max(steps[0], launch.first_step_after), launch.first_step_before)


def subject_of(model: str, dataset: str | None) -> str:
    """What a run trains, for people."""
    return model if dataset is None else f"{model} on {dataset}"


def _world_size(record: RunRecord) -> int | None:
    """The ranks; those of a program of the user's own are taken to be as many as were begun."""
    if not record.is_project:
        return record.world.world_size
    procs_per_node = record.manifest.configuration["procs_per_node"]
    if isinstance(procs_per_node, str):  # as many as each node carries
        ranks = record.world.world_size
    else:
        ranks = len(record.hosts) * procs_per_node
    return ranks if record.rank_logs and ranks else None


def _steps(record: RunRecord) -> int:
    steps = [reading.step for reading in record.readings if reading.step is not None]
    return max((*(metric.step for metric in record.metrics), *map(int, steps)), default=0)


def _share_warnings(record: RunRecord) -> tuple[str, ...]:
    """Whose checkpoints and outputs are not all on the share that the site names."""
    return tuple(
        f"checkpoints and outputs of {finding.host or '?'} could not all be copied to "
        f"{_shown(finding.values.get('path'))}: {_shown(finding.values.get('message'))}. "
        "They are in the run's directory here."
        for finding in record.findings
        if finding.code == SHARE_FAILED
    )


def _gpu_warnings(record: RunRecord) -> tuple[str, ...]:
    said = {
        GPU_LOST: "stopped answering",
        GPU_ECC_ERRORS: "had uncorrected errors of its memory",
        GPU_XID_ERRORS: "had faults that the driver reported",
    }
    return tuple(
        f"GPU {_shown(finding.values.get('gpu'))} of {finding.host or '?'} {said[finding.code]} "
        "during the run: make verify looks at it."
        for finding in record.findings
        if finding.code in said
    )


def _heat_warnings(record: RunRecord) -> tuple[str, ...]:
    return tuple(
        f"GPU {heat.gpu} of {heat.host} was so hot that it slowed itself down, in "
        f"{heat.slowed} of the last {heat.samples} looks at it: see what cools it."
        for heat in record.heat
    )


def _idle_warnings(record: RunRecord) -> tuple[str, ...]:
    """How little the GPUs had to do, what of a step was in the way, and what helps."""
    if record.idle_gpus is None:
        return ()
    told = f"GPUs were busy {record.idle_gpus:.0f} % of the time"
    steps = [m for m in record.metrics if m.event == "step" and m.compute_seconds is not None]
    loading, exchange, computing = (
        sum(getattr(step, name) or 0.0 for step in steps)
        for name in ("data_seconds", "communication_seconds", "compute_seconds")
    )
    whole, longer = loading + exchange + computing, max(loading, exchange)
    if not whole or longer / whole < IN_THE_WAY:
        return (f"{told}: a larger BATCH= gives them more to do in a step",)
    took = f"took {percent(longer / whole)} of a step"
    if loading >= exchange:
        helps = 'more threads that read images help, ARGS="--set workers=16"'
        return (f"{told}; loading images {took}: {helps}",)
    helps = "a larger BATCH= exchanges less often, and so does a faster TRANSPORT="
    return (f"{told}; waiting for other ranks {took}: {helps}",)


def _shown(value: Any) -> str:
    """A text of a node, which may say anything, as it can be shown."""
    return printable(str(value))[:MOST_WORDS]


def _warnings(record: RunRecord) -> tuple[str, ...]:
    if not record.is_project:
        return _chance_warnings(record)
    if (_world_size(record) or 1) == 1 or record.missing_hosts:
        return ()
    # Each log begins with a line of ours, about who writes it.
    silent = all(len(log.text.splitlines()) <= 1 for log in record.rank_logs)
    left = record.left_files or record.readings or files_left_behind(record)
    found = {
        LEFT_NOTHING: silent and not left,
        _left_words(record): not silent and not left and _was_over_at_once(record),
        NEVER_CONNECTED: record.never_connected,
    }
    return tuple(warning for warning, is_so in found.items() if is_so)


def _by_class(end: Metric) -> dict[str, float | None]:
    """Of each class, the fraction of its test images that were classified right."""
    names, matrix = end.classes or [], end.test_confusion or []
    return {
        name: row[number] / sum(row) if sum(row) else None
        for number, (name, row) in enumerate(zip(names, matrix, strict=True))
    }


def _chance_warnings(record: RunRecord) -> tuple[str, ...]:
    """Say so where the trainer's model does no better than guessing."""
    classes, images = record.world.classes, record.world.test_images
    accuracies = [m.test_accuracy for m in record.metrics if m.test_accuracy is not None]
    if not (classes and images and accuracies):
        return ()
    chance = 1 / classes
    # Guessing is a binomial distribution: this far above its mean it comes once in 700 runs.
    most = chance + 3 * (chance * (1 - chance) / images) ** 0.5
    if accuracies[-1] > most:
        return ()
    return (
        f"test accuracy {percent(accuracies[-1])} is what guessing among {classes} classes gives: "
        f"the model has learned nothing that holds. {CHANCE_REMEDY}",
    )


def _was_over_at_once(record: RunRecord) -> bool:
    seconds = [end.ended_at - end.started_at for end in record.rank_ends if end.started_at]
    most = AT_ONCE_UNCONNECTED if record.unconnected else AT_ONCE
    return bool(seconds) and max(seconds) < most


def _left_words(record: RunRecord) -> str:
    last = next((line for log in record.rank_logs for line in log.text.splitlines()[:0:-1]), "")
    return f"{LEFT_WORDS} {printable(last.strip())[:MOST_WORDS]}"


def _throughput(
    ends: list[Metric], epochs: list[Metric], metrics: tuple[Metric, ...]
) -> float | None:
    for lines in (ends, epochs, of_event(metrics, "step")[1:]):
        rates = [metric.images_per_second for metric in lines if metric.images_per_second]
        if rates:
            return sum(rates) / len(rates)
    return None


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - start, 3)


def _count(value: Any) -> int:
    """A number of files; a node that is not to be trusted may say something else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _first_known(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)
