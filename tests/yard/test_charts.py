"""Charts in a real browser: what a reader sees, and does by mouse, keys and fingers."""

import math
import sys
import time
from pathlib import Path

import pytest
from browser import do
from chart_numbers import points_of, unpacked

from yard.pages.page import render
from yard.pages.plot import Band, Chart, Mark, Series, packed

pytestmark = pytest.mark.process


def page_of(folder: Path, *charts: Chart) -> Path:
    """A page with charts and nothing else."""
    lists = dict.fromkeys(("entries", "started", "results", "changes", "code", "differences"), ())
    path = folder / "charts.html"
    path.write_text(render("comparison.html.j2", title="charts", charts=charts, **lists))
    return path


def line(label: str = "training", count: int = 101, first: int = 0, **rest: object) -> Series:
    """Points at steps first, first + 10, ...: y is a hundredth of x."""
    points = tuple((float(x), x / 100) for x in range(first, first + 10 * count, 10))
    return Series(label, points, **rest)  # type: ignore[arg-type]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Two charts by step, of which one ends earlier, and one by time."""
    few = Series("test set", ((300.0, 4.0), (600.0, 5.0)), "--c2", dots=True)
    return page_of(
        tmp_path,
        Chart("Loss", "nats", "step", (line(), few), marks=(Mark(500, "retry 1"),)),
        Chart("Rate", "rate", "step", (line(count=61),)),
        Chart("CPU", "%", "time since the command", (line("node1"),), axis="clock", top=100.0),
    )


@pytest.mark.parametrize(
    "values", [(0.0, 1.5, -2.25), (2.0**24 - 1, 7.0), (2.0**24 + 1, 2.0**40 + 1), ()]
)
def test_numbers_survive_being_packed(values: tuple[float, ...]) -> None:
    assert unpacked(packed(values)) == list(values)


def test_numbers_are_packed_alike_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed([1.0]) == "fAACAPw=="
    monkeypatch.setattr(sys, "byteorder", "big")
    assert packed([1.0]) == "fP4AAAA==", "it was turned around where it did not need to be"


def test_the_pointer_shows_values_and_without_it_the_last_ones_stand(three: Path) -> None:
    found = do(
        three,
        """
        const loss = figureOf("Loss"), rate = figureOf("Rate"), seen = [values(loss)];
        mouse(loss, "mousemove", 0.31);
        await drawn();
        seen.push(values(loss), values(rate), values(figureOf("CPU")));
        mouse(loss, "mousemove", 0.85);
        await drawn();
        return [...seen, values(loss)];
        """,
    )
    assert found == [
        {"step": "1,000", "training": "10", "test set": "5"},
        # The next value of the test set is near enough.
        {"step": "310", "training": "3.1", "test set": "4"},
        # The same step in the other chart; another x is another matter.
        {"step": "310", "training": "3.1"},
        {"after": "16:40", "node1": "10"},
        {"step": "850", "training": "8.5", "test set": "\u2013"},
    ]


def test_dragging_zooms_all_charts_of_the_same_x(three: Path) -> None:
    found = do(
        three,
        """
        const [loss, rate, cpu] = ["Loss", "Rate", "CPU"].map(figureOf), seen = [];
        const look = () => seen.push([...span(loss), ...span(rate), ...span(cpu)].map(Math.round));
        const buttons = () => [loss, rate, cpu].map(
            (figure) => figure.querySelector("button").hidden);
        look();
        await drag(loss, 0.2, 0.6);
        look();
        const high = plotOf(loss).scales.y.max, between = buttons();
        rate.querySelector("button").click();
        await drawn();
        look();
        await drag(rate, 0.5, 0.4);
        look();
        mouse(loss, "dblclick", 0.5);
        await drawn();
        look();
        return { seen, high, between, after: buttons() };
        """,
    )
    whole = [0, 1000, 0, 1000, 0, 1000]
    assert found["seen"][::2] == [whole] * 3
    # A pointer is at whole pixels, of two or three steps.
    assert found["seen"][1] == pytest.approx([200, 600, 200, 600, 0, 1000], abs=4)
    assert found["seen"][3] == pytest.approx([400, 500, 400, 500, 0, 1000], abs=4)
    # The y axis follows what is seen.
    assert 6 <= found["high"] < 7
    assert found["between"] == [False, False, True]
    assert found["after"] == [True, True, True]


