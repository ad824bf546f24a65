"""What a rank plants in its run's directory comes home as plain files of the run, or not at all."""

import shlex
import stat
from pathlib import Path

from cluster import Cluster
from commands import BackgroundRun, make
from trainings import SHORT, SHORTEST

# Done by a rank's account, in the run's directory on the first node.
PLANT = r"""
set -e
cd /run/trainyard
ln -s /etc/hostname outside
ln -s ../../../etc above
ln -s logs inside
ln -s /etc/trainyard-was-here report-error.log
mkfifo pipe
cp /bin/true program && chmod 6777 program
echo '{}' > manifest.json
echo planted > summary.json
touch logs/rank-x.log
echo '[1]' >> metrics.jsonl
printf 'a line\033]0;title\007\n' > logs/rank-7.log
"""


def kinds(folder: Path) -> dict[str, int]:
    """Every entry below a folder, with its type and mode."""
    return {str(path.relative_to(folder)): path.lstat().st_mode for path in folder.rglob("*")}


def test_what_a_rank_plants_stays_a_plain_file_of_its_run(cluster: Cluster) -> None:
    cluster.make_ready()
    run = BackgroundRun(**SHORT).trains()
    run.in_container("node1", f"sh -c {shlex.quote(PLANT)}")
    outcome = run.finish()
    assert outcome.status == 0
    assert run.summary()["status"] == "succeeded"

    home = kinds(run.directory)
    assert not {"outside", "above", "pipe", "report-error.log"} & set(home)
    links = [name for name, mode in home.items() if stat.S_ISLNK(mode)]
    for name in links:
        assert (run.directory / name).resolve().is_relative_to(run.directory.resolve())
    assert "inside" in links
    for name, mode in home.items():
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or name in links, name
        assert not mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISDIR(mode), name
        assert not mode & (stat.S_IWGRP | stat.S_IWOTH) or name in links, name
    assert "program" in home

    logs = make("logs", RUN=run.run_id)
    assert logs.status == 0
    assert "a line␛]0;title" in logs.output
    assert "\x1b]" not in logs.output
    assert make("report", RUN=run.run_id).status == 0
    assert make("train", **SHORTEST).status == 0
