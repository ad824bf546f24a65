"""Brings checkpoints, events for TensorBoard and samples of the nodes home while a run goes on."""

import os
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from yard.core.context import Context
from yard.plays.contract import OFFER_CHECKPOINTS, stop_variables
from yard.plays.events import Event, Outcome
from yard.plays.play import play

# Of a run directory: where checkpoints are at home. In its working directory, which is that of a
# program of the user's own, they are the files that the program calls so.
CHECKPOINTS, WORKDIR, NODES = "checkpoints", "workdir", "nodes"
# The log of these playbooks, beside that of the launch.
LOG = "ansible-checkpoints.log"
# Seconds between two of them at the least; one that takes long is followed by a longer pause, so
# that they never take more than this share of the time. Those for events and samples, which are new
# all the time, are counted apart, so that they keep no checkpoint waiting.
SHORTEST_PAUSE = 60.0
SHARE = 0.02


@dataclass
class CheckpointCarrier:
    """Has the checkpoints of a run at home while it goes on: its nodes may die.

    A playbook of its own brings them, in a thread beside the one that follows the run. What the run
    has removed meanwhile goes here too, but nothing that was here before, from an attempt before
    perhaps. TensorBoard's events and the samples of the nodes come with them, and without new ones.
    """

    context: Context
    run: Path
    inventory: Path
    _brought: set[str] = field(default_factory=set)
    _checkpoints: float = 0.0
    _next_at: float = 0.0
    _next_samples_at: float = 0.0
    _thread: threading.Thread | None = None
    _unwanted: threading.Event = field(default_factory=threading.Event)
    _trouble: str = ""

    def look(self, checkpoints: float, hosts: Sequence[str]) -> str:
        """Begin to bring them where it is time; to be called after each poll.

        Args:
            checkpoints: when the newest one was written, Unix seconds of the node's clock; 0: none.
            hosts: the nodes of the run.

        Returns:
            Why the last ones could not be brought, once; "" where they could.
        """
        trouble, self._trouble = self._trouble, ""
        if self._thread is not None and self._thread.is_alive():
            return trouble
        now = time.monotonic()
        # A run of a minute needs none.
        self._next_samples_at = self._next_samples_at or now + SHORTEST_PAUSE
        is_new = checkpoints not in (0.0, self._checkpoints) and now >= self._next_at
        if is_new or now >= self._next_samples_at:
            self._checkpoints = checkpoints
            self._thread = threading.Thread(target=self._bring, args=(hosts, is_new), daemon=True)
            self._thread.start()
        return trouble

    def run_ends(self) -> None:
        """All files come home now: what is still on its way comes with them, and stays."""
        self._unwanted.set()

    def end(self) -> None:
        """The run is over; waits until nothing is on its way any more."""
        self.run_ends()
        if self._thread is not None:
            self._thread.join()

    def forget(self, kept: Collection[str]) -> None:
        """Remove what was brought, and is no longer among the run's checkpoints.

        Args:
            kept: their paths below the run directory.
        """
        pointed_at = {
            path.resolve() for path in (self.run / CHECKPOINTS).rglob("*") if path.is_symlink()
        }
        for name in self._brought - set(kept):
            path = self.run / name
            if path.resolve() not in pointed_at:
                path.unlink(missing_ok=True)
                self._brought.discard(name)

    def _bring(self, hosts: Sequence[str], are_checkpoints_new: bool) -> None:
        began = time.monotonic()
        before = self._files()
        names: list[str] = []

        def take(event: Event) -> None:
            if event.module == OFFER_CHECKPOINTS and event.kind == "runner_on_ok":
                names.extend(map(str, event.result.get("names", [])))

        outcome: Outcome | None = None
        try:
            outcome = play(
                self.context,
                "checkpoints",
                stop_variables(self.run.name, str(self.run)),
                take,
                log=self.run / LOG,
                inventory=self.inventory,
                unwanted=self._unwanted.is_set,
                limit=hosts,
            )
        except Exception as error:  # whatever it is, the run itself goes on
            self._trouble = f"{type(error).__name__}: {error}"
        # What else is new here came with the end of the run.
        self._brought |= (self._files() - before) & set(names)
        if self._unwanted.is_set():
            return
        if outcome is not None and outcome.ok:
            self.forget(names)
        else:
            self._checkpoints = 0.0
            if outcome is not None and outcome.failures:
                self._trouble = outcome.failures[0].message
        ended = time.monotonic()
        self._next_samples_at = ended + max(SHORTEST_PAUSE, (ended - began) / SHARE)
        if are_checkpoints_new:
            self._next_at = self._next_samples_at

    def _files(self) -> set[str]:
        """What is at home, by path below the run directory."""
        folders = [self.run / CHECKPOINTS, self.run / WORKDIR, *self._workdirs_of_nodes()]
        return {
            os.path.relpath(os.path.join(above, name), self.run)
            for folder in folders
            for above, _, names in os.walk(folder)
            for name in names
        }

    def _workdirs_of_nodes(self) -> list[Path]:
        folders = (self.run / NODES).glob(f"*/{WORKDIR}")
        return [folder for folder in folders if not folder.is_symlink()]