def test_keys_walk_zoom_and_leave(three: Path) -> None:
    found = do(
        three,
        """
        const loss = figureOf("Loss"), seen = [];
        for (const keys of [["Home"], ["ArrowRight", "ArrowRight"], ["End"], ["ArrowLeft"]]) {
          await press(loss, ...keys);
          seen.push(values(loss).step);
        }
        await press(loss, "Home", "+", "+");
        const near = span(loss);
        await press(loss, "End");
        const far = span(loss), aloud = loss.querySelector(".legend").ariaLive;
        await press(loss, "-");
        const wider = span(loss);
        await press(loss, "Escape");
        loss.querySelector(".plot").blur();
        return [seen, near, far, wider, span(loss), aloud, values(loss).step];
        """,
    )
    assert found == [
        ["0", "20", "1,000", "990"],
        [0, 250],
        [750, 1000],
        [500, 1000],
        [0, 1000],
        "polite",
        "1,000",
    ]


def test_a_curve_can_be_hidden(three: Path) -> None:
    found = do(
        three,
        """
        const loss = figureOf("Loss"), name = loss.querySelectorAll(".legend th")[1];
        const seen = [coloured(loss, "--c1")];
        name.click();
        await drawn();
        seen.push(coloured(loss, "--c1"));
        name.focus();
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        await drawn();
        return [...seen, coloured(loss, "--c1"), coloured(loss, "--c2")];
        """,
    )
    shown, hidden, again, other = found
    assert (shown, hidden, other > 50) == (again, 0, True)


