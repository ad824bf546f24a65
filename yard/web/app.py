"""The pages of the server and what can be done on them."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from yard.core.errors import RequestError, YardError
from yard.core.files import room_of
from yard.core.words import printable, size
from yard.operations.beside import start_beside
from yard.operations.deletion import delete, words_of_deletion
from yard.pages.comparison import comparison_of
from yard.pages.index import title_of
from yard.pages.page import render
from yard.plays.play import log_of
from yard.runs.labels import label_run, tags_in
from yard.runs.overview import overview_of
from yard.runs.record import rank_log_files
from yard.runs.results import results_of
from yard.web.board import Board
from yard.web.files import TEXT, file_of, run_of, tail_of
from yard.web.guard import FOREIGN, REPORT, Guard, Guarded, who
from yard.web.metrics import CONTENT_TYPE, metrics_of

SCRIPTS = ("runs.js", "web.js")
# Names of files that the page of a run shows, of each folder of results.
MOST_FILES = 100
# Ranks whose logs the page of a run shows; `make logs` has all.
MOST_RANKS = 16
# Characters of what a command said last, in a sentence
MOST_SAID = 300
# A body of a request of ours is a few lines.
MOST_BYTES = 20_000
# Seconds for which the nodes are asked after a monitoring has asked: it asks again before.
SCRAPED = 120.0


def make_app(board: Board, guard: Guard) -> ASGIApp:
    """The server as Starlette has it."""
    runs = board.context.project.runs

    def page(template: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(
            render(
                template,
                script=False,
                csrf=guard.csrf,
                read_only=guard.read_only,
                inventory=board.context.project.shown(board.context.inventory),
                **values,
            )
        )

    async def all_runs(request: Request) -> Response:
        board.want()
        at = await asyncio.to_thread(board.look)
        rows = list(map(Markup, board.rows))
        return page("web.html.j2", title="Trainyard", rows=rows, at=at, nodes=Markup(board.nodes()))

    async def one_run(request: Request) -> Response:
        board.want()
        run = run_of(runs, request.path_params["run"])
        at = await asyncio.to_thread(board.look)
        token = guard.pass_of(f"/runs/{run.name}/files/report.html")
        about = await asyncio.to_thread(_about, run)
        return page("web_run.html.j2", at=at, report_pass=token, **about)

    async def events(request: Request) -> Response:
        since = request.query_params.get("since", "")
        number = int(since) if since.isascii() and since.isdecimal() and len(since) < 20 else 0
        stream = board.events(number, request.query_params.get("run"))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def file(request: Request) -> Response:
        run = run_of(runs, request.path_params["run"])
        return _served(file_of(run, request.path_params["file"]), request.path_params["file"])

    async def compare(request: Request) -> Response:
        chosen = [run_of(runs, name) for name in request.query_params.getlist("run")]
        text = await asyncio.to_thread(comparison_of, chosen)
        return HTMLResponse(text, headers={"content-security-policy": REPORT})

    async def to(request: Request) -> Response:
        """Where pages that also lie on disk link to each other."""
        run = request.path_params.get("run")
        if not request.url.path.endswith("report.html"):
            return RedirectResponse("../../" if run else "./", 303)
        return RedirectResponse(f"../runs/{run}/files/report.html", 303)

    async def script(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in SCRIPTS:
            raise HTTPException(404)
        text = (resources.files("yard.pages") / "templates" / name).read_text(encoding="utf-8")
        return Response(text, media_type="text/javascript")

    async def metrics(request: Request) -> Response:
        board.want(SCRAPED)
        await asyncio.to_thread(board.look)
        return Response(metrics_of(board.seen.state, board.overviews), media_type=CONTENT_TYPE)

    # Actions of WRITES are done one after the other: each sees what the one before left, and two
    # threads that write a file at once would write to the same temporary one.
    acts = threading.Lock()

    def act(action: str, run: str, asked: dict[str, str]) -> str:
        with acts if action in WRITES else nullcontext():
            return ACTIONS[action](board, run_of(runs, run), asked)

    async def do(request: Request) -> Response:
        run, action = request.path_params["run"], request.path_params["action"]
        if action not in ACTIONS:
            raise HTTPException(404)
        asked = await _asked(request)
        said = await asyncio.to_thread(act, action, run, asked)
        user = who(request.headers)
        print(f"{user or 'somebody'}: {action} {run}", file=sys.stderr, flush=True)
        return JSONResponse({"said": said})

    async def refused(request: Request, error: Exception) -> Response:
        status = 409 if request.method == "POST" else 404
        return PlainTextResponse(f"{error}\n", status)

    async def failed(request: Request, error: Exception) -> Response:
        """What this machine would not do, as with a full disk: the reason, for the log as well."""
        print(
            f"{request.method} {printable(request.url.path)}: {error}", file=sys.stderr, flush=True
        )
        return PlainTextResponse(f"{error}\n", 500)

    app = Starlette(
        routes=[
            Route("/", all_runs),
            Route("/events", events),
            Route("/compare", compare),
            Route("/metrics", metrics),
            Route("/scripts/{name}", script),
            Route("/index.html", to),
            Route("/runs/{run}/index.html", to),
            Route("/{run}/report.html", to),
            Route("/runs/{run}", one_run),
            Route("/runs/{run}/files/{file:path}", file),
            Route("/runs/{run}/{action}", do, methods=["POST"]),
        ],
        exception_handlers={RequestError: refused, YardError: failed, OSError: failed},
    )
    return Guarded(app, guard)


def _about(run: Path) -> dict[str, Any]:
    """What the page of a run says."""
    overview = overview_of(run)
    summary = overview.summary
    files = [pair for pair in rank_log_files(run).items() if not pair[1].is_symlink()]
    logs = {rank: tail_of(path) for rank, path in files[:MOST_RANKS]} if summary else {}
    records = ("manifest.json", "summary.json", "metrics.jsonl")
    return {
        "title": title_of(overview),
        "run": overview,
        "logs": logs,
        "has_report": (run / "report.html").is_file(),
        "results": [
            (each.folder, size(each.bytes), _in_addresses(each.names), len(each.names))
            for each in results_of(run)
        ],
        "records": [name for name in records if (run / name).is_file()],
        "room": size(room_of(run, set())),
    }


def _in_addresses(names: Sequence[str]) -> list[str]:
    """The first names that an address can have: what is no UTF-8 has none."""
    return [name for name in names if name.encode(errors="ignore").decode() == name][:MOST_FILES]


def _served(path: Path, name: str) -> Response:
    """A file of a run; only what yard draws itself is a page."""
    if name == "report.html":
        headers = {"content-security-policy": REPORT}
        return FileResponse(path, media_type="text/html", headers=headers)
    headers = {"content-security-policy": FOREIGN}
    if path.suffix in TEXT:
        return FileResponse(path, media_type="text/plain", headers=headers)
    kind = "application/octet-stream"
    return FileResponse(path, media_type=kind, filename=Path(name).name, headers=headers)


async def _asked(request: Request) -> dict[str, str]:
    """What was sent along.

    Raises:
        RequestError: it is no object of a few texts.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise RequestError(f"more than {MOST_BYTES:,} bytes")
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is not JSON") from error
    if not isinstance(asked, dict) or not all(isinstance(value, str) for value in asked.values()):
        raise RequestError("the request is not a JSON object of strings")
    return asked


