"""`make exec`: what is typed is what runs, and the worst exit status is the command's."""

import time

import pytest
from commands import make

pytestmark = pytest.mark.usefixtures("ready_cluster")
# Everything that a shell, make, Ansible or a template on the way could take for its own.
NASTY = """printf '<%s>\\n' "$0" '$HOME' "it's" "a  b" '{{ 1 + 1 }}' '{% raw %}' \\
  '$(shell echo no)' '#x' 'back\\slash' "`echo tick`" 'é; exit 9' \\
  "$(echo "two
lines")" """
NASTY_OUTPUT = """<$HOME>
<it's>
<a  b>
<{{ 1 + 1 }}>
<{% raw %}>
<$(shell echo no)>
<#x>
<back\\slash>
<tick>
<é; exit 9>
<two
lines>
"""


def test_a_command_arrives_as_typed() -> None:
    outcome = make("exec", CMD=NASTY, ON="node1,node2")
    assert outcome.status == 0
    for host in ("node1", "node2"):
        assert f"{host}\n</bin/sh>\n{NASTY_OUTPUT}" in outcome.output


def test_the_worst_status_counts() -> None:
    outcome = make("exec", CMD="exit $(hostname | tr -dc 0-9)", ON="node1,node2")
    assert outcome.status == 2
    assert "node1  exit status 1" in outcome.output
    assert "node2  exit status 2" in outcome.output


def test_a_long_output_arrives_whole() -> None:
    outcome = make("exec", CMD="seq 1 46000", ON="node1")
    assert outcome.status == 0
    assert outcome.output.endswith("\n45999\n46000\n")


@pytest.mark.promise("row 9", "make exec", "make exec CMD='uptime' ON=gpu01,gpu02")
def test_only_where_asked() -> None:
    outcome = make("exec", CMD="hostname", ON="node2")
    assert "node2\nnode2\n" in outcome.output
    assert "node1" not in outcome.output


def test_a_command_that_does_not_end_is_ended() -> None:
    began = time.monotonic()
    outcome = make("exec", CMD="echo begun; sleep 3600", LIMIT=2)
    assert time.monotonic() - began < 90
    assert outcome.status == 124
    assert "begun\nstopped after 2 s" in outcome.output
    assert make("exec", CMD="! pgrep -f 'sleep 36''00'").status == 0


@pytest.mark.parametrize(
    ("request_made", "named"),
    [({"CMD": "true", "ON": "node9"}, ["node9", "node1"]), ({"CMD": " "}, ["no command"])],
)
def test_a_bad_request_is_refused(request_made: dict[str, object], named: list[str]) -> None:
    outcome = make("exec", **request_made)
    assert outcome.status == 2
    for word in named:
        assert word in outcome.output
