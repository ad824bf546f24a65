"""Reads the numbers of a page's charts, as its script does."""

import json
import re
from array import array
from base64 import b64decode
from typing import Any


def numbers_of(page: str) -> list[dict[str, Any]]:
    """Every chart of a page, in their order."""
    return [
        json.loads(text)
        for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    ]


def points_of(page: str, number: int) -> dict[str, list[tuple[float, float]]]:
    """The points of a chart's series by their labels."""
    columns: list[list[float]] = []
    points: dict[str, list[tuple[float, float]]] = {}
    for place, chart in enumerate(numbers_of(page)):
        for one in chart["series"]:
            if isinstance(one["x"], str):
                columns.append(unpacked(one["x"]))
            elif not 0 <= one["x"] < len(columns):
                raise ValueError(f"column {one['x']} of {len(columns)}")
            if place == number:
                x = columns[-1 if isinstance(one["x"], str) else one["x"]]
                points[one["label"]] = list(zip(x, unpacked(one["y"]), strict=True))
    return points


def unpacked(text: str) -> list[float]:
    """The numbers that `yard.pages.plot.packed` packed."""
    return [float(value) for value in array(text[0], b64decode(text[1:]))]
