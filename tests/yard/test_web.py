"""`make web`: who is served, what files of hostile runs can do, what browsers are told and show."""

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import uvicorn
from browser import CONTRAST, shared_page
from chromium import Page, open_browser
from rich.console import Console
from starlette.testclient import TestClient
from test_status import cluster, entry
from unpacked_sshd import free_port
from yard_command import DATA, RUN_ID, Yard, processes_below, wait_for

from yard.commands import web as web_command
from yard.core.context import Context
from yard.core.errors import RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.core.room import NoRoomError
from yard.operations import deletion
from yard.operations.watching import Seen
from yard.plays.play import log_of
from yard.runs.folder import followed
from yard.runs.labels import Labels, read_labels
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary
from yard.web import app as web_app
from yard.web import board as web_board
from yard.web import guard
from yard.web.app import make_app
from yard.web.board import Board
from yard.web.guard import Guard

HOME = "http://127.0.0.1:8642"
NAMES = ("127.0.0.1", "localhost")
KEY = "the-key"
OWN = {"origin": HOME, "authorization": f"Bearer {KEY}"}


class Nodes:
    """Stands in for what asks the nodes."""

    def __init__(self, context: Context) -> None:
        self.news = threading.Event()
        self.seen = Seen()
        self.looked = 0

    def __enter__(self) -> "Nodes":
        self.looked += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.looked -= 1

    def tell(self, runs: Path, **of_nodes: Any) -> None:
        state = cluster(runs, **of_nodes)
        logs = {RUN_ID: {"node1": {0: "line 1\n<b>line</b> 2\n"}}}
        self.seen = Seen(state, logs, "", {"node1": tuple(float(n % 100) for n in range(150))})
        self.news.set()


class Site:
    """A checkout with runs, and what is served of it."""

    def __init__(self, root: Path) -> None:
        self.runs = root / "runs"
        project = Project(root)
        context = Context(project, project.own_inventory, Console(), Interrupts())
        self.nodes = Nodes(context)
        self.board = Board(context, lambda _: self.nodes)  # type: ignore[arg-type,return-value]

    def app(self, read_only: bool = False, key: str | None = KEY) -> Any:
        return make_app(self.board, Guard(key, NAMES, read_only))

    def run(self, name: str = RUN_ID, case: str = "succeeded", over: bool = True) -> Path:
        run = self.runs / name
        shutil.copytree(DATA / "runs" / case, run)
        text = (run / "manifest.json").read_text().replace(RUN_ID, name)
        (run / "manifest.json").write_text(text)
        if over:
            write_summary(run, summarise(read_run(run)))
        return run


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def client(site: Site) -> Iterator[TestClient]:
    with client_of(site.app()) as client:
        yield client


def client_of(app: Any) -> TestClient:
    return TestClient(app, base_url=HOME, headers=OWN, follow_redirects=False)


def csrf_of(client: TestClient) -> dict[str, str]:
    found = re.search(r'data-csrf="(\w+)"', client.get("/").text)
    assert found
    return {"x-csrf-token": found[1]}


def test_only_who_has_the_key_is_served(site: Site) -> None:
    stranger = TestClient(site.app(), base_url=HOME, follow_redirects=False)
    for path in ("/", "/metrics", "/events", f"/runs/{RUN_ID}", "/scripts/web.js", "/?key=other"):
        assert stranger.get(path).status_code == 403, path
    let_in = stranger.get(f"/?key={KEY}")
    assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
    cookie = let_in.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert KEY not in cookie, "a server at another port of this machine gets the cookie as well"
    assert stranger.get("/").status_code == 200, "by the cookie, without the key in the address"
    monitoring = TestClient(site.app(), base_url=HOME)
    assert monitoring.get("/metrics", headers={"authorization": f"Bearer {KEY}"}).status_code == 200


