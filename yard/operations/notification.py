"""Tells a program or a chat service that a run is over."""

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.core.words import duration, percent
from yard.runs.summary import Summary

# Of the environment, where no list of processes shows it: the address of a chat's hook is a secret.
NOTIFY = "TRAINYARD_NOTIFY"
# Seconds for whoever is told.
PATIENCE = 30.0


def notify(console: Console, run: Path, summary: Summary) -> None:
    """Tell whom `NOTIFY=` names, if it names anybody; where that fails a warning is printed.

    A URL gets a POST of the JSON body, anything else is a shell command that reads it.
    """
    target = os.environ.get(NOTIFY, "").strip()
    if not target:
        return
    body = json.dumps(message(run, summary)).encode()
    is_url = target.startswith(("http://", "https://"))
    try:
        if is_url:
            _post(target, body)
        else:
            _run(target, body)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # What the error says may hold the address.
        reason = str(error).replace(target, "...")
        console.print(
            f"[yellow]warning[/]: {'the URL' if is_url else 'the command'} of NOTIFY= could not "
            f"be notified of the end of {escape(run.name)}: {escape(reason)}"
        )


def message(run: Path, summary: Summary) -> dict[str, Any]:
    """The body: `text` is what Slack, Mattermost and Teams show, `content` what Discord does."""
    text = f"{summary.subject}: {summary.status}"
    if summary.seconds_total is not None:
        text += f" after {duration(summary.seconds_total)}"
    if summary.test_accuracy is not None:
        text += f", test accuracy {percent(summary.test_accuracy)}"
    if summary.diagnosis is not None:
        text += f". {summary.diagnosis.cause}"
    text += f" ({run.name})"
    return {"text": text, "content": text, "directory": str(run), "summary": summary.to_json()}


def _post(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    # urlopen follows the environment's proxies, and raises for statuses from 400 on.
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass


def _run(command: str, body: bytes) -> None:
    done = subprocess.run(
        command, shell=True, input=body, timeout=PATIENCE, check=False, stderr=subprocess.PIPE
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise OSError(f"it ended with status {done.returncode}{': ' if words else ''}{words}")