def test_one_finger_shows_values_and_two_zoom(three: Path) -> None:
    found = do(
        three,
        """
        const loss = figureOf("Loss");
        finger(loss, "pointerdown", 1, 0.4);
        finger(loss, "pointermove", 1, 0.5);
        await drawn();
        const one = [values(loss).step, span(loss)];
        finger(loss, "pointerup", 1, 0.5);
        finger(loss, "pointerdown", 1, 0.4);
        finger(loss, "pointerdown", 2, 0.6);
        finger(loss, "pointermove", 1, 0.2);
        finger(loss, "pointermove", 2, 0.8);
        await drawn();
        const apart = span(loss).map((x) => Math.round(x));
        finger(loss, "pointercancel", 1, 0.2);
        finger(loss, "pointerup", 2, 0.8);
        finger(loss, "pointermove", 2, 0.1);
        await drawn();
        return [one, apart, span(loss).map((x) => Math.round(x)),
          getComputedStyle(loss.querySelector(".u-over")).touchAction];
        """,
    )
    assert found == [["500", [0, 1000]], [333, 667], [333, 667], "pan-y"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_curves_have_the_colours_of_the_page(three: Path, dark: bool) -> None:
    found = do(
        three,
        """
        const loss = figureOf("Loss"), rate = figureOf("Rate");
        return [coloured(loss, "--c1"), coloured(loss, "--c2"), coloured(rate, "--c2"),
          coloured(loss, "--bad"), coloured(rate, "--bad"), coloured(loss, "--muted")];
        """,
        dark,
    )
    first, second, absent, mark, no_mark, words = found
    assert min(first, second, mark, words) > 50
    assert (absent, no_mark) == (0, 0)


def test_what_is_lost_is_faint_and_has_no_entry(tmp_path: Path) -> None:
    page = page_of(
        tmp_path, Chart("Loss", "nats", "step", (line("training", faint=True), line(first=1010)))
    )
    found = do(
        page,
        """
        const loss = figureOf("Loss"), entries = [...loss.querySelectorAll(".legend tr")];
        return [entries.map((row) => row.getClientRects().length > 0), coloured(loss, "--c1"),
          span(loss)];
        """,
    )
    shown, full, span = found
    assert shown == [True, False, True]
    assert 200 < full < 2500, "half of the width has the full colour"
    assert span == [0, 2010]


def test_parts_of_a_step_lie_on_each_other(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        Chart(
            *("Step time", "ms", "step"),
            (line("compute"), line("exchange", colour="--c2")),
            stacked=True,
            from_zero=True,
        ),
    )
    found = do(
        page,
        """
        const figure = figureOf("Step time"), u = plotOf(figure);
        return [u.data[1].at(-1), u.data[2].at(-1), u.scales.y.min, u.scales.y.max, values(figure)];
        """,
    )
    assert found[:3] == [10, 20, 0]
    assert 20 <= found[3] < 25
    assert found[4] == {"step": "1,000", "compute": "10", "exchange": "10"}


def test_a_band_is_between_lowest_and_highest(tmp_path: Path) -> None:
    rows = tuple((float(x), 1.0, 5.0) for x in range(50))
    mean = Series("mean", tuple((float(x), 3.0) for x in range(50)))
    page = page_of(tmp_path, Chart("GPU", "%", "step", (mean,), bands=(Band(rows),)))
    assert list(points_of(page.read_text(), 0)) == ["mean", "highest", "lowest"]
    found = do(
        page,
        """
        const figure = figureOf("GPU"), u = plotOf(figure), { data, width } = pixels(figure);
        const x = Math.round(u.valToPos(25, "x", true));
        const at = (y) => data[4 * (x + width * Math.round(u.valToPos(y, "y", true))) + 3];
        return [values(figure), [5.2, 4.3, 1.7, 0.8].map(at)];
        """,
    )
    assert found[0] == {"step": "49", "mean": "3", "highest": "5", "lowest": "1"}
    above, upper, lower, below = found[1]
    assert (above, below) == (0, 0)
    assert 20 < upper == lower < 100


def test_names_of_programs_are_text(tmp_path: Path) -> None:
    name = "</script><img src=x onerror=document.title='run'>&quot;"
    page = page_of(tmp_path, Chart(name, name, name, (line(name),), marks=(Mark(3, name),)))
    found = do(
        page,
        """
        const labels = [...document.querySelectorAll(".legend .u-label")].map((e) => e.textContent);
        return [labels, document.images.length, document.title];
        """,
    )
    assert found == [[name, name], 0, "charts"]


def test_one_point_is_a_chart(tmp_path: Path) -> None:
    page = page_of(tmp_path, Chart("Loss", "nats", "step", (Series("a", ((3, 1436.0206),)),)))
    found = do(
        page,
        'const loss = figureOf("Loss"); return [values(loss), span(loss), coloured(loss, "--c1")];',
    )
    assert found[:2] == [{"step": "3", "a": "1,436"}, [2, 4]]
    assert found[2] > 5


def test_a_million_points_open_and_zoom(tmp_path: Path) -> None:
    """None of them is left out, and the file stays small enough to be sent."""
    points = tuple((10.0 * n, 2 + math.sin(n / 99) + n % 7 / 9) for n in range(1_000_000))
    page = page_of(tmp_path, Chart("Loss", "nats", "step", (Series("training", points),)))
    assert page.stat().st_size < 11_000_000
    began = time.monotonic()
    found = do(
        page,
        """
        const loss = figureOf("Loss"), count = plotOf(loss).data[0].length;
        await drag(loss, 0.5, 0.50001 + 1 / plotOf(loss).over.clientWidth);
        const near = span(loss);
        await press(loss, ..."+".repeat(11), "End", "ArrowLeft");
        return [count, near[1] - near[0], span(loss), values(loss).step];
        """,
    )
    count, width, (low, high), step = found
    assert count == 1_000_000
    assert 0 < width < 100_000
    assert high == 9_999_990
    assert 0 < high - low < 100
    assert step == "9,999,980", "so near, the keys go from point to point"
    # It takes 7 s on two cores that others use too.
    assert time.monotonic() - began < 60