def test_sessions_and_passes_of_reports_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = TestClient(site.app(), base_url=HOME)
    run = site.run()
    (run / "report.html").touch()
    page = browser.get(f"/runs/{run.name}?key={KEY}").text
    found = re.search(r'data-src="([^"]+)"', page)
    assert found
    report = f"/runs/{found[1]}"
    stranger = TestClient(site.app(), base_url=HOME)
    now = time.time()
    for days, known in ((0.9, (200, 200)), (1.1, (200, 403)), (7.1, (403, 403))):
        monkeypatch.setattr(guard, "time", SimpleNamespace(time=lambda at=now + days * 86400: at))
        assert (browser.get("/").status_code, stranger.get(report).status_code) == known, days
    assert stranger.get(report.replace("pass=1", "pass=2")).status_code == 403, "a later end"


def test_a_name_that_leads_here_but_is_not_ours_is_refused(client: TestClient) -> None:
    for host in ("evil.example", "evil.example:8642", "127.0.0.1.evil.example", "", "["):
        assert client.get("/", headers={"host": host}).status_code == 421, host
    for host in ("localhost:8642", "127.0.0.1"):
        assert client.get("/", headers={"host": host}).status_code == 200, host


def test_other_sites_can_do_nothing(site: Site, client: TestClient) -> None:
    run, token = site.run(), csrf_of(client)
    path = f"/runs/{run.name}/tag"
    for headers in (
        {"origin": "http://evil.example", **token},
        {"origin": "null", **token},
        {"origin": "", **token},
        {"origin": "http://[", **token},
        {"origin": "http://127.0.0.1:9999", **token},
        {},
        {"x-csrf-token": "guessed"},
    ):
        assert client.post(path, json={"tags": "x"}, headers=headers).status_code == 403, headers
    assert client.get(path).status_code == 405, "nothing is done by looking"
    assert read_labels(run) == Labels()
    assert client.post(path, json={"tags": "a b", "note": "it"}, headers=token).status_code == 200
    assert read_labels(run) == Labels(("a", "b"), "it")
    for body in (b"[]", b"{", b'{"tags": 3}', b"[" * 10_000, b"x" * 30_000):
        assert client.post(path, content=body, headers=token).status_code == 409, body[:9]
    assert client.post(f"/runs/{run.name}/burn", headers=token).status_code == 404
    with client_of(site.app(read_only=True)) as looking:
        answer = looking.post(path, json={"tags": ""}, headers=csrf_of(looking))
        assert (answer.status_code, read_labels(run).tags) == (403, ("a", "b"))
        assert "data-do=" not in looking.get(f"/runs/{run.name}").text


