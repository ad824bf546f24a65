// Draws the page's charts with uPlot: values under pointer, finger or arrow keys, and one x axis for
// all charts whose x counts the same.
"use strict";
const HEIGHT = 236, DIGIT = 7.4;  // CSS pixels: of a chart, and of a digit of 12 pixels in the page's fonts
const SECONDS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((m) => 60 * m), ...[1, 2, 3, 6, 12, 24, 48, 168].map((h) => 3600 * h)];
const clock = (seconds) => {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60;
  return h ? `${h}:${two(m)}:${two(whole % 60)}` : `${m}:${two(whole % 60)}`;
};
const number = (value, digits = 4) => value !== 0 && Math.abs(value) < 1e-3
  ? value.toExponential(2).replace(/\.?0+e/, "e")
  : value.toLocaleString("en", Math.abs(value) < 1000 ? { maximumSignificantDigits: digits } : { maximumFractionDigits: 1 });
// Labels of an axis have the digits that tell them apart.
const written = (step) => {
  const digits = step.toFixed(12).replace(/0+$/, "").split(".")[1].length;
  return (v) => digits > 6 ? v.toExponential(2) : v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const columns = [];
const unpack = (text) => {
  const bytes = Uint8Array.from(atob(text.slice(1)), (character) => character.charCodeAt(0));
  return new (text[0] === "d" ? Float64Array : Float32Array)(bytes.buffer);
};
// An x is written where it is needed first, and is a number of `columns` from then on.
const column = (x) => typeof x === "number" ? columns[x] : columns[columns.push(unpack(x)) - 1];

// Charts that share an x axis: `whole` is all of it, `shown` what is zoomed to, if anything is.
const axes = new Map();
let moved = 0;  // when a value was last looked at, in milliseconds

class XAxis {
  constructor(key) { this.key = key; this.plots = []; this.whole = [Infinity, -Infinity]; this.shown = null; }
  hold(...values) { this.whole = [Math.min(this.whole[0], ...values), Math.max(this.whole[1], ...values)]; }
  get all() { const [a, b] = this.whole; return a < b ? [a, b] : [a - 1, b + 1]; }
  get range() { return this.shown ?? this.all; }
  zoom(from, to) {
    const [first, last] = this.all, width = Math.min(to - from, last - first);
    from = Math.max(first, Math.min(from, last - width));
    this.shown = width > 0 && width < last - first ? [from, from + width] : null;
    for (const plot of this.plots) {
      plot.setScale("x", { min: this.range[0], max: this.range[1] });
      plot.root.closest("figure").querySelector("button").hidden = !this.shown;
    }
    // What is followed at its end goes on with it when the page shows itself anew.
    const kept = [...axes.values()].filter((axis) => axis.shown).map(
        (axis) => [axis.key, axis.shown[0], axis.shown[1] < axis.all[1] ? axis.shown[1] : null]);
    history.replaceState({ kept }, "");
  }
  restore([, from, to]) { this.zoom(from, to ?? this.all[1]); }
}

// The series on top of each other: their sums, and what is between two of them.
const heap = (data) => data.slice(1).reduce(
    (sums, ys) => [...sums, ys.map((y, i) => y + (sums.length ? sums.at(-1)[i] : 0))], []);

const drawMarks = (marks) => (u) => {
  const { ctx, bbox } = u, ratio = uPlot.pxRatio;
  let free = 0;  // words that would lie on others are left out
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--bad");
  ctx.lineWidth = 1.5 * ratio;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.font = `600 ${12 * ratio}px ${getComputedStyle(u.root).fontFamily}`;
  for (const mark of marks) {
    const x = u.valToPos(mark.x, "x", true), width = ctx.measureText(mark.label).width + 10 * ratio;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top - 16 * ratio);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const left = x + width > bbox.left + bbox.width ? x - width : x;
    if (left < free) continue;
    ctx.fillText(mark.label, left + 5 * ratio, bbox.top - 6 * ratio);
    free = left + width;
  }
  ctx.restore();
};

