"""A notebook as a user has it: one address, a browser, cells, and its files at home again."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from chromium import CONTROL, SHIFT, open_browser
from commands import RUNS, make
from machines import NODES, RUN_ROOT, containers_of_runs, in_machine
from notebooks import close, opened

pytestmark = pytest.mark.usefixtures("ready_cluster")

NODE = "node1"
CELL = """\
import os, pathlib
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.ones(2) * 21, op=hvd.Sum).sum().item()
files = sum(path.is_file() for path in pathlib.Path("/data").rglob("*"))
pathlib.Path("found.txt").write_text(f"{hvd.size()} {total} {files}")
print("it", "computed", total, "of", files, "files")
"""
RUNS_OR_RAN = "/[0-9*]/.test(document.querySelector('.jp-CodeCell .jp-InputPrompt')?.innerText)"
EDITS = "!!document.querySelector('.jp-Notebook.jp-mod-editMode')"
OUTPUTS = (
    "[...document.querySelectorAll('.jp-OutputArea-output')].map(e => e.innerText).join('\\n')"
)


def command_lines(host: str) -> str:
    """Arguments of all processes of a node, and of this machine."""
    here = subprocess.run(["ps", "-eo", "args", "ww"], capture_output=True, text=True, check=True)
    return here.stdout + in_machine(host, "ps -eo args ww")


@pytest.mark.promise("row 31", "make notebook", "make notebook NODE=node1")
def test_a_cell_in_a_browser_and_its_files_at_home(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    # Without it the page asks which kernel it shall be.
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    notebook: dict[str, Any] = {"cells": [], "metadata": about, "nbformat": 4}
    notebook["nbformat_minor"] = 5
    for number, source in enumerate((CELL, "")):
        cell = {"cell_type": "code", "id": f"c{number}", "metadata": {}, "outputs": []}
        notebook["cells"].append({**cell, "execution_count": None, "source": source})
    (folder / "mine.ipynb").write_text(json.dumps(notebook))
    (folder / "notes.txt").write_text("as sent")
    command, address, token = opened(NODE, CODE=folder)
    run = (RUNS / "latest").resolve()

    with open_browser() as page:
        page.open(address.replace("/lab?", "/lab/tree/mine.ipynb?"))
        page.wait_for(
            "!!document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')"
        )
        # A page that shows its kernel may still be connecting to it, and drops what is run then.
        deadline = time.monotonic() + 240
        while not page.value(RUNS_OR_RAN):
            assert time.monotonic() < deadline, "the cell does not run"
            page.click_until(".jp-CodeCell .cm-content", EDITS)
            page.press("Enter", 13, SHIFT)
            time.sleep(2)
        printed = page.wait_for(f"({OUTPUTS}).match(/it computed [^\\n]*files/)?.[0]")
        page.press("s", 83, CONTROL)
        page.wait_for("document.title && !document.querySelector('.jp-mod-dirty')")
    assert re.fullmatch(r"it computed 42\.0 of \d+ files", printed)
    assert int(printed.split()[4]) > 0, "no data"

    # The node is held, and says by whom.
    refused = make("train", CODE="examples/own-code", NODES=len(NODES))
    assert refused.status == 3, refused.output
    assert run.name in refused.output
    status = json.loads(make("status", JSON=1).output)
    assert {each["host"]: each["state"] for each in status["nodes"]}[NODE] == "busy"
    assert [each["run"] for each in status["runs"]] == [run.name]

    # The token is in the address alone.
    assert token not in command_lines(NODE)
    for file in (path for path in run.rglob("*") if path.is_file()):
        assert token not in file.read_text(errors="replace"), file
    listens = in_machine(NODE, "ss -Hltn")
    port = in_machine(NODE, f"cat {RUN_ROOT}/{run.name}/notebook.json").split('"port": ')[1]
    assert re.findall(rf"(\S+):{port.split(',')[0]}\s", listens) == ["127.0.0.1"]

    # Ctrl-C closes the way; the same command comes back to the same server.
    close(command)
    again, _, same = opened(NODE)
    assert same == token
    assert f"{run.name} goes on" in again.output
    (folder / "notes.txt").write_text("changed here")
    in_machine(NODE, f"echo there >{RUN_ROOT}/{run.name}/work/project/notes.txt")
    close(again)

    stopped = make("stop", RUN=run.name)
    assert stopped.status == 0, stopped.output
    assert containers_of_runs(NODE) == ""
    assert in_machine(NODE, f"ls {RUN_ROOT}") == ""
    assert (folder / "found.txt").read_text().split()[:2] == ["1", "42.0"]
    assert "it computed" in (folder / "mine.ipynb").read_text()
    assert (folder / "notes.txt").read_text() == "changed here"
    assert (folder / f"notes.{run.name}.txt").read_text() == "there\n"
    assert token not in (run / "logs/rank-0.log").read_text()
    assert json.loads(make("status", JSON=1).output)["runs"] == []