def test_a_run_is_stopped_run_again_and_deleted(
    site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    class Done:
        def wait(self) -> int:
            return 1

    def start(context: Context, log: str, *words: str) -> Done:
        begun.append(words)
        path = log_of(context, log)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("node1: vit-3 of ada has this node.\nIt is no run.\n")
        return Done()

    monkeypatch.setattr(web_app, "start_beside", start)
    run, token = site.run(), csrf_of(client)
    for action in ("stop", "rerun"):
        answer = client.post(f"/runs/{run.name}/{action}", headers=token)
        assert answer.json() == {"said": f"{action} {run.name}: begun"}
    assert begun == [("stop", run.name), ("rerun", run.name)]
    wait_for(lambda: len(site.board._notes) == 2, "both to end", 5)
    reason = "ended with status 1: node1: vit-3 of ada has this node. It is no run. (log: "
    assert reason in site.board._notes[0][1]
    with followed(run):
        held = client.post(f"/runs/{run.name}/delete", json={"sure": run.name}, headers=token)
        assert (held.status_code, "under way" in held.text) == (409, True)
    asked = client.post(f"/runs/{run.name}/delete", headers=token).json()["said"]
    assert asked.startswith(f"Delete {run.name} (")
    assert run.is_dir(), "the question deletes nothing"
    client.post(f"/runs/{run.name}/delete", json={"sure": run.name}, headers=token)
    assert not run.exists()
    assert client.get(f"/runs/{run.name}").status_code == 404


def test_two_browsers_delete_at_once(
    site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = site.run(), csrf_of(client)
    others = [site.run(f"20261121T00000{number}Z_b") for number in range(4)]
    told = []

    def go(name: str) -> None:
        answer = client.post(f"/runs/{name}/delete", json={"sure": name}, headers=token)
        told.append(answer.status_code)

    names = [run.name, *(other.name for other in others)]
    threads = [threading.Thread(target=go, args=(name,)) for name in names * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [200] * 5 + [409] * 5
    assert [path.name for path in site.runs.iterdir()] == ["index.html"]
    # A command deletes it, or begins to follow it, after it was looked at.
    run = site.run()
    monkeypatch.setattr(deletion, "check_deletable", lambda run: [])
    with followed(run), pytest.raises(RequestError, match="another command follows"):
        deletion.delete(run)
    shutil.rmtree(run)
    with pytest.raises(RequestError, match="somebody else deletes it"):
        deletion.delete(run)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/a"), "No space left on device"),
        (NoRoomError("no space is left on the control node"), "no space is left on the control"),
    ],
)
def test_what_a_full_disk_prevents_is_said_with_the_reason(
    site: Site,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(web_app, "label_run", full)
    run, token = site.run(), csrf_of(client)
    answer = client.post(f"/runs/{run.name}/tag", json={"tags": "a"}, headers=token)
    assert (answer.status_code, said in answer.text) == (500, True)
    assert answer.headers["content-type"].startswith("text/plain")
    assert said in capsys.readouterr().err
    monkeypatch.setattr(site.board, "look", full)
    page = client.get("/")
    assert (page.status_code, said in page.text) == (500, True)


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_there_is_always_a_key(tmp_path: Path, left: str | None) -> None:
    project = Project(tmp_path)
    context = Context(project, project.own_inventory, Console(), Interrupts())
    if left is not None:
        (tmp_path / ".trainyard").mkdir()
        (tmp_path / ".trainyard/web-key").write_text(left)
    key = web_command._key(context)
    assert len(key) >= 32
    assert web_command._key(context) == key


def test_a_port_or_socket_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="PORT=99999"):
        web_command._listen(99999, None)
    with pytest.raises(RequestError, match="path too long; name another"):
        web_command._listen(0, tmp_path / ("x" * 200))


def test_files_of_ranks_lead_nowhere_and_run_nowhere(site: Site, client: TestClient) -> None:
    run, secret = site.run(), site.runs.parent / "secret"
    secret.write_text("secret")
    (run / "outputs").mkdir()
    (run / "outputs/link").symlink_to(secret)
    (run / "outputs/up").symlink_to("../..")
    os.mkfifo(run / "outputs/pipe")
    (run / "outputs" / os.fsdecode(b"latin\xe9.txt")).touch()  # no UTF-8: it has no address
    (run / "outputs/page.html").write_text("<script>alert(1)</script>")
    (run / "outputs/<img src=x>.svg").write_text("<svg onload='alert(1)'/>")
    (run / "checkpoints").mkdir(exist_ok=True)
    (run / "checkpoints/epoch-1.pt").write_bytes(b"weights")
    (run / "checkpoints/best.pt").symlink_to("epoch-1.pt")
    files = f"/runs/{run.name}/files"
    for name in (
        *("outputs/link", "outputs/pipe", "outputs/up/secret", "outputs", "none", "a%00b"),
        *("..%2f..%2fsecret", "%2e%2e/%2e%2e/secret", "%2fetc%2fpasswd", "x" * 5000),
    ):
        assert client.get(f"{files}/{name}").status_code == 404, name
    elsewhere = site.runs.parent / "elsewhere"
    shutil.copytree(DATA / "runs/succeeded", elsewhere)
    (site.runs / "20260101T000000Z_link").symlink_to(elsewhere)
    too_long = "20260101T000000Z_" + "x" * 300
    for name in ("20260101T000000Z_link", "%2e%2e", "latest", "a", too_long):
        assert client.get(f"/runs/{name}").status_code == 404, name
    weights = client.get(f"{files}/checkpoints/best.pt")
    assert (weights.content, weights.headers["content-type"]) == (
        b"weights",
        "application/octet-stream",
    )
    for name in ("outputs/page.html", "outputs/<img src=x>.svg"):
        served = client.get(f"{files}/{name}")
        assert served.headers["content-disposition"].startswith("attachment")
        assert served.headers["content-security-policy"].startswith("sandbox;")
        assert served.headers["x-content-type-options"] == "nosniff"
    text = client.get(f"{files}/manifest.json")
    assert text.headers["content-type"].startswith("text/plain")
    page = client.get(f"/runs/{run.name}").text
    assert "&lt;img src=x&gt;.svg" in page
    assert "3 files" in page
    assert "latin" not in page
    assert "<img" not in page


def test_what_ranks_and_people_say_is_text(site: Site, client: TestClient) -> None:
    run, bad = site.run(), "<script>alert(1)</script>"
    document = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**document, "name": bad, "owner": bad}))
    (run / "logs/rank-0.log").write_text(f"{bad}</script>\n 50 %|\r100 %|\n")
    (run / "logs/rank-7.log").symlink_to("/etc/passwd")
    for path in ("/", f"/runs/{run.name}"):
        answer = client.get(path)
        assert "<script>alert" not in answer.text
        assert "root:x" not in answer.text
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert not re.search(r"<script(?! src=| type=.application/json)", answer.text)
    page = client.get(f"/runs/{run.name}").text
    assert "100 %|" in page
    assert " 50 %|" not in page, "a bar is one line, as on a terminal"
    framed = re.search(r'data-src="([^"]+)"', page)
    assert framed
    report = run / "report.html"
    report.write_text("<script>1</script>")
    served = client.get(f"/runs/{run.name}/files/report.html")
    assert served.headers["content-type"].startswith("text/html")
    assert served.headers["content-security-policy"].startswith("sandbox allow-scripts allow-pop")
    assert "allow-same-origin" not in served.headers["content-security-policy"]
    # It shows itself anew, without a cookie; what it knows opens itself alone.
    bare = TestClient(site.app(), base_url=HOME)
    assert bare.get(f"/runs/{framed[1]}").status_code == 200
    token = framed[1].partition("?")[2]
    for path in ("/", f"/runs/{run.name}", f"/runs/{run.name}/files/manifest.json"):
        assert bare.get(f"{path}?{token}").status_code == 403, path
    answer = bare.post(f"/runs/{run.name}/files/report.html?{token}", headers={"origin": HOME})
    assert answer.status_code == 403