const optionsOf = (chart, axis, data, figure) => {
  const at = (x) => chart.axis === "clock" ? clock(x) : number(x, 9);
  // Without a cursor the legend has the last values.
  const value = (k) => {
    const last = data[k].findLast((y) => y !== undefined);
    return (u, _, series, i) => {
      const y = u.cursor.left < 0 ? last : data[k][i];
      return y === undefined ? "–" : k ? number(y) : at(y);
    };
  };
  const text = { stroke: () => colour("--muted"), font: `12px ${getComputedStyle(figure).fontFamily}`, ticks: { show: false } };
  return {
    width: figure.querySelector(".plot").clientWidth,
    height: HEIGHT,
    padding: [chart.marks.length ? 22 : 8, 12, 0, 0],
    scales: {
      x: { time: false, range: () => axis.range },
      y: { range: (u, low, high) => {
        if (low === null) return [0, 1];
        const [from, to] = uPlot.rangeNum(low, high, 0.08, true);
        return [chart.fromZero ? Math.min(0, low) : from, chart.top !== null && high <= chart.top ? chart.top : to];
      } },
    },
    axes: [
      { ...text, label: chart.x, labelSize: 18, labelFont: text.font, size: 26, space: 60, grid: { show: false },
        incrs: chart.axis === "clock" ? SECONDS : undefined,
        values: (u, values) => {
          const whole = values.filter(Number.isInteger).length > 1;
          return values.map((v) => chart.axis === "clock" ? clock(v) : whole && !Number.isInteger(v) ? "" : number(v, 9));
        } },
      { ...text, grid: { stroke: () => colour("--grid"), width: 1 }, space: 34, values: (u, values, i, space, step) => values.map(written(step)),
        size: (u, values) => 12 + DIGIT * Math.max(1, ...(values ?? []).map((v) => v.length)) },
    ],
    series: [
      { label: chart.axis === "clock" ? "after" : chart.x, value: value(0) },
      ...chart.series.map((one, k) => ({
        label: one.label,
        class: one.faint ? "faint" : null,
        stroke: () => one.edge ? "transparent" : colour(one.colour) + (one.faint ? "80" : ""),
        fill: chart.stacked ? () => colour(one.colour) + "d8" : undefined,
        dash: one.faint ? [3, 4] : undefined,
        width: one.faint ? 1.5 : 2,
        points: { size: one.dots ? 7 : 5, fill: () => colour(one.colour), ...(one.dots ? { show: true } : one.edge ? { show: false } : {}) },
        value: value(k + 1),
      })),
    ],
    bands: chart.stacked
      ? chart.series.slice(1).map((_, k) => ({ series: [k + 2, k + 1] }))
      : chart.series.flatMap((one, k) => one.edge && one.label === "highest"
        ? [{ series: [k + 1, k + 2], fill: () => colour(one.colour) + "2e" }] : []),
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      hover: { prox: 30 },
      sync: { key: axis.key, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      bind: { dblclick: () => () => axis.zoom(...axis.all) },
    },
    legend: {
      mount: (u, table) => figure.querySelector(".legend").append(table),
      markers: { width: 0, fill: (u, k) => `var(${chart.series[k - 1].colour})` },
    },
    hooks: {
      draw: [drawMarks(chart.marks)],
      setCursor: [(u) => { if (u.cursor.left >= 0) moved = Date.now(); }],
      setSelect: [(u) => {
        const { left, width } = u.select;
        if (width < 1) return;
        axis.zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }],
    },
  };
};

