"""What a monitoring is told, and that a real Prometheus takes it, the rules and the dashboard."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from extend import time_the_steps
from test_status import GPU, LOAD, NOW, STEPS, cluster, decoded, entry
from test_web import KEY, Site, served
from unpacked_sshd import PACKAGES, free_port
from yard_command import REPOSITORY, RUN_ID, Yard, wait_for

from yard.commands import web
from yard.core.errors import RequestError
from yard.runs.cluster_state import DRAINED
from yard.runs.record import read_run
from yard.runs.summary import summarise, write_summary
from yard.web.metrics import metrics_of

MONITORING = REPOSITORY / "docs/monitoring"
RULES_TEST = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'trainyard_node_up{{node="node2"}}', values: "0x30"}}
      - {{series: 'trainyard_node_gpus{{node="gpu1"}}', values: "8 7x30"}}
      - {{series: 'trainyard_node_disk_free_bytes{{node="node1"}}', values: "4x30"}}
      - {{series: 'trainyard_node_disk_bytes{{node="node1"}}', values: "100x30"}}
      - {{series: 'trainyard_run_silent_seconds{{run="a"}}', values: "901x30"}}
    alert_rule_test:
"""
ALERTS = {"NodeAway": "node2", "GpuLost": "gpu1", "DiskFull": "node1", "RunSilent": "a"}


def program(name: str) -> str:
    path = PACKAGES / "usr/bin" / name
    assert path.exists(), f"this test needs {name}: playbooks/test_tools.yml unpacks it"
    return str(path)


def values(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_nodes_gpus_and_runs_are_told(site: Site, tmp_path: Path) -> None:
    site.run()
    site.run("20261121T000000Z_b", "killed")
    site.run("20261122T000000Z_c", over=False)
    site.board.look()
    newest = decoded(STEPS[11])
    state = cluster(
        tmp_path,
        node1=[entry(metric={**newest, "time": NOW - 40}, since=NOW - 600, nodes=["node1"])],
        node2=None,
        node3=[],
    )
    told = values(metrics_of(state, site.board.overviews))
    for name, value in {
        'node_up{node="node1"}': 1,
        'node_up{node="node2"}': 0,
        'node_runs{node="node3"}': 0,
        'node_gpus{node="node1"}': 1,
        'node_cpu_percent{node="node1"}': LOAD["cpu_percent"],
        'node_disk_free_bytes{node="node1"}': LOAD["disk_free_bytes"],
        'gpu_utilisation_percent{gpu="0",node="node1"}': GPU["utilisation_percent"],
        f'run_seconds{{run="{RUN_ID}",state="running"}}': 600,
        f'run_silent_seconds{{run="{RUN_ID}"}}': 40,
        'runs{status="succeeded"}': 1,
        'runs{status="failed"}': 1,
        'runs{status="unfinished"}': 1,
        'runs{status="waiting"}': 0,
        "nodes_asked_at_seconds": NOW,
    }.items():
        assert told[f"trainyard_{name}"] == value, name
    assert not [
        name for name in told if "node2" in name and "up" not in name and "runs" not in name
    ]
    only_runs = values(metrics_of(None, []))
    assert {name.partition("{")[0] for name in only_runs} == {"trainyard_runs"}
    drained = replace(state.nodes[2], state=DRAINED, reason="the fan is broken")
    told = values(metrics_of(replace(state, nodes=(drained,)), []))
    assert told['trainyard_node_up{node="node3"}'] == 1, "nothing is wrong with its answer"
    strange = replace(site.board.overviews[0], status='a"\n')
    metrics_of(state, [strange])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.process
def test_rules_say_what_is_wrong_and_where(tmp_path: Path) -> None:
    rules = tmp_path / "rules_test.yml"
    text = RULES_TEST.format(rules=MONITORING / "alerts.yml")
    summaries = dict(
        re.findall(
            r"alert: (\w+)\n(?:.*\n)*?\s+summary: \"(.*)\"", (MONITORING / "alerts.yml").read_text()
        )
    )
    for alert, name in ALERTS.items():
        label = "run" if alert == "RunSilent" else "node"
        said = summaries[alert].replace(f"{{{{ $labels.{label} }}}}", name)
        text += f"      - eval_time: 20m\n        alertname: {alert}\n        exp_alerts:\n"
        text += f"          - exp_labels: {{{label}: {name}}}\n"
        text += f"            exp_annotations: {{summary: {json.dumps(said)}}}\n"
    rules.write_text(text)
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(rules)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_a_real_prometheus_takes_all_of_it(site: Site, tmp_path: Path) -> None:
    run = site.run()
    time_the_steps(run)
    write_summary(run, summarise(read_run(run)))
    site.nodes.tell(site.runs, node1=[entry(metric=decoded(STEPS[11]))], node2=None)
    key = tmp_path / "key"
    key.write_text(KEY)
    port = free_port()
    with served(site) as address:
        settings = (MONITORING / "prometheus.yml").read_text()
        for old, new in (
            ("127.0.0.1:8642", address.removeprefix("http://")),
            ("/path/of/the/checkout/.trainyard/web-key", str(key)),
            ("30s", "1s"),
            ("[alerts.yml]", f"[{MONITORING}/alerts.yml]"),
        ):
            assert old in settings
            settings = settings.replace(old, new)
        (tmp_path / "prometheus.yml").write_text(settings)
        server = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def ask(path: str, **parameters: str) -> Any:
            try:
                answer = httpx2.get(f"http://127.0.0.1:{port}/api/v1/{path}", params=parameters)
                return answer.json()
            except (httpx2.TransportError, ValueError):
                return {"status": "none", "data": {"result": []}}

        try:
            up = "trainyard_node_up"
            wait_for(lambda: len(ask("query", query=up)["data"]["result"]) == 2, "the nodes", 60)
            rules = ask("rules")["data"]["groups"][0]["rules"]
            assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
            dashboard = json.loads((MONITORING / "dashboard.json").read_text())
            empty = [
                target["expr"]
                for panel in dashboard["panels"]
                for target in panel["targets"]
                if not ask("query", query=target["expr"])["data"]["result"]
            ]
            assert empty == [], "the dashboard asks for what nobody tells"
            text = httpx2.get(f"{address}/metrics", headers={"authorization": f"Bearer {KEY}"})
            lint = subprocess.run(
                [program("promtool"), "check", "metrics"],
                input=text.text,
                capture_output=True,
                text=True,
            )
            assert lint.returncode == 0, lint.stdout + lint.stderr
        finally:
            server.terminate()
            server.wait()


def test_a_file_that_cannot_be_written_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "ask_nodes", lambda context: cluster(tmp_path))
    taken = tmp_path / "folder.prom"
    taken.mkdir()
    with pytest.raises(RequestError, match=f"OUT={taken}: Is a directory; name another file"):
        web.write_metrics(site.board.context, taken)


@pytest.mark.promise("make metrics")
def test_a_file_for_node_exporter(ready: Yard) -> None:
    out = ready.root / "textfile/trainyard.prom"
    done = ready("metrics", "--out", str(out))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    told = values(out.read_bytes())
    assert told['trainyard_node_up{node="node1"}'] == 1
    assert told['trainyard_runs{status="failed"}'] == 0
    assert [file.name for file in out.parent.iterdir()] == [out.name]
