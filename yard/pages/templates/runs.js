// Filters and sorts the table of runs.
{
  const table = document.querySelector(".sortable"), search = document.querySelector(".finder input");
  let column = -1, down = true;
  const valueOf = (row) => {
    const cell = row.cells[column], text = cell.dataset.sort ?? cell.textContent.trim();
    return text === "" ? null : isNaN(parseFloat(text)) || /^\d{8}T/.test(text) ? text : parseFloat(text);
  };
  // What is unknown comes last, whatever the order.
  const compare = (a, b) => {
    const [one, other] = [valueOf(a), valueOf(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return (one < other ? -1 : one > other) * (down ? -1 : 1);
  };
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word));
      shown += !row.hidden;
    }
    document.querySelector(".finder .note").textContent =
      words.length ? `${shown} of ${table.tBodies[0].rows.length}` : "";
  };
  var arrange = () => {
    if (column >= 0) table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    find();
  };
  for (const th of table?.querySelectorAll("th:not(.plain):not(:empty)") ?? []) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: th.textContent });
    th.replaceChildren(button);
    button.onclick = () => {
      down = column === th.cellIndex ? !down : true;
      column = th.cellIndex;
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      arrange();
    };
  }
  if (search) {
    search.hidden = false;
    search.oninput = find;
  }
}
