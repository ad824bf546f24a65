"""`scaling.html`: what several nodes bring over one, with the curves of both runs."""

from pathlib import Path

from yard.core.words import plural
from yard.pages.charts import comparison_charts
from yard.pages.page import render
from yard.runs.record import read_run
from yard.runs.scaling import Scaling
from yard.screen.scaling import bars


def scaling_page(runs: Path, result: Scaling) -> str:
    """The result as HTML, with the curves of both runs."""
    points = (result.one, result.many)
    metrics = {
        plural(point.nodes, "node"): read_run(runs / point.run_id).metrics for point in points
    }
    times = f"{result.training.speed_up:.2f} times as fast on {plural(result.many.nodes, 'node')}"
    return render(
        "scaling.html.j2",
        title=f"{result.model} on {result.dataset}: {times}",
        result=result,
        points=points,
        bars=bars(result),
        charts=comparison_charts(metrics),
    )
