"""Who installs packages on a machine, by the lock that it holds."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from node.machine import apt
from node.verbs.clean_up import installing


def test_who_holds_the_lock_of_apt_is_told_and_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "LOCK", str(tmp_path / "lock"))
    assert apt.installer() is None
    with (tmp_path / "lock").open("w") as file:
        assert apt.installer() is None
        assert installing() == []
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = apt.installer()
        assert found is not None
        assert (str(found), found.pid) == (f"{found.command} (pid {os.getpid()})", os.getpid())
        assert found.command == Path("/proc/self/comm").read_text().rstrip("\n")
        # To a hundredth of a second; the process of the tests is younger than the machine.
        assert 0 < time.time() - found.since < time.clock_gettime(time.CLOCK_BOOTTIME)
        (listed,) = installing()
        assert listed["name"].startswith(f"{found}, since 20")
        assert listed["kept"] == "installs"