// Arrow keys go from point to point, or from pixel to pixel where these are fewer; + and - zoom.
const onKey = (u, axis) => (event) => {
  const xs = u.data[0], [from, to] = axis.range, width = to - from;
  const last = xs.length - 1;
  let i = u.cursor.idx ?? -1;
  const visible = xs.reduce((n, x) => n + (x >= from && x <= to), 0);
  const stride = Math.max(1, Math.round(visible / u.over.clientWidth));
  const goals = { ArrowLeft: i - stride, ArrowRight: i + stride, Home: 0, End: last };
  const middle = i < 0 ? (from + to) / 2 : xs[i];
  if (event.key in goals) {
    i = Math.max(0, Math.min(last, goals[event.key]));
    if (xs[i] < from) axis.zoom(xs[i], xs[i] + width);
    else if (xs[i] > to) axis.zoom(xs[i] - width, xs[i]);
    u.setCursor({ left: u.valToPos(xs[i], "x"), top: 1 });
  } else if ("+=-".includes(event.key)) {
    const factor = event.key === "-" ? 2 : 0.5;
    axis.zoom(middle - (middle - from) * factor, middle + (to - middle) * factor);
  } else if (event.key === "Escape") {
    u.setCursor({ left: -10, top: -10 });
    axis.zoom(...axis.all);
  } else return;
  event.preventDefault();
};

// One finger shows values, two zoom; up and down still scroll the page.
const followFingers = (u, axis) => {
  const fingers = new Map();
  const place = (event) => event.clientX - u.over.getBoundingClientRect().left;
  u.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") fingers.set(event.pointerId, [place(event), u.posToVal(place(event), "x")]);
  });
  u.over.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.get(event.pointerId)[0] = place(event);
    const [[p, x], [q, y]] = [...fingers.values(), []];
    if (fingers.size === 1) u.setCursor({ left: p, top: 1 });
    else if (p !== q && (y - x) / (q - p) > 0) {
      const scale = (y - x) / (q - p);  // the points of the data stay under the fingers
      axis.zoom(x - p * scale, x + (u.over.clientWidth - p) * scale);
    }
  });
  for (const end of ["pointerup", "pointercancel"]) u.over.addEventListener(end, (event) => fingers.delete(event.pointerId));
};

const figures = [...document.querySelectorAll("figure.chart")].map((figure) => {
  const chart = JSON.parse(figure.querySelector("script").textContent);
  const tables = chart.series.map((one) => [column(one.x), unpack(one.y)]);
  const data = tables.length > 1 ? uPlot.join(tables) : tables[0];
  const key = `${chart.axis} ${chart.x}`;
  if (!axes.has(key)) axes.set(key, new XAxis(key));
  const axis = axes.get(key);
  axis.hold(data[0][0], data[0].at(-1), ...(chart.axis === "clock" ? [0] : []));
  return { figure, chart, data, axis };
});
const plots = figures.map(({ figure, chart, data, axis }) => {
  const place = figure.querySelector(".plot"), legend = figure.querySelector(".legend");
  const shown = chart.stacked ? [data[0], ...heap(data)] : data;
  const u = new uPlot(optionsOf(chart, axis, data, figure), shown, place);
  axis.plots.push(u);
  place.addEventListener("keydown", onKey(u, axis));
  // What keys lead to is read out; what the pointer touches would be too much.
  place.addEventListener("keydown", () => { legend.ariaLive = "polite"; });
  place.addEventListener("blur", () => { legend.ariaLive = "off"; u.setCursor({ left: -10, top: -10 }); });
  figure.querySelector("button").addEventListener("click", () => axis.zoom(...axis.all));
  followFingers(u, axis);
  for (const name of legend.querySelectorAll("tr:not(:first-child) th")) {
    name.tabIndex = 0;
    name.addEventListener("keydown", (event) => { if (event.key === "Enter") name.click(); });
  }
  new ResizeObserver(() => u.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  return u;
});
for (const kept of history.state?.kept ?? []) axes.get(kept[0])?.restore(kept);
const redraw = () => plots.forEach((u) => u.redraw(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", redraw);
addEventListener("afterprint", redraw);
