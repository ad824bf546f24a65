"""Who is told of the end of a run: a real HTTP server, and real commands."""

import http.server
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console
from yard_command import Yard

from yard.operations import notification
from yard.runs.record import read_run
from yard.runs.summary import Summary, summarise


class Hook(http.server.BaseHTTPRequestHandler):
    """A chat's hook: takes a POST and keeps it, or answers with a status."""

    received: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.received.append((self.path, self.headers["Content-Type"], body))
        self.send_response(500 if "broken" in self.path else 200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.received.clear()
    with http.server.HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def tell(target: str, run: Path, summary: Summary, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tell somebody; return what is printed."""
    monkeypatch.setenv(notification.NOTIFY, target)
    said = io.StringIO()
    notification.notify(Console(file=said, width=200), run, summary)
    return said.getvalue()


@pytest.fixture
def failed(recorded: Callable[[str], Path]) -> tuple[Path, Summary]:
    run = recorded("killed")
    return run, summarise(read_run(run))


def test_a_url_gets_a_body_that_chats_take(
    hook: str, failed: tuple[Path, Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, summary = failed
    assert tell(f"{hook}/services/T0/secret", run, summary, monkeypatch) == ""
    ((path, kind, body),) = Hook.received
    assert (path, kind) == ("/services/T0/secret", "application/json")
    assert body["text"] == body["content"]
    assert body["text"].startswith("vit on cifar10: failed")
    assert "killed with signal 9" in body["text"]
    assert run.name in body["text"]
    assert body["summary"]["status"] == "failed"
    assert body["directory"] == str(run)


@pytest.mark.parametrize("target", ["/broken/secret", ":1/secret"])
def test_a_hook_that_fails_is_a_warning_without_its_address(
    hook: str, target: str, failed: tuple[Path, Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = hook + target if target[0] == "/" else "http://127.0.0.1" + target
    said = tell(address, *failed, monkeypatch)
    assert said.startswith("warning: the URL of NOTIFY= could not be notified of the end of ")
    assert "secret" not in said


@pytest.mark.process
def test_a_command_reads_it(
    tmp_path: Path, failed: tuple[Path, Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tell(f"cat > {tmp_path}/body", *failed, monkeypatch) == ""
    assert json.loads((tmp_path / "body").read_text())["summary"]["status"] == "failed"
    said = tell("echo no mail today >&2; exit 3", *failed, monkeypatch)
    assert "the command of NOTIFY= could not be notified" in said
    assert "it ended with status 3: no mail today" in said


def test_nobody_is_told_where_nobody_is_named(
    failed: tuple[Path, Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tell("", *failed, monkeypatch) == ""


@pytest.mark.process
def test_the_end_of_a_training_is_told(ready: Yard) -> None:
    ready.environment[notification.NOTIFY] = f"cat > {ready.root}/body"
    done = ready("train", "--model", "vit", "--nodes", "2", "--set", "steps=4")
    assert done.returncode == 0
    body = json.loads((ready.root / "body").read_text())
    assert body["summary"]["status"] == "succeeded"
    assert body["text"].startswith("vit on cifar10: succeeded after ")
    assert "/body" not in (ready.root / "runs/latest/manifest.json").read_text()