def test_two_runs_are_compared(site: Site, client: TestClient) -> None:
    one, two = site.run(), site.run("20261121T000000Z_b")
    page = client.get("/compare", params={"run": [one.name, two.name]})
    assert "2 runs compared" in page.text
    assert page.headers["content-security-policy"].startswith("sandbox")
    assert client.get("/compare", params={"run": [one.name]}).status_code == 404
    for link, leads in (
        ("/index.html", "./"),
        (f"/runs/{one.name}/index.html", "../../"),
        (f"/{one.name}/report.html", f"../runs/{one.name}/files/report.html"),
    ):
        assert client.get(link).headers["location"] == leads


def read_events(text: str) -> list[tuple[str, Any]]:
    found = re.findall(r"event: (\w+)\ndata: (.*)\n", text)
    return [(name, json.loads(data)) for name, data in found]


def test_browsers_are_told_what_is_new(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_board, "LOOK", 0.05)
    first, second = site.run(), site.run("20261121T000000Z_b", over=False)
    at = site.board.look()
    assert len(site.board.rows) == 2
    assert site.board.look() == at, "nothing is drawn twice"

    async def listen(run: str | None, until: Callable[[list[Any]], bool], act: Any) -> list[Any]:
        told: list[Any] = []
        async with asyncio.timeout(20):
            async for text in site.board.events(at, run):
                told += read_events(text)
                if act is not None and told:
                    act()
                    act = None
                if until(told):
                    return told
        raise AssertionError

    def change() -> None:
        shutil.rmtree(first)
        write_summary(second, summarise(read_run(second)))
        site.nodes.tell(site.runs, node1=[entry()], node2=[])
        site.board.say("it is done")

    def has_all(told: list[Any]) -> bool:
        rows = {
            name: html for event, value in told if event == "rows" for name, html in value.items()
        }
        nodes = [value for event, value in told if event == "nodes" and "node2" in value]
        said = [value for event, value in told if event == "note"]
        return rows.keys() == {first.name, second.name} and bool(nodes) and said == ["it is done"]

    told = asyncio.run(listen(None, has_all, change))
    rows = {name: html for event, value in told if event == "rows" for name, html in value.items()}
    assert rows[first.name] is None
    assert '<span class="badge succeeded">' in rows[second.name]

    site.nodes.tell(site.runs, node1=[entry()])
    told = asyncio.run(listen(RUN_ID, lambda told: any(v for e, v in told if e == "logs"), None))
    assert ("logs", {"0": "line 1\n<b>line</b> 2\n"}) in told