def _beside(board: Board, command: str, run: Path) -> str:
    """Begin what `make` does, and tell everybody how it ended."""
    log = f"web-{command}-{run.name}"
    process = start_beside(board.context, log, command, run.name)

    def wait() -> None:
        status = process.wait()
        path = log_of(board.context, log)
        said = f"{command} {run.name} is done"
        if status:
            where = board.context.project.shown(path)
            said = (
                f"{command} {run.name} ended with status {status}: {_last_of(path)} (log: {where})"
            )
        board.say(said)

    threading.Thread(target=wait, name=log, daemon=True).start()
    return f"{command} {run.name}: begun"


def _last_of(log: Path) -> str:
    """What a command said last, on one line: it has the reason."""
    text = " ".join(tail_of(log).split()) or "it printed nothing"
    return text if len(text) <= MOST_SAID else f"… {text[-MOST_SAID:]}"


def _stop(board: Board, run: Path, asked: dict[str, str]) -> str:
    return _beside(board, "stop", run)


def _rerun(board: Board, run: Path, asked: dict[str, str]) -> str:
    return _beside(board, "rerun", run)


def _tag(board: Board, run: Path, asked: dict[str, str]) -> str:
    tags = asked.get("tags")
    label_run(run, None if tags is None else tags_in(tags), asked.get("note"))
    board.look()
    return f"{run.name}: saved"


def _delete(board: Board, run: Path, asked: dict[str, str]) -> str:
    """Delete a run; without `sure` ask whether to."""
    question, done = words_of_deletion(run)
    if asked.get("sure") != run.name:
        return question
    delete(run)
    board.look()
    return done


# Actions that write in this process, one after the other. A stop is not among them: it must not
# wait until a large run is deleted.
WRITES = ("tag", "delete")
ACTIONS: dict[str, Callable[[Board, Path, dict[str, str]], str]] = {
    "stop": _stop,
    "rerun": _rerun,
    "tag": _tag,
    "delete": _delete,
}
