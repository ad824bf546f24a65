"""The plan of the role login_shell, and what it makes of a login."""

import os
import pwd
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import login_shell_login
from role_files import ROLES

from node.setup import login_shell
from node.setup.login_shell import Account, Change, File, LoginShells, Machine, ShellUser, SiteFile

Login = login_shell_login.Login

ZSH, FISH = "/usr/bin/zsh", "/usr/bin/fish"
MARKER = "# {mark} test"
BLOCK = SiteFile("zsh", "/etc/zsh/zshrc", "PROMPT=x\n")
DROP_IN = SiteFile("fish", "/etc/fish/conf.d/site.fish", "set x\n")
BLOCK_FILE = File("before\n# BEGIN test\nPROMPT=x\n# END test\nafter\n", (0, 0, 0o644))
DROP_IN_FILE = File("set x\n", (0, 0, 0o644))

# Two users with shells that are set, on a machine where all is as listed.
SETTINGS = LoginShells(
    programs={"zsh": ZSH, "fish": FISH},
    marker=MARKER,
    record="/no/such",
    packages="/no/such",
    users=(ShellUser("ada", "zsh"), ShellUser("bob", "fish")),
    directories=("/opt/site/bin",),
    files=(DROP_IN,),
    blocks=(BLOCK,),
)
EVE = ShellUser("eve", "zsh")
MACHINE = Machine(
    users={"root": Account(0, "/bin/bash"), "ada": Account(1000, ZSH), "bob": Account(1001, FISH)},
    changes={"ada": Change("/bin/bash", ZSH), "bob": Change("/bin/sh", FISH)},
    installed=frozenset({"zsh", "fish"}),
    files={BLOCK.path: BLOCK_FILE, DROP_IN.path: DROP_IN_FILE},
    programs=frozenset({"/bin/bash", "/bin/sh"}),
)
RECORD = f"ada:/bin/bash:{ZSH}\nbob:/bin/sh:{FISH}\n"
NOTHING = {"record": RECORD}


def refused(settings: LoginShells, machine: Machine = MACHINE) -> list[str]:
    """Return what speaks against setting the shells."""
    return list(login_shell.problems_of_presence(settings, machine))


def to_do(settings: LoginShells = SETTINGS, machine: Machine = MACHINE) -> dict[str, Any]:
    """Return what is to be done to set the shells, without what is empty."""
    differences = login_shell.differences_of_presence(settings, machine)
    return {name: value for name, value in differences.items() if value}


def with_user(name: str, uid: int, shell: str) -> Any:
    """Return the machine with a user that is new or another."""
    return replace(MACHINE, users={**MACHINE.users, name: Account(uid, shell)})


def test_nothing_is_refused_and_nothing_to_do_where_all_is_as_listed() -> None:
    assert refused(SETTINGS) == []
    assert to_do() == NOTHING


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"users": (*SETTINGS.users, SETTINGS.users[0])}, "ada is listed more than once"),
        ({"users": (ShellUser("root", "zsh"),)}, "root is root"),
        ({"users": (EVE,)}, "eve is not in /etc/passwd of this machine: list"),
        ({"listed_elsewhere": {"ada", "eve"}}, "ada has a shell in accounts_users too"),
        *(
            ({"directories": (directory,)}, f'"{directory}" in login_shell_path')
            for directory in ("bin", "/opt/my bin", "/opt/$x", "/opt\n", "")
        ),
    ],
)
def test_refuses(change: dict[str, Any], said: str) -> None:
    [sentence] = refused(SETTINGS._replace(**change))
    assert sentence.startswith(said)


def test_refuses_every_user_with_the_number_of_root() -> None:
    [sentence] = refused(SETTINGS, with_user("ada", 0, ZSH))
    assert sentence.startswith("ada is root")


def test_names_all_problems_at_once() -> None:
    users = (ShellUser("root", "zsh"), EVE, EVE)
    settings = SETTINGS._replace(users=users, directories=("bin",))
    assert [sentence.split()[0] for sentence in refused(settings)] == [
        "root",
        "eve",
        "eve",
        '"bin"',
    ]


def test_a_dry_run_may_lack_users() -> None:
    settings = SETTINGS._replace(users=(EVE,), dry=True)
    assert refused(settings) == []
    assert "shells" not in to_do(settings)