def test_nodes_are_asked_only_while_somebody_looks(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_board, "LOOK", 0.02)
    clock = [0.0]

    def tick() -> float:
        clock[0] += 0.001
        return clock[0]

    monkeypatch.setattr(web_board, "CLOCK", tick)

    async def look() -> None:
        assert not site.board.is_asking
        site.board.want()
        await asyncio.sleep(0)
        assert site.nodes.looked == 1
        clock[0] = web_board.GRACE - 1
        assert site.nodes.looked == 1
        clock[0] = web_board.GRACE + 1
        async with asyncio.timeout(10):
            while site.board.is_asking:
                await asyncio.sleep(0.05)
        assert site.nodes.looked == 0
        site.board.want()
        await asyncio.sleep(0)
        assert site.nodes.looked == 1, "and again when somebody comes back"
        clock[0] = 1000.0
        while site.board.is_asking:
            await asyncio.sleep(0.05)

    asyncio.run(look())


def test_a_disk_that_cannot_be_read_is_told_and_nodes_are_watched_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise OSError(errno.EIO, "Input/output error", "runs")

    async def look() -> None:
        monkeypatch.setattr(site.board, "look", broken)
        site.board.want()
        async with asyncio.timeout(10):
            while not site.board._notes:
                await asyncio.sleep(0.05)
        assert "Input/output error" in site.board._notes[0][1]
        assert (site.board.is_asking, site.nodes.looked) == (True, 1)
        monkeypatch.setattr(web_board, "CLOCK", lambda: float("inf"))
        async with asyncio.timeout(10):
            while site.board.is_asking:
                await asyncio.sleep(0.05)

    asyncio.run(look())


