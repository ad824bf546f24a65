// Keeps a page of `make web` up to date, and does what its buttons say.
{
  const { csrf, at, base, run } = document.querySelector("#web").dataset;
  const by = (id) => document.getElementById(id);
  const say = (text) => { by("said").textContent = text; };
  const post = async (action, asked = {}) => {
    const answer = await fetch(`${base}runs/${run}/${action}`, {
      method: "POST", headers: { "content-type": "application/json", "x-csrf-token": csrf }, body: JSON.stringify(asked),
    });
    return answer.ok ? (await answer.json()).said : Promise.reject(await answer.text());
  };

  // What comes
  const source = new EventSource(`${base}events?since=${at}${run ? `&run=${encodeURIComponent(run)}` : ""}`);
  const on = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  source.onopen = () => { by("link").textContent = "live"; };
  source.onerror = () => { by("link").textContent = "not connected: make web has ended?"; };
  on("note", say);

  if (!run) {
    const body = document.querySelector(".sortable tbody"), compare = by("compare");
    const ticked = () => [...body.querySelectorAll("input:checked")].map((box) => box.value);
    const count = () => {
      const number = ticked().length;
      compare.disabled = number < 2 || number > 8;
      compare.textContent = number < 2 ? "Tick two runs or more to compare them"
        : number > 8 ? "Eight at the most" : `Compare ${number} runs`;
    };
    body.addEventListener("change", count);
    compare.onclick = () =>
      open(`compare?${ticked().map((name) => `run=${encodeURIComponent(name)}`).join("&")}`, "_blank", "noopener");
    on("nodes", (html) => { by("nodes").innerHTML = html; });
    on("rows", (rows) => {
      const kept = new Set(ticked()), focused = document.activeElement?.closest?.("tr")?.id;
      for (const [name, html] of Object.entries(rows)) {
        const old = by(name);
        if (html === null) { old?.remove(); continue; }
        const made = document.createElement("tbody");
        made.innerHTML = html;
        const row = made.rows[0], box = row.querySelector("input");
        box.checked = kept.has(name);
        // Ids begin with the time: the newest comes first, until somebody sorts.
        if (old) old.replaceWith(row);
        else body.insertBefore(row, [...body.rows].find((other) => other.id < name) ?? null);
        if (name === focused) row.querySelector("a").focus();
      }
      arrange();
      count();
    });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, textarea")) return;
      event.preventDefault();
      document.querySelector(".finder input").focus();
    });
  } else {
    const log = by("log"), text = log.querySelector("pre"), choice = log.querySelector("select");
    const frame = document.querySelector("iframe");
    // The logs of ranks come in any order; until somebody chooses, the first rank's is shown.
    let logs = JSON.parse(by("logs").textContent), picked = false;
    let over = Object.keys(logs).length > 0;
    const show = () => {
      const ranks = Object.keys(logs), chosen = choice.value;
      log.hidden = !ranks.length;
      if (ranks.join() !== [...choice.options].map((option) => option.value).join()) {
        choice.replaceChildren(...ranks.map((rank) => new Option(`rank ${rank}`, rank)));
        choice.value = picked && ranks.includes(chosen) ? chosen : ranks[0] ?? "";
      }
      const follows = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
      text.textContent = logs[choice.value] ?? "";
      if (follows) text.scrollTop = text.scrollHeight;
    };
    choice.onchange = () => { picked = true; show(); };
    show();
    text.scrollTop = text.scrollHeight;
    on("logs", (told) => {
      // A node that ends first tells nothing more, and what came home is all of it.
      if (!over) { logs = { ...logs, ...told }; show(); }
    });
    on("progress", (text) => { by("progress").textContent = text && `${text} ·`; });
    let drawn_at = 0;
    const draw = () => {
      // A report that goes on shows itself anew; this one is loaded when there is one at last, and at the end.
      if (!by("report").hidden && Date.now() - drawn_at > 8000) {
        drawn_at = Date.now();
        frame.src = frame.dataset.src;
      }
    };
    draw();
    on("run", async () => {
      const answer = await fetch(location.href);
      if (!answer.ok) { say(answer.status === 404 ? "there is no such run any more: it was deleted, or it never had nodes" : await answer.text()); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["about", "files"]) by(id).replaceWith(page.getElementById(id));
      by("report").hidden = page.getElementById("report").hidden;
      frame.dataset.src = page.querySelector("iframe").dataset.src;
      const ended = JSON.parse(page.getElementById("logs").textContent);
      if (Object.keys(ended).length) { over = true; logs = ended; show(); }
      draw();
    });
    by("web").addEventListener("click", async ({ target }) => {
      const action = target.dataset?.do;
      if (!action) return;
      try {
        const question = action === "delete" ? await post(action) : target.dataset.ask;
        if (!confirm(question)) return;
        say(await post(action, action === "delete" ? { sure: run } : {}));
        if (action === "delete") location.href = base || "./";
      } catch (error) { say(error); }
    });
    by("labels")?.addEventListener("submit", async (event) => {
      event.preventDefault();
      try { say(await post("tag", Object.fromEntries(new FormData(event.target)))); } catch (error) { say(error); }
    });
  }
}
