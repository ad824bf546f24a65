"""What becomes of a request whose nodes others have: it waits, or leaves no trace."""

from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted
from yard.operations.launch import RunFollower
from yard.operations.retries import wait_unless_interrupted
from yard.operations.state import ask_nodes
from yard.plays.events import Outcome
from yard.runs.folder import STOP_MARK
from yard.screen.cluster_tables import runs_table

# Codes of problems that time solves: other runs have the node, or what is wanted of it.
HELD = frozenset({"held", "held_by_container", "taken", "gpus_too_few", "gpus_held", "ports_taken"})
# What may stand beside these: what follows from them, and a node that an operator keeps runs off.
BESIDE = frozenset({"too_few_nodes", "drained"})
# Seconds until the nodes are asked again: they double each time.
FIRST_WAIT, LONGEST_WAIT = 15.0, 120.0


def have_nodes(context: Context, follower: RunFollower, outcome: Outcome, waits: bool) -> bool:
    """Launch again and again as long as nothing is in the way but the runs of others.

    Args:
        waits: else the user is told who has the nodes.

    Returns:
        Whether there is a run: false where it was never more than a request.
    """
    wait = FIRST_WAIT
    while nodes_are_held(outcome) and not (follower.directory / STOP_MARK).exists():
        if context.interrupts.requested:
            context.console.print("Interrupted; nothing was started.")
            return False
        if not waits:
            for failure in outcome.failures:
                context.console.print(failure.message, markup=False)
            context.console.print("It is no run and leaves no record. WAIT=1 waits for nodes.")
            return False
        if wait == FIRST_WAIT:
            _say_who_has_them(context)
        if wait_unless_interrupted(context, follower.directory, wait):
            wait = min(2 * wait, LONGEST_WAIT)
            follower.waits = True
            outcome = follower.run()
    return True


def _say_who_has_them(context: Context) -> None:
    try:
        state = ask_nodes(context)
    except Interrupted:
        return
    except ClusterError as error:
        # They may answer later.
        context.console.print(f"Waiting for nodes; {error}", markup=False)
    else:
        context.console.print("Waiting for nodes; these have them:")
        context.console.print(runs_table(state.runs, state.time))
    context.console.print(
        f"The nodes are asked again after {FIRST_WAIT:g} s, then less often, up to every "
        f"{LONGEST_WAIT:g} s. Ctrl-C ends the waiting."
    )


def nodes_are_held(outcome: Outcome) -> bool:
    """Whether a launch failed because others have the nodes, and for nothing else."""
    codes = {problem.code for failure in outcome.failures for problem in failure.problems}
    return bool(codes & HELD) and codes <= HELD | BESIDE
