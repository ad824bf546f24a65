"""What dpkg says, what is missing, and the records of what came with a role."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_here import tasks_of
from role_files import action_plugin

from node.setup import packages_records as records

ACTION = action_plugin("packages", "packages")

LIST = """\
bash	amd64	5.2.37-2	installed
jq	amd64	1.7.1-6	installed
tzdata	all	2026a-1	installed
libc6	amd64	2.41-12	installed
libc6	i386	2.41-12	installed
old	amd64	1.0	config-files
broken	amd64	1.0	half-configured
wine32	i386	10.0	installed
"""
# What the version before the action packages wrote.
EARLIER_RECORD = """\
# BEGIN 5d4d
libjq1
jq
# END 5d4d
# BEGIN 77aa
tree
# END 77aa
"""


@pytest.mark.parametrize(
    ("requests", "missing"),
    [
        (["bash", "jq", "tzdata"], []),
        (["bash", "tree"], ["tree"]),
        (["old", "broken"], ["old", "broken"]),
        (["jq=1.7.1-6", "jq=1.7*", "jq=1.8*"], ["jq=1.8*"]),
        (["libc6:i386", "libc6:amd64", "libc6:arm64", "tzdata:i386"], ["libc6:arm64"]),
        (["wine32", "wine32:i386=10.0"], ["wine32"]),
        (["jq*"], ["jq*"]),
        ([], []),
    ],
)
def test_missing(requests: list[str], missing: list[str]) -> None:
    packages = records.parse_packages(LIST)
    assert records.missing_requests(requests, packages, "amd64") == missing


def test_names_by_status() -> None:
    packages = records.parse_packages(LIST)
    assert records.names_with("installed", packages) == ["bash", "jq", "libc6", "tzdata", "wine32"]
    assert records.names_with("config-files", packages) == ["old"]


def test_a_record_of_an_earlier_version_is_read_and_continued() -> None:
    assert records.parse_record(EARLIER_RECORD) == ["libjq1", "jq", "tree"]
    text = records.with_block(EARLIER_RECORD, ["at", "at", "adduser"])
    assert text.startswith(EARLIER_RECORD)
    assert records.parse_record(text) == ["libjq1", "jq", "tree", "adduser", "at"]


def test_blocks_have_markers_of_their_own() -> None:
    text = records.with_block(records.with_block("", ["jq"]), ["tree"])
    begin, _, end, *second = text.splitlines()
    assert begin.replace("BEGIN", "END") == end
    assert second[0].startswith("# BEGIN ")
    assert second[0] != begin


def test_reads_the_records_of_a_directory(tmp_path: Path) -> None:
    assert records.read_records(tmp_path / "none") == {}
    (tmp_path / "openmpi").write_text(EARLIER_RECORD)
    (tmp_path / "accounts").write_text(records.with_block("", ["sudo"]))
    assert records.read_records(tmp_path) == {
        "accounts": ["sudo"],
        "openmpi": ["libjq1", "jq", "tree"],
    }


def test_what_another_role_brought_is_shared() -> None:
    brought = {"one": ["jq", "libjq1", "tree"], "another": ["at"]}
    assert records.packages_to_share("another", ["jq=1.7*", "at", "bc"], brought) == ["jq"]
    assert records.packages_to_share("third", ["tree", "jq"], brought) == ["jq", "tree"]
    assert records.packages_to_share("one", ["jq", "tree"], brought) == []
    assert records.records_of_others(brought, "one") == {"at"}


def test_removals_of_a_simulation() -> None:
    text = "NOTE: This is only a simulation!\nPurg jq [1.7.1-6]\nRemv libjq1 [1.7.1-6]\nInst at\n"
    assert records.parse_removals(text) == ["jq", "libjq1"]


def test_empty_directories(tmp_path: Path) -> None:
    root = tmp_path / "trainyard"
    (root / "packages/deep").mkdir(parents=True)
    (root / "kept").mkdir()
    empty = records.empty_directories(root)
    assert set(empty) == {root, root / "packages", root / "packages/deep", root / "kept"}
    # Each one after what is in it, so that they can be removed in this order.
    assert all(empty.index(path) < empty.index(path.parent) for path in empty[:-1])
    assert empty[-1] == root
    (root / "kept/file").touch()
    assert records.empty_directories(root) == [root / "packages/deep", root / "packages"]
    assert records.empty_directories(tmp_path / "none") == []


@pytest.mark.process
def test_output_of_a_command() -> None:
    assert records.output_of(["sh", "-c", "echo $LC_ALL"]) == "C\n"
    with pytest.raises(RuntimeError, match="false failed"):
        records.output_of(["false"])
    with pytest.raises(RuntimeError, match="no Debian"):
        records.output_of(["no-such-program"])


@pytest.mark.process
def test_a_machine_is_settled_once_all_is_there_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "DIRECTORY", tmp_path)
    assert records.unsettled("openmpi", ["dpkg", "surely-not-there"]) == ["surely-not-there"]
    # Another role brought it: this one's record is to have it too.
    (tmp_path / "docker_engine").write_text("dpkg\n")
    assert records.unsettled("openmpi", ["dpkg"]) == ["dpkg"]
    (tmp_path / "openmpi").write_text("dpkg\n")
    assert records.unsettled("openmpi", ["dpkg"]) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        # As Debian 13 says it where a package of the admin's has a script that fails
        (
            " E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
            "dpkg: error processing package badpkg (--configure):\n"
            " installed badpkg package post-installation script subprocess returned error\n",
            "dpkg cannot finish badpkg, which was on the machine before, and fails each time until "
            "it can: see there what `dpkg --configure badpkg` says, or remove it.",
        ),
        (
            "E: dpkg was interrupted, you must manually run 'dpkg --configure -a'",
            "There an installation was cut off before: `dpkg --configure -a` ends it.",
        ),
        (
            "dpkg: error processing package rsync (--configure):\n",
            "See there whether `apt-get update` reaches the package sources and `apt-get install "
            "rsync` works.",
        ),
    ],
)
def test_what_helps_follows_from_what_apt_said(said: str, told: str) -> None:
    assert ACTION.remedy(said, ["rsync"]) == told


@pytest.mark.parametrize(("role", "tasks"), [("chrony", "present"), ("docker_engine", "install")])
def test_roles_say_what_the_action_takes(role: str, tasks: str) -> None:
    (asked,) = (task["packages"] for task in tasks_of(role, tasks) if "packages" in task)
    assert "replaces" in asked
    assert asked.keys() <= ACTION.OPTIONS.keys()


# As apt of Debian 12 says it with --no-remove
REFUSED = """\
The following packages will be REMOVED:
  ntpsec python3-ntp
