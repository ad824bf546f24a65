"""`make scaling`: the same job on one node and on several, and what the further nodes bring."""

from dataclasses import replace
from datetime import UTC, datetime

from rich.markup import escape

from yard.commands.series import train_each
from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.core.files import write_json, write_text
from yard.core.words import plural
from yard.operations.weights import find_weights
from yard.plays.inventory import read_inventory
from yard.request.job import AS_EACH_HAS
from yard.request.own_data import with_own_data
from yard.request.resolve import resolve
from yard.request.training import GLOBAL_BATCH, RANK_BATCH, TrainRequest
from yard.runs.scaling import ROUNDS, compare, read_point
from yard.screen.scaling import show_scaling


def scaling(
    context: Context, request: TrainRequest, hold: str = RANK_BATCH, rounds: int = ROUNDS
) -> Exit:
    """Train on one node and on several, in turns, and write down what that brought.

    Args:
        hold: one of `HOLD`: with the same images of a rank in a step the global batch grows with
            the nodes; with the same images of all ranks the batch of a rank shrinks.
    """
    inventory = read_inventory(context.project, context.inventory).narrowed(request.on)
    inventory = with_own_data(context.project, inventory)
    several = replace(request, nodes=request.nodes or 2, min_nodes=None)
    if several.nodes == 1:
        raise RequestError("nodes 1: scaling compares one node with more")
    if rounds < 1:
        raise RequestError(f"ROUNDS={rounds}: must be 1 or more")
    # Of `latest` each run would be the next one's.
    weights = find_weights(context.project, request).get("weights")
    several = replace(several, weights=weights)
    many = resolve(several, inventory)
    if many.procs_per_node == AS_EACH_HAS:
        raise RequestError(
            f"processes per node {AS_EACH_HAS}: scaling compares nodes with the same number of "
            "ranks; give it as a number"
        )
    single = replace(several, nodes=1)
    if hold == GLOBAL_BATCH:
        single = replace(single, batch=many.batch_per_rank * many.nodes)
    one = resolve(single, inventory)

    scaling_id = f"scaling-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    runs = context.project.runs
    cases = {
        f"{plural(case.nodes or 1, 'node')}, round {number}": case
        for number in range(1, rounds + 1)
        for case in (single, several)
    }
    trained, status = train_each(context, scaling_id, cases)
    if status != Exit.DONE:
        context.console.print("Without this run there is nothing to compare.")
        return status
    points = list(map(read_point, trained.values()))
    result = compare(scaling_id, one, hold, points[::2], points[1::2])
    folder = runs / scaling_id
    write_json(folder / "scaling.json", result.to_json())
    show_scaling(context.console, result)
    # Drawing takes a while to import; nobody shall wait for that before the first run.
    from yard.pages.scaling import scaling_page

    write_text(folder / "scaling.html", scaling_page(runs, result))
    shown = escape(context.project.shown(folder))
    context.console.print(f"Written to {shown}/scaling.json and {shown}/scaling.html")
    return Exit.DONE