@contextmanager
def served(site: Site) -> Iterator[str]:
    """The site at an address, for browsers."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        site.app(), log_level="warning", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def opened(page: Page, address: str) -> None:
    page.open(address)
    page.wait_for("document.querySelector('#link')?.textContent === 'live'", 60)


@pytest.mark.process
def test_a_browser_shows_a_run_and_all_runs_at_desk_and_phone(site: Site) -> None:
    run, failed = site.run(), site.run("20261121T000000Z_vit_cifar10_b64_e5_n2_p1", "killed")
    # Without a name its title says what was trained.
    manifest = json.loads((failed / "manifest.json").read_text())
    (failed / "manifest.json").write_text(json.dumps({**manifest, "name": None}))
    going = site.run("20261122T000000Z_c", over=False)
    (run / "report.html").write_text("<p>the report</p>")
    site.nodes.tell(site.runs, node1=[entry(going.name)], node2=[])
    with served(site) as address, shared_page() as page, followed(going):
        for width, dark in product((1280, 390), (False, True)):
            page.show_as(width, dark)
            for path in ("", f"runs/{run.name}", f"runs/{failed.name}"):
                opened(page, f"{address}/{path}?key={KEY}")
                if not path:
                    page.wait_for("document.body.innerText.includes('node2')", 30)
                    # What ticks a row lies beside its title, on a phone too.
                    box = "row.querySelector({!r}).getBoundingClientRect().{}".format
                    apart = (
                        f"(row) => {box('.tick input', 'bottom')} - {box('.what > a', 'bottom')}"
                    )
                    rows = f"[...document.querySelectorAll('tbody tr')].map({apart})"
                    assert max(page.value(rows)) < 12, f"at {width} pixels"
                if path.endswith(failed.name):
                    heading = page.value("document.querySelector('h1').textContent")
                    assert heading.startswith("vit on cifar10")
                    assert page.value("document.querySelector('.diagnosis pre') !== null")
                scroll = page.value("document.documentElement.scrollWidth")
                assert scroll <= width, f"{path} scrolls sideways at {width} pixels"
                ratio, faintest = page.value(f"({CONTRAST})(window)")
                assert ratio >= 4.5, f"{path}: {faintest!r} is hard to read"
        opened(page, f"{address}/runs/{going.name}")
        choose = "(s) => { s.value = '1'; s.dispatchEvent(new Event('change')); return true; }"
        told = ({1: "of one"}, {1: "of one", 0: "of zero"}, {1: "of one, later"})
        for logs, seen in zip(told, ("of one", "of zero", "of one, later"), strict=True):
            if seen == "of one, later":
                assert page.value(f"({choose})(document.querySelector('#log select'))")
            site.nodes.seen = replace(site.nodes.seen, logs={going.name: {"node1": logs}})
            site.nodes.news.set()
            log = "document.querySelector('#log pre').textContent"
            page.wait_for(f"{log} === {seen!r}", 30)
        assert page.value("document.querySelector('#log select').options.length") == 2


@pytest.mark.process
def test_browsers_see_a_thousand_runs_and_what_one_does(site: Site) -> None:
    run = site.run()
    for number in range(1000):
        other = site.runs / f"20261022T{number:06}Z_vit"
        leave = shutil.ignore_patterns("nodes", "logs", "ranks")
        shutil.copytree(run, other, ignore=leave, copy_function=os.link)
    with served(site) as address, shared_page() as first, open_browser() as second:
        for page in (first, second):
            opened(page, f"{address}/?key={KEY}")
            assert page.value("document.querySelectorAll('tbody tr').length") == 1001
        # By keyboard: to the filter, words, to the link of what is left, and there.
        first.press("/", 191, text="/")
        first.write(RUN_ID[:9])
        wanted = "[...document.querySelectorAll('tbody tr')].filter((row) => !row.hidden).length"
        first.wait_for(f"{wanted} === 1", 10)
        for _ in range(20):
            first.press("Tab", 9)
            if first.value("document.activeElement.closest('tbody')?.rows.length > 0"):
                break
        first.press(" ", 32, text=" ")
        assert first.value("document.querySelectorAll('input:checked').length") == 1
        first.press("Tab", 9)
        first.press("Enter", 13, text="\r")
        first.wait_for(f"location.pathname === '/runs/{RUN_ID}'", 30)
        first.wait_for("document.querySelector('#link')?.textContent === 'live'", 30)
        first.value("document.querySelector('[name=tags]').value = 'seen'")
        first.click("#labels button")
        second.wait_for("!!document.querySelector('tbody .tag')", 30)
        first.wait_for("document.querySelector('#about .tag')?.textContent === 'seen'", 30)
        shutil.rmtree(site.runs / "20261022T000999Z_vit")
        second.wait_for("document.querySelectorAll('tbody tr').length === 1000", 30)


def seconds_of(process: "subprocess.Popen[str]") -> float:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.process
@pytest.mark.promise("make web")
def test_it_serves_this_machine_and_takes_nothing_while_nobody_looks(fresh_process: Yard) -> None:
    fresh = fresh_process
    run = fresh.root / "runs" / RUN_ID
    shutil.copytree(DATA / "runs/succeeded", run)
    port = free_port()
    server = fresh.start("web", "--port", str(port))
    try:
        wait_for(lambda: (fresh.root / ".trainyard/web-key").exists(), "the key", 30)
        key = (fresh.root / ".trainyard/web-key").read_text().strip()
        assert (fresh.root / ".trainyard/web-key").stat().st_mode & 0o777 == 0o600
        headers = {"authorization": f"Bearer {key}"}

        def answer() -> httpx2.Response | None:
            try:
                return httpx2.get(
                    f"http://127.0.0.1:{port}/runs/{RUN_ID}/files/manifest.json", headers=headers
                )
            except httpx2.TransportError:
                return None

        wait_for(lambda: answer() is not None, "an answer", 30)
        got = answer()
        assert got is not None
        assert got.json()["run_id"] == RUN_ID
        second = fresh("web", "--port", str(port))
        assert (second.returncode, f"PORT={port}" in second.stderr) == (2, True)
        before = seconds_of(server)
        time.sleep(5)
        assert seconds_of(server) - before < 0.1, "2 % of a core"
    finally:
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=30)
    assert server.returncode == 0, output
    assert f"http://127.0.0.1:{port}/?key={key}" in output


@pytest.mark.process
def test_a_socket_is_for_its_owner_and_group(fresh_process: Yard, tmp_path: Path) -> None:
    fresh = fresh_process
    path = tmp_path / "web.socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # of a server that was killed
    server = fresh.start("web", "--socket", str(path), "--read-only")
    client = httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://lab.example"
    )

    def status() -> int:
        try:
            return client.get("/scripts/web.js").status_code
        except httpx2.TransportError:
            return 0

    try:
        wait_for(lambda: status() == 200, "an answer", 30)
        assert path.stat().st_mode & 0o777 == 0o660
        post = client.post(f"/runs/{RUN_ID}/stop", headers={"origin": "http://lab.example"})
        assert (post.status_code, "READ_ONLY=1" in post.text) == (403, True)
    finally:
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=30)
    assert (server.returncode, path.exists()) == (0, False), output


@pytest.mark.process
def test_nodes_of_a_checkout_are_watched_and_ctrl_c_ends_that(ready_process: Yard) -> None:
    """That it ends with the last browser is shown above, without Ansible."""
    ready = ready_process
    port = free_port()
    server = ready.start("web", "--port", str(port))
    key = ready.root / ".trainyard/web-key"
    told = threading.Event()
    try:
        wait_for(key.exists, "the key", 60)
        headers = {"authorization": f"Bearer {key.read_text().strip()}"}

        def listen() -> None:
            with (
                suppress(httpx2.TransportError),
                httpx2.stream(
                    "GET", f"http://127.0.0.1:{port}/events", headers=headers, timeout=60
                ) as answer,
            ):
                for line in answer.iter_lines():
                    if "node1" in line and "node2" in line:
                        told.set()

        looking = threading.Thread(target=listen, daemon=True)

        def serves() -> bool:
            try:
                return httpx2.get(f"http://127.0.0.1:{port}/").status_code > 0
            except httpx2.TransportError:
                return False

        wait_for(serves, "the server", 60)
        looking.start()
        wait_for(told.is_set, "both nodes", 120)
        assert any("playbooks/top.yml" in line for line in processes_below(ready.root))
    finally:
        # The fixture sees that nothing is left.
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=60)
    assert server.returncode == 0, output
