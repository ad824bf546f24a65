// Shows the values of a chart under the pointer, the finger, or the arrow keys.
"use strict";
const clock = (seconds) => {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60;
  return h ? `${h}:${two(m)}:${two(whole % 60)}` : `${m}:${two(whole % 60)}`;
};
const number = (value) => value !== 0 && Math.abs(value) < 1e-3
  ? value.toExponential(2)
  : value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) < 1000 ? 4 : 9, maximumFractionDigits: 3 });

for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const chart = JSON.parse(figure.dataset.chart);
  const stops = [...new Set(chart.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  figure.append(tip);
  const at = (x) => chart.axis === "clock" ? clock(x) : `${chart.x} ${number(x)}`;

  for (const plot of figure.querySelectorAll(".plot")) {
    const [left, top, right, bottom, x0, x1] = plot.dataset.frame.split(" ").map(Number);
    const width = plot.viewBox.baseVal.width;
    const cursor = document.createElementNS(plot.namespaceURI, "path");
    cursor.setAttribute("class", "cursor");
    let stop = -1;

    const nearest = (list, x, of) => list.reduce((a, b) => Math.abs(of(b) - x) < Math.abs(of(a) - x) ? b : a);
    const show = (index) => {
      stop = Math.max(0, Math.min(stops.length - 1, index));
      const x = stops[stop], pixel = left + (x - x0) / (x1 - x0) * (right - left);
      cursor.setAttribute("d", `M${pixel} ${top}V${bottom}`);
      plot.append(cursor);
      tip.replaceChildren(Object.assign(document.createElement("div"), { className: "at", textContent: at(x) }));
      for (const series of chart.series) {
        const point = nearest(series.points, x, (p) => p[0]);
        if (Math.abs(point[0] - x) > (x1 - x0) / 25) continue;
        const row = document.createElement("div"), dot = document.createElement("i"), value = document.createElement("b");
        dot.style.background = `var(${series.colour})`;
        value.textContent = number(point[1]);
        row.append(dot, series.label, value);
        tip.append(row);
      }
      tip.hidden = false;
      const box = plot.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      const middle = box.left - outer.left + pixel * box.width / width;
      const beside = middle + 14 + tip.offsetWidth > outer.width - 8 ? middle - 14 - tip.offsetWidth : middle + 14;
      tip.style.left = `${Math.max(8, Math.min(beside, outer.width - tip.offsetWidth - 8))}px`;
      tip.style.top = `${box.top - outer.top + 24}px`;
    };
    const hide = () => { tip.hidden = true; cursor.remove(); };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const pixel = (event.clientX - box.left) * width / box.width;
      const x = x0 + (pixel - left) / (right - left) * (x1 - x0);
      show(stops.indexOf(nearest(stops, x, (s) => s)));
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: stop - 1, ArrowRight: stop + 1, Home: 0, End: stops.length - 1 }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
  }
}