def test_sets_a_shell_and_records_the_one_before() -> None:
    settings = SETTINGS._replace(users=(*SETTINGS.users, EVE))
    differences = to_do(settings, with_user("eve", 1002, "/bin/sh"))
    assert differences["shells"] == [{"name": "eve", "shell": ZSH}]
    assert differences["record"] == f"{RECORD}eve:/bin/sh:{ZSH}\n"
    assert differences["record_differs"]


def test_sees_that_somebody_set_another_shell() -> None:
    differences = to_do(machine=with_user("bob", 1001, "/bin/sh"))
    # The shell before stays the one before the role.
    assert differences == {**NOTHING, "shells": [{"name": "bob", "shell": FISH}]}


def test_records_nothing_of_a_user_who_had_the_shell() -> None:
    settings = SETTINGS._replace(users=(*SETTINGS.users, EVE))
    assert to_do(settings, with_user("eve", 1002, ZSH)) == NOTHING
    machine = replace(MACHINE, changes=None)
    # An empty record tells that the role was here.
    assert to_do(machine=machine) == {"record_differs": True}
    assert to_do(machine=replace(MACHINE, changes={})) == {}


@pytest.mark.parametrize(
    ("now", "programs", "returned"),
    [
        (ZSH, {"/bin/sh"}, "/bin/sh"),
        # One that has gone since would lock its user out.
        (ZSH, {}, "/bin/bash"),
        # Who chose another shell since keeps it.
        ("/bin/dash", {"/bin/sh"}, None),
    ],
)
def test_gives_back_the_shell_of_before(now: str, programs: Any, returned: str | None) -> None:
    machine = replace(
        with_user("eve", 1002, now),
        changes={**(MACHINE.changes or {}), "eve": Change("/bin/sh", ZSH)},
        programs=frozenset(programs),
    )
    expected = [{"name": "eve", "shell": returned}] if returned else []
    differences = to_do(machine=machine)
    assert differences.get("returns", []) == expected
    assert differences["record"] == RECORD
    absence = login_shell.differences_of_absence(SETTINGS, machine)
    assert [entry for entry in absence["returns"] if entry["name"] == "eve"] == expected


def test_gives_back_that_there_was_none() -> None:
    machine = replace(MACHINE, changes={"ada": Change("", ZSH)})
    absence = login_shell.differences_of_absence(SETTINGS, machine)
    assert absence["returns"] == [{"name": "ada", "shell": ""}]


@pytest.mark.parametrize(
    ("path", "file"),
    [
        (BLOCK.path, None),
        (BLOCK.path, File("before\n", (0, 0, 0o644))),
        (BLOCK.path, File(BLOCK_FILE.text.replace("PROMPT=x\n", ""), (0, 0, 0o644))),
        (DROP_IN.path, None),
        (DROP_IN.path, File("set y\n", (0, 0, 0o644))),
        (DROP_IN.path, File(DROP_IN_FILE.text, (0, 0, 0o666))),
    ],
)
def test_sees_a_changed_file_of_the_site(path: str, file: Any) -> None:
    files = {name: content for name, content in {**MACHINE.files, path: file}.items() if content}
    assert to_do(machine=replace(MACHINE, files=files)) == {**NOTHING, "site_files": [path]}


def test_takes_away_the_files_of_shells_that_nobody_has() -> None:
    nobody = SETTINGS._replace(users=())
    assert to_do(nobody)["stale_files"] == [DROP_IN.path, BLOCK.path]
    absence = login_shell.differences_of_absence(SETTINGS, MACHINE)
    assert absence["stale_files"] == [DROP_IN.path, BLOCK.path]
    # A file of the distribution without the block stays as it is.
    files = {BLOCK.path: File("before\n", (0, 0, 0o644))}
    assert "stale_files" not in to_do(nobody, replace(MACHINE, files=files))


def test_absence_is_refused_where_somebody_would_be_locked_out() -> None:
    def locked_out(machine: Any) -> list[str]:
        sentences = login_shell.problems_of_absence(machine)
        return [sentence.partition(" would be locked out")[0] for sentence in sentences]

    assert locked_out(MACHINE) == []
    assert locked_out(with_user("eve", 1002, FISH)) == [f"eve ({FISH})"]
    assert locked_out(with_user("ada", 1000, FISH)) == [f"ada ({FISH})"]
    # A shell that was there before the role stays.
    machine = replace(with_user("eve", 1002, FISH), installed=frozenset({"zsh"}))
    assert locked_out(machine) == []


