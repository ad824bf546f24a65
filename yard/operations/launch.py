"""Launches a run and follows it, or follows one that goes on."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.core.errors import Detached
from yard.core.words import printable
from yard.operations.checkpoints import CheckpointCarrier
from yard.operations.lines import Lines, lines_of
from yard.operations.live_report import LiveReport
from yard.operations.stop import heed_stop, note_ended
from yard.plays.contract import (
    CHECK,
    CHOOSE_NODES,
    END_RUN,
    FOLLOW,
    NOTHING_STARTED,
    POLL_RUN,
    STOP,
    TAKE_NODE,
    launch_variables,
    phase_of,
)
from yard.plays.events import Event, Outcome, shortened
from yard.plays.play import play
from yard.runs.gathering import GATHERED, METRICS
from yard.runs.manifest import Manifest, write_manifest
from yard.runs.metrics import Metric
from yard.runs.noted import MOST_SILENCES, Silence, known_silences
from yard.screen.keys import keys_of
from yard.screen.live_progress import make_progress
from yard.screen.progress import PHASE_TEXTS, Progress
from yard.screen.question import StopQuestion
from yard.screen.training_view import View

# The playbook that goes on with a run which has been launched already.
ATTACH = "attach"
# Of so many nodes that have no part in a run it is said why.
MOST_LEFT_OUT = 8


@dataclass
class RunFollower:
    """One run of a playbook that follows a run (train or attach), and what its events tell.

    Attributes:
        limit: hosts that it may run on; none means all.
        phase: of the launch, see `yard.plays.contract`.
        brings_checkpoints: whether a playbook of its own brings them home while the run goes on.
        asks: whether a Ctrl-C on a terminal asks, once ranks run, what it is to mean.
        waits: whether it asks for nodes again that others had.
    """

    context: Context
    directory: Path
    manifest: Manifest
    playbook: str
    variables: Mapping[str, Any]
    limit: Sequence[str] = ()
    phase: str = CHECK
    brings_checkpoints: bool = True
    asks: bool = False
    waits: bool = False
    _question: StopQuestion | None = field(init=False, default=None)
    _lines: Lines[Any] = field(init=False)
    _carrier: CheckpointCarrier = field(init=False)
    _report: LiveReport = field(init=False)
    # The checkpoints that came home with the end of the run, from all nodes, and whether its first
    # node has ended.
    _kept: list[str] = field(default_factory=list)
    _launcher_ended: bool = False
    _polled_at: float | None = None
    _silences: set[Silence] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._lines = lines_of(self.directory, self.manifest)
        inventory = Path(self.manifest.inventory_path)
        self._carrier = CheckpointCarrier(self.context, self.directory, inventory)
        self._report = LiveReport(self.directory)
        if self.manifest.project is not None:
            # The log is read again from its beginning, and another attempt has another one.
            (self.directory / GATHERED).unlink(missing_ok=True)

    @property
    def view(self) -> View[Any]:
        return self._lines.view

    def run(self) -> Outcome:
        """Launch and follow to the end, or until the user stops it; updates the manifest.

        Raises:
            Detached: the user has left the run, which goes on.
        """
        self.phase = CHECK
        began_at = time.time()
        try:
            outcome = self._play(began_at)
        finally:
            self._carrier.end()
        if self._question is not None and self._question.detached:
            raise Detached
        if self._launcher_ended and outcome.ok:
            self._carrier.forget(self._kept)
        self.note_end(outcome)
        return outcome

    def note_end(self, outcome: Outcome) -> None:
        """Write down how the playbook ended."""
        if outcome.failures:
            # After a failure the playbook goes on to collect: where it failed is what counts.
            first = outcome.failures[0]
            self.phase = phase_of(first.role, first.task_file) or self.phase
        self.manifest = self.manifest.with_launch(
            playbook=outcome.status, phase=self.phase, failures=outcome.failures
        )
        write_manifest(self.directory, self.manifest)

    def _play(self, began_at: float) -> Outcome:
        interrupts = self.context.interrupts
        with make_progress(self.context.console) as progress, keys_of(sys.stdin) as keys:
            progress.view = self.view
            if self.asks and keys is not None and self.context.console.is_terminal:
                self._question = StopQuestion(keys, progress.note, interrupts.request)
                interrupts.question = self._asked
            self.context.interrupts.announce = lambda: progress.note("Stopping ...")
            progress.phase(PHASE_TEXTS[CHECK])
            outcome = play(
                self.context,
                self.playbook,
                {
                    **self.variables,
                    **launch_variables(
                        self.directory.name, str(self.directory), self.manifest.home
                    ),
                    "training_run_manifest": self.manifest.to_json(),
                },
                lambda event: self.take(event, progress, began_at),
                log=self.directory / "ansible.log",
                inventory=Path(self.manifest.inventory_path),
                unwanted=self._is_unwanted,
                limit=self.limit,
            )
            interrupts.question = None
            if outcome.cancelled and interrupts.requested:
                progress.fail()
        return outcome

    def _asked(self) -> bool:
        """Ask what a Ctrl-C is to mean; before ranks run there is nothing that could go on."""
        return self._question is not None and self.phase == FOLLOW and self._question.ask()

    def _is_unwanted(self) -> bool:
        """Whether the user has left the run, or gave make stop before anything was on the nodes."""
        if self._question is not None and self._question.answered():
            return True
        begins = self.playbook != ATTACH and self.phase in NOTHING_STARTED
        return begins and heed_stop(self.context, self.directory)

    def take(self, event: Event, progress: Progress, began_at: float) -> None:
        """Turn one event into progress; the playbook began at `began_at`, in Unix seconds."""
        phase = phase_of(event.role, event.task_file)
        if phase is not None and event.kind == "playbook_on_task_start":
            self.phase = phase
            progress.phase(PHASE_TEXTS[phase])
            if phase == STOP:
                self._carrier.run_ends()
        # A node that is not reached before may be one of those that a run can do without.
        lost = event.kind == "runner_on_unreachable" and phase == FOLLOW
        failed = event.kind == "runner_on_failed" and not event.ignored
        if phase == self.phase and (lost or failed):
            # Whoever waits for nodes has been told who has them: that is no failure each time.
            if self.waits and phase == CHECK:
                progress.forget()
            else:
                progress.fail()
        polls = event.module == POLL_RUN
        if event.task:
            progress.task(progress.view.waits_for if polls else event.task)
        if event.module == CHOOSE_NODES and event.kind == "runner_on_ok":
            self._note_nodes(event, progress)
        if event.module == TAKE_NODE and event.kind == "runner_on_ok":
            self._note_gpus(event, progress)
        if event.module == END_RUN and event.kind == "runner_on_ok":
            self._kept += map(str, event.result["checkpoints"])
            self._launcher_ended |= bool(event.result.get("launched"))
            note_ended(self.directory, event)
        if polls and "metrics" in event.result:
            self._follow(event, progress, began_at)
            if event.result.get("exit_status"):
                progress.fail()

    def _note_nodes(self, event: Event, progress: Progress) -> None:
        left_out = [shortened(str(entry)) for entry in event.result.get("left_out", [])]
        for sentence in left_out[:MOST_LEFT_OUT]:
            progress.note(f"left out, {sentence}")
        if len(left_out) > MOST_LEFT_OUT:
            progress.note(f"left out, and {len(left_out) - MOST_LEFT_OUT} more nodes")
        nodes = event.result.get("nodes", [])
        # Those of an attempt before.
        self.manifest = replace(self.manifest, gpus={})
        if nodes and tuple(nodes) != self.manifest.hosts:
            self.manifest = replace(self.manifest, hosts=tuple(nodes))
            write_manifest(self.directory, self.manifest)
            progress.note(f"nodes: {', '.join(nodes)}")

    def _note_gpus(self, event: Event, progress: Progress) -> None:
        """Write down which GPUs a node has given, and say so."""
        numbers = [int(gpu["index"]) for gpu in event.result.get("gpus", [])]
        if numbers:
            self.manifest = replace(self.manifest, gpus={**self.manifest.gpus, event.host: numbers})
            write_manifest(self.directory, self.manifest)
            shown = ", ".join(map(str, numbers))
            progress.note(f"{event.host}: GPU {shown}, port {event.result['port']}")

    def _follow(self, event: Event, progress: Progress, began_at: float) -> None:
        """Take in one poll. What is new goes to the run directory, in case its node dies."""
        received_at = event.received_at
        # What ends now comes home at once, and whole.
        if self.brings_checkpoints and event.result.get("exit_status") is None:
            newest = float(event.result.get("checkpoints", 0))
            trouble = self._carrier.look(newest, self.manifest.hosts)
            if trouble:
                progress.note(f"warning: checkpoints and samples were not copied here: {trouble}")
        new = self._lines.take(event.result, received_at)
        with (self.directory / METRICS).open("a", encoding="utf-8") as file:
            file.writelines(line.to_line() for line in new)
        printed = self._lines.listen(event.result, received_at)
        if printed.readings:
            with (self.directory / GATHERED).open("a", encoding="utf-8") as file:
                file.writelines(line.to_line() for line in printed.readings)
        if (
            self._lines.has_step([*new, *printed.readings])
            and self.manifest.launch.first_step_before is None
        ):
            previous = self._polled_at if self._polled_at is not None else began_at
            self.manifest = self.manifest.with_launch(
                first_step_after=previous, first_step_before=received_at
            )
            write_manifest(self.directory, self.manifest)
        if new or progress.view.has_begun:
            progress.phase(progress.view.phase)
        progress.output(printed.lines, printed.rows)
        for line in (*new, *printed.readings):
            progress.training(line, received_at)
            if isinstance(line, Metric) and line.wandb_refused:
                progress.note(f"warning: W&B: {shortened(printable(line.wandb_refused))}")
        if not new and not printed.readings:
            progress.goes_on()
        if printed.trouble:
            progress.note(f"warning: {printed.trouble}")
        for silence in known_silences(event.result.get("silences", [])):
            # A rank could make up ever new ones.
            if silence not in self._silences and len(self._silences) < MOST_SILENCES:
                self._silences.add(silence)
                progress.note(f"warning: {silence.text}")
        self._polled_at = received_at
        report = self._report.draw_if_due(self._lines.tail)
        if report is not None:
            progress.note(f"Report: {self.context.project.shown(report)}")