The following NEW packages will be installed:
  chrony
0 upgraded, 1 newly installed, 2 to remove and 140 not upgraded.
"""


@pytest.mark.parametrize(
    ("replaces", "own", "installed"),
    [([], [], False), (["ntp*"], [], False), (["ntp*"], ["python3-ntp"], True), (["*"], [], True)],
)
def test_apt_takes_nothing_away_that_somebody_else_installed(
    replaces: list[str], own: list[str], installed: bool
) -> None:
    class Machine(ACTION.ActionModule):  # type: ignore[misc, name-defined]  # has no types
        """A machine where apt would remove two packages for chrony."""

        def __init__(self) -> None:
            self._task = SimpleNamespace(check_mode=False)
            self._variables: dict[str, Any] = {}

        def _ahead(self, names: list[str]) -> list[str]:
            return []

        def _execute(self, module: str, **arguments: Any) -> dict[str, Any]:
            if module == "packages_step":
                return {"changed": False, "recorded": []}
            if not arguments["fail_on_autoremove"]:
                return {"changed": True}
            error = "E: Packages need to be removed but remove is disabled.\n"
            return {"failed": True, "msg": "apt failed", "stdout": REFUSED, "stderr": error}

    options = {"owner": "chrony", "names": ["chrony"], "start_services": True}
    look = {"missing": ["chrony"], "shared": [], "installed": [], "own": own}
    result = Machine()._install({**options, "replaces": replaces}, look)
    assert result.get("failed", False) is not installed
    if not installed:
        those = "python3-ntp" if replaces else "ntpsec, python3-ntp"
        assert result["msg"] == (
            "packages: chrony needs chrony, and apt did not install that: it would remove "
            f"{those}, which this machine has from elsewhere. Nothing was changed. Remove {those} "
            "there yourself, or leave role chrony off for this host."
        )