def test_reads_a_machine(tmp_path: Path) -> None:
    record, packages, rc = tmp_path / "record", tmp_path / "packages", tmp_path / "zshrc"
    rc.write_text("before\n")
    rc.chmod(0o600)
    settings = SETTINGS._replace(
        files=(SiteFile("zsh", str(rc), "x\n"),), record=str(record), packages=str(packages)
    )
    machine = login_shell.read_machine(settings)
    assert (machine.changes, machine.installed) == (None, frozenset())
    assert machine.users["root"].uid == 0
    assert machine.files[str(rc)] == File("before\n", (os.getuid(), os.getgid(), 0o600))

    record.write_text(f"# comment\nada:/bin/sh:{ZSH}\nbob:/no/such:{ZSH}\neve::{ZSH}\n")
    packages.write_text("# BEGIN x\nzsh\nzsh-common\n# END x\n")
    machine = login_shell.read_machine(settings)
    assert machine.changes is not None
    assert machine.changes["eve"] == Change("", ZSH)
    assert machine.installed == {"zsh"}
    assert machine.programs == {"/bin/sh"}


def test_the_record_is_read_as_it_was_written() -> None:
    changes = {"ada": Change("", ZSH), "bob": Change("/bin/sh", FISH)}
    text = login_shell.record_text(changes)
    assert login_shell.parse_record(text) == changes


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (Login(3, "", "no entry\nmore\n"), "/bin/sh ended with status 3 no entry"),
        (Login(124, "", ""), "/bin/sh did not start within 12 s "),
        (Login(137, "", ""), "/bin/sh did not start within 12 s "),
        (Login(0, "hello\n", ""), "/bin/sh ended before it ran a command "),
        (
            Login(0, "login_shell has started\n/usr/bin/other\n", ""),
            "a login ran /usr/bin/other, not /bin/sh",
        ),
        # A shell may print before and after.
        (
            Login(
                0,
                f"hi\nlogin_shell has started\n{os.path.realpath('/bin/sh')}\nbye\n",
                "a warning",
            ),
            "",
        ),
    ],
)
def test_says_what_a_login_did(login: Any, said: str) -> None:
    problem = login_shell_login.start_problem("/bin/sh", login, 12)
    assert (problem or login_shell_login.other_program("/bin/sh", login)) == said
    assert (problem == "") == (login.status == 0 and "login_shell has started" in login.output)


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="su asks for a password")
def test_a_login_runs_the_shell() -> None:
    user, shell = pwd.getpwuid(0).pw_name, "/bin/bash"
    login = login_shell_login.log_in(user, shell, 30)
    assert login_shell_login.start_problem(shell, login, 30) == "", login
    assert login_shell_login.other_program(shell, login) == "", login


def test_every_shell_that_may_be_named_has_a_path_and_packages() -> None:
    specs = yaml.safe_load((ROLES / "login_shell/meta/argument_specs.yml").read_text())
    users = specs["argument_specs"]["main"]["options"]["login_shell_users"]["options"]
    variables = yaml.safe_load((ROLES / "login_shell/vars/main.yml").read_text())
    choices = set(users["shell"]["choices"])
    assert choices == set(variables["login_shell_paths"]) == set(variables["login_shell_packages"])


def logged_in(monkeypatch: pytest.MonkeyPatch, script: str) -> tuple[Any, float]:
    """Return what a login did that is this script, and the seconds that it took."""
    monkeypatch.setattr(login_shell_login, "login_argv", lambda *_given: ["bash", "-c", script])
    start = time.monotonic()
    login = login_shell_login.log_in("ada", None, 30)
    return login, time.monotonic() - start


@pytest.mark.process
def test_what_a_login_leaves_in_the_background_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "echo hello; echo oh >&2; sleep 30 & echo $!; exit 3"
    login, seconds = logged_in(monkeypatch, script)
    hello, background = login.output.split()
    os.kill(int(background), signal.SIGKILL)
    assert seconds < 5
    assert (login.status, hello, login.errors) == (3, "hello", "oh\n")
    # Nobody reads what this one prints, which ends it.
    login, seconds = logged_in(monkeypatch, "yes & sleep 0.2")
    assert seconds < 5
    assert login.status == 0


@pytest.mark.process
def test_a_login_may_print_a_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "yes | head -c 1000000; echo end; echo oh >&2; yes | head -c 1000000 >&2"
    login, _ = logged_in(monkeypatch, script)
    assert login.output.endswith("\ny\nend\n")
    assert login.errors.startswith("oh\ny\n")
    assert [len(login.output), len(login.errors)] == [login_shell_login.KEPT] * 2
