"""The page of `make evaluate` and `make predict`: how much is right, and the worst mistakes."""

from collections.abc import Mapping
from typing import Any

from yard.core.words import percent
from yard.pages.page import Number, render
from yard.pages.report import class_rows


def evaluation_page(title: str, result: Mapping[str, Any]) -> str:
    """The page as HTML, of an `evaluation.json`, see trainer/predict.py."""
    measures = [("Accuracy", result["accuracy"]), ("Top-5 accuracy", result["top5"])]
    return render(
        "evaluation.html.j2",
        title=title,
        numbers=[
            Number("Images", f"{result['images']:,}", f"{result['labelled']:,} of a known class"),
            *(Number(name, percent(value)) for name, value in measures if value is not None),
        ],
        classes=class_rows(result["classes"], result["confusion"] or ()),
        worst=[
            {**entry, "answers": [(name, percent(part)) for name, part in entry["answers"]]}
            for entry in result["worst"]
        ],
        heading="Worst mistakes" if result["labelled"] else "Least certain answers",
    )
