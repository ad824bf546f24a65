"""The plan of the role accounts: what it refuses, and what it finds to do."""

import grp
import pwd
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.template import trust_as_template
from ansible_here import Host
from role_files import ROLES

from node.failure import VerbError
from node.setup import (
    accounts,
    accounts_differences,
    accounts_lists,
    accounts_machine,
    accounts_problems,
)
from node.setup.accounts import Accounts

Account, Machine = accounts_machine.Account, accounts_machine.Machine
Rule, Run, UnixGroup = accounts_machine.Rule, accounts_machine.Run, accounts_machine.UnixGroup
Group, Lists, User = accounts_lists.Group, accounts_lists.Lists, accounts_lists.User

HASH = "$6$salt$" + 86 * "x"
KEY = "ssh-ed25519 AAAA ada@example.org"
RULE = Rule("ada ALL=(ALL:ALL) NOPASSWD: ALL\n", (0, 0, 0o440))
RULE_PATH = "/etc/sudoers.d/accounts-ada"

# The user `ada` with all that can be listed, and a machine on which she is as listed.
ADA = User(
    "ada",
    uid=2001,
    groups=("research",),
    comment="Ada",
    home="/home/ada",
    shell="/bin/zsh",
    authorized_keys=(KEY,),
    sudo="passwordless",
    password_hash=HASH,
)
RESEARCH = Group("research", 2100)
ACCOUNT = Account(2001, 2001, "Ada", "/home/ada", "/bin/zsh", HASH, frozenset({KEY, "other key"}))
MACHINE = Machine(
    users={"root": Account(0, 0), "ada": ACCOUNT, "games": Account(5, 60)},
    groups={
        "root": UnixGroup(0),
        "games": UnixGroup(60),
        "operator": UnixGroup(37),
        "research": UnixGroup(2100, frozenset({"ada"})),
        "ada": UnixGroup(2001),
        "docker": UnixGroup(999, frozenset({"ada"})),
    },
    homes=frozenset({"/home/ada"}),
    missing_shells=frozenset({"/bin/nosuch"}),
    rules={RULE_PATH: RULE},
    made_users=frozenset({"ada"}),
    made_groups=frozenset({"ada", "research"}),
)


def refused(*entries: Any, machine: Any = MACHINE) -> list[str]:
    """Return the problems of a list of groups and users."""
    groups = [entry for entry in entries if isinstance(entry, Group)]
    users = [entry for entry in entries if isinstance(entry, User)]
    problems: list[str]
    problems = accounts_problems.problems_of_presence(Lists(groups, users), machine, "ops")
    return problems


def to_do(*entries: Any, machine: Any = MACHINE, dry_run: bool = False) -> dict[str, Any]:
    """Return what is to be done for a list of groups and users, without what is empty."""
    groups = [entry for entry in entries if isinstance(entry, Group)]
    users = [entry for entry in entries if isinstance(entry, User)]
    differences = accounts_differences.differences_of_presence(
        Lists(groups, users), machine, dry_run
    )
    return {name: value for name, value in differences.items() if value}


def test_nothing_is_refused_and_nothing_to_do_where_all_is_as_listed() -> None:
    assert refused(RESEARCH, ADA) == []
    assert to_do(RESEARCH, ADA) == {"sudo_users": ["ada"]}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([User("bob"), User("bob")], "user bob is listed more than once"),
        ([User("b", uid=7), User("c", uid=7)], "uid 7 is listed more than once"),
        ([Group("g"), Group("g")], "group g is listed more than once"),
        ([Group("g", 7), Group("h", 7)], "gid 7 is listed more than once"),
        ([User("Bob")], "user Bob: not a login name"),
        ([User("bob\n")], "user bob\n: not a login name"),
        ([User("b" * 33)], f"user {'b' * 33}: not a login name"),
        ([User("bob", home="bob")], "user bob: home 'bob' is not a path from"),
        ([User("bob", home="/")], "user bob: home '/' is not a path from"),
        ([User("bob", shell="zsh")], "user bob: shell 'zsh' is not a path from"),
        ([User("bob", comment="a:b")], "user bob: a comment has no colon and one line"),
        ([Group("a b")], "'a b' of a b is not the name of a group"),
        ([User("bob", password_hash="secret")], "user bob: password_hash is not a whole hash"),
        ([User("bob", password_hash="$6$salt$cut")], "user bob: password_hash is not a whole hash"),
        (
            [User("bob", authorized_keys=(KEY, "not a key"))],
            "user bob: 'not a key' of authorized_keys is not a public key",
        ),
        ([User("bob", shell="/bin/nosuch")], "user bob: the machine has no /bin/nosuch"),
        ([User("root", state="absent")], "user root cannot be removed"),
        ([User("ops", state="absent")], "user ops cannot be removed"),
        ([Group("operator", 2200)], "group operator has the number 37 already, not 2200"),
        ([Group("g", 37)], "gid 37 of group g belongs to group operator"),
        # A group that the role made may get another number, but not somebody else's.
        ([Group("research", 37)], "gid 37 of group research belongs to group operator"),
        (
            [User("games", uid=2011, group="games")],
            "user games has the number 5 already, not 2011",
        ),
        ([User("bob", uid=2001, group="games")], "uid 2001 of user bob belongs to user ada"),
        ([User("ada", uid=5)], "uid 5 of user ada belongs to user games"),
        ([User("operator")], "user operator would get a group of the same name"),
        (
            [User("bob", uid=37)],
            "gid 37 of the own group of user bob belongs to group operator",
        ),
        ([User("bob", group="nowhere")], "group nowhere of user bob does not exist"),
        ([User("bob", groups=("no",))], "group no of user bob does not exist"),
        (
            [Group("gone", state="absent"), User("bob", groups=("gone",))],
            "group gone of user bob does not exist",
        ),
    ],
)
def test_refuses(entries: list[Any], said: str) -> None:
    [problem] = refused(*entries)
    assert problem.startswith(said)
    assert problem.endswith(".")


def test_names_all_problems_at_once() -> None:
    problems = refused(Group("g", 37), User("Bob"), User("operator"))
    assert [problem.split(" ")[1] for problem in problems] == ["Bob:", "37", "operator"]


@pytest.mark.parametrize(
    "entry",
    [
        # Numbers that are not listed stay as they are.
        User("games", group="games"),
        User("operator", group="operator"),
        Group("operator"),
        # What the role made may get another number.
        User("ada", uid=2002),
        Group("research", 2101),
        # Names and groups that come with the list.
        User("bob", uid=2002),
        User("bob", password_hash="$y$j9T$salt$" + 43 * "x"),
        User("a.b_c-d"),
    ],
)
def test_accepts(entry: Any) -> None:
    assert refused(entry) == []


def test_refuses_to_remove_whose_run_lies_here() -> None:
    machine = replace(MACHINE, runs=(Run("vit", 2001), Run("cnn", 0)))
    leaver = ADA._replace(state="absent")
    [problem] = refused(leaver, machine=machine)
    assert "training runs of a user that is to be removed: vit." in problem
    assert refused(ADA, machine=machine) == []
    assert accounts_problems.problems_of_absence(machine, "root") == [problem]


def test_a_number_that_others_have_keeps_a_user() -> None:
    """All processes of that number would be ended, those of root too."""
    alike = {"toor": Account(0, 0), "alias": Account(2001, 2001)}
    machine = replace(MACHINE, users={**MACHINE.users, **alike})
    [problem] = refused(User("toor", state="absent"), machine=machine)
    assert problem.startswith("user toor cannot be removed: 0 is also the number of root")
    [problem] = accounts_problems.problems_of_absence(machine, "root")
    assert problem.startswith("user ada cannot be removed: 2001 is also the number of alias")
    both = [User(name, state="absent") for name in ("ada", "alias")]
    assert refused(*both, machine=machine) == []


@pytest.mark.parametrize("made", [{"made_users": frozenset()}, {"rules": {}}])
def test_absence_keeps_whom_ansible_works_as(made: dict[str, Any]) -> None:
    # Either is enough: made by the role, or given the right to sudo by it.
    [problem] = accounts_problems.problems_of_absence(replace(MACHINE, **made), "ada")
    assert problem.startswith("Ansible works as ada, whom this role made")
    assert accounts_problems.problems_of_absence(MACHINE, "root") == []


@pytest.mark.parametrize(
    "drift",
    [
        {"uid": 2002},
        {"gid": 2100},
        {"comment": ""},
        {"home": "/nowhere"},
        {"shell": "/bin/bash"},
    ],
)
def test_sees_a_changed_user(drift: dict[str, Any]) -> None:
    machine = replace(MACHINE, users={**MACHINE.users, "ada": replace(ACCOUNT, **drift)})
    assert to_do(RESEARCH, ADA, machine=machine)["users"] == [
        {
            "name": "ada",
            "uid": 2001,
            "group": "ada",
            "groups": ["research"],
            "append": True,
            "create_home": False,
            "comment": "Ada",
            "home": "/home/ada",
            "shell": "/bin/zsh",
        }
    ]


def test_only_a_new_user_gets_the_home_from_the_module_that_walks_through_it() -> None:
    lost = to_do(ADA, User("bob"), machine=replace(MACHINE, homes=frozenset()))
    assert lost["missing_homes"] == ["ada"]
    assert [user["create_home"] for user in lost["users"]] == [False, True]
    assert "missing_homes" not in to_do(ADA, User("bob"))


def test_sees_a_missing_home() -> None:
    assert [
        user["name"] for user in to_do(ADA, machine=replace(MACHINE, homes=frozenset()))["users"]
    ] == ["ada"]


def test_sees_a_membership_that_is_missing_and_one_too_many() -> None:
    groups = {**MACHINE.groups, "research": UnixGroup(2100)}
    assert "users" in to_do(ADA, machine=replace(MACHINE, groups=groups))
    exclusive = ADA._replace(groups_exclusive=True)
    [user] = to_do(exclusive)["users"]
    assert (user["groups"], user["append"]) == (["research"], False)
    assert "users" not in to_do(exclusive._replace(groups=("research", "docker")))


@pytest.mark.parametrize("password", ["", "!", "*", "$6$salt$other"])
def test_sees_a_changed_password_and_tells_no_hash(password: str) -> None:
    machine = replace(MACHINE, users={"ada": replace(ACCOUNT, password=password)})
    differences = to_do(ADA, machine=machine)
    assert differences["passwords"] == ["ada"]
    assert HASH not in str(differences)


def test_a_locked_password_stays_locked() -> None:
    machine = replace(MACHINE, users={"ada": replace(ACCOUNT, password=f"!{HASH}")})
    assert "passwords" not in to_do(ADA, machine=machine)


def test_sees_keys_that_are_missing_and_too_many() -> None:
    missing = replace(MACHINE, users={"ada": replace(ACCOUNT, authorized_keys=frozenset())})
    assert to_do(ADA, machine=missing)["authorized_keys"] == [
        {"user": "ada", "lines": [KEY], "exclusive": False}
    ]
    exclusive = ADA._replace(authorized_keys_exclusive=True)
    assert to_do(exclusive)["authorized_keys"] == [
        {"user": "ada", "lines": [KEY], "exclusive": True}
    ]
    alone = replace(MACHINE, users={"ada": replace(ACCOUNT, authorized_keys=frozenset({KEY}))})
    assert "authorized_keys" not in to_do(exclusive, machine=alone)
    nobody = exclusive._replace(authorized_keys=())
    assert to_do(nobody, machine=alone)["authorized_keys"][0]["lines"] == []


def test_key_lines_pass_over_comments() -> None:
    assert accounts_machine.key_lines(f"# mine\n\n {KEY} \n") == {KEY}


@pytest.mark.parametrize(
    "rule", [replace(RULE, text="nonsense\n"), replace(RULE, access=(0, 0, 0o644))]
)
def test_sees_a_changed_rule(rule: Any) -> None:
    rules = to_do(ADA, machine=replace(MACHINE, rules={RULE_PATH: rule}))["rules"]
    assert rules == [{"path": RULE_PATH, "content": RULE.text}]


def test_takes_a_right_that_nobody_gave() -> None:
    assert to_do(ADA._replace(sudo="none"))["stale_rules"] == [RULE_PATH]
    assert to_do(User("ada", state="absent"))["stale_rules"] == [RULE_PATH]
    # Users that are not listed stay as they are.
    assert "stale_rules" not in to_do()


def test_no_two_users_share_a_rule() -> None:
    names = ["a.b", "a_b", "a-b", "a..b", "a.b.", "ab"]
    paths = {accounts_machine.rule_path(name) for name in names}
    assert len(paths) == len(names)
    # sudo ignores a file with a dot in its name.
    assert not any("." in Path(path).name for path in paths)
    assert to_do(User("a.b", sudo="password"), User("a_b"))["rules"] == [
        {"path": "/etc/sudoers.d/accounts-a+b", "content": "a.b ALL=(ALL:ALL) ALL\n"}
    ]


def test_plans_a_new_user_with_groups() -> None:
    bob = User("bob", uid=2002, groups=("painters", "docker"), authorized_keys=(KEY,))
    differences = to_do(Group("painters"), bob)
    assert differences["groups"] == [{"name": "painters"}, {"name": "bob", "gid": 2002}]
    assert differences["new_groups"] == ["bob", "painters"]
    assert differences["new_users"] == ["bob"]
    assert differences["users"] == [
        {
            "name": "bob",
            "uid": 2002,
            "group": "bob",
            "groups": ["painters", "docker"],
            "append": True,
            "create_home": True,
            "shell": "/bin/bash",
        }
    ]
    assert [entry["user"] for entry in differences["authorized_keys"]] == ["bob"]


def test_a_dry_run_leaves_out_what_needs_what_is_not_there() -> None:
    bob = User("bob", groups=("painters", "docker"), authorized_keys=(KEY,), sudo="password")
    machine = replace(MACHINE, sudo=False)
    differences = to_do(Group("painters"), bob, machine=machine, dry_run=True)
    assert differences["users"][0]["groups"] == ["docker"]
    assert differences["sudo_missing"]
    assert not {"authorized_keys", "rules"} & differences.keys()


def test_removes_the_listed_users_and_groups_that_exist() -> None:
    differences = to_do(
        Group("operator", state="absent"),
        Group("gone", state="absent"),
        User("ada", state="absent", remove_home=True),
        User("gone", state="absent"),
    )
    assert differences["leavers"] == [
        {"name": "ada", "uid": 2001, "remove_home": True, "group_stays": False}
    ]
    assert differences["absent_groups"] == ["operator"]


@pytest.mark.parametrize(
    ("gid", "members", "made", "stays"),
    [
        # One of the system's groups was there before.
        (37, [], [], True),
        (37, ["other"], [], True),
        # userdel keeps a group with members; root is no member to be taken out again.
        (37, ["root"], [], False),
        # Made by somebody else together with the user: it goes.
        (1500, [], [], False),
        # Only the user was made by the role, so that the group was there before.
        (1500, [], ["user"], True),
        (1500, [], ["user", "group"], False),
    ],
)
def test_keeps_the_group_that_was_there_before_its_user(
    gid: int, members: list[str], made: list[str], stays: bool
) -> None:
    machine = Machine(
        users={"eve": Account(1500, gid)},
        groups={"eve": UnixGroup(gid, frozenset(members))},
        made_users=frozenset({"eve"} if "user" in made else ()),
        made_groups=frozenset({"eve"} if "group" in made else ()),
    )
    [leaver] = to_do(User("eve", state="absent"), machine=machine)["leavers"]
    assert leaver["group_stays"] is stays


def test_absence_takes_what_the_role_made() -> None:
    machine = replace(MACHINE, users={**MACHINE.users, "eve": Account(1500, 2100)})
    lists = Lists([RESEARCH], [ADA._replace(remove_home=True)])
    assert accounts_differences.differences_of_absence(lists, machine) == {
        "stale_rules": [RULE_PATH],
        "leavers": [{"name": "ada", "uid": 2001, "remove_home": True, "group_stays": False}],
        # research is the primary group of eve, whom somebody else made.
        "absent_groups": ["ada"],
    }


def test_reads_a_machine(tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_text("group root 0\nuser root 0\nuser daemon 4711\n")
    (tmp_path / "runs/vit").mkdir(parents=True)
    (tmp_path / "runs/file").touch()
    machine = accounts_machine.read_machine(
        Lists([], [User("root", home="/", shell="/bin/nosuch"), User("b", shell="/bin/sh")]),
        record,
        str(tmp_path / "runs"),
    )
    assert machine.users["root"].uid == 0
    assert machine.homes == {"/"}
    assert machine.missing_shells == {"/bin/nosuch"}
    # The record has another number for daemon: somebody else made the one that is there.
    assert machine.made_users == {"root"}
    assert machine.made_groups == {"root"}
    assert machine.runs == (Run("vit", tmp_path.stat().st_uid),)


def test_a_directory_service_is_asked_for_what_it_does_not_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSSD lists nobody by default. Else the training account would get somebody's number."""
    unlisted = {"eve": ("eve", "x", 2000, 2100, "", "/net/eve", "/bin/sh")}
    people = {name: pwd.struct_passwd(entry) for name, entry in unlisted.items()}
    groups = {"staff": grp.struct_group(("staff", "x", 2100, ["eve"]))}
    for module, get, entries in ((pwd, "getpw", people), (grp, "getgr", groups)):
        monkeypatch.setattr(module, f"{get}all", list)
        monkeypatch.setattr(module, f"{get}nam", entries.__getitem__)
        numbered = {entry[2]: entry for entry in entries.values()}
        by_number = "getpwuid" if module is pwd else "getgrgid"
        monkeypatch.setattr(module, by_number, numbered.__getitem__)

    def conflicts(user: Any) -> list[str]:
        lists = Lists([], [user])
        machine = accounts_machine.read_machine(lists, tmp_path / "record", "")
        problems: list[str] = accounts_problems.problems_of_presence(lists, machine, "ops")
        return problems

    number = "choose another number (trainyard_uid is that of the account that trains)."
    assert conflicts(User("trainer", uid=2000)) == [
        f"uid 2000 of user trainer belongs to user eve: {number}"
    ]
    assert conflicts(User("eve", uid=2000, group="staff", sudo="password")) == []
    alone = "user eve comes from a directory service (LDAP, say), where alone its"
    [said] = conflicts(User("eve", group="staff", shell="/bin/bash", password_hash=HASH))
    assert said.startswith(f"{alone} shell, password_hash can be changed: list what `id eve`")
    [said] = conflicts(User("eve", state="absent"))
    assert said.startswith(f"{alone} state can be changed")


@pytest.mark.parametrize(
    ("msg", "hint"),
    [
        ("useradd: cannot create directory /home/trainer", True),
        ("useradd: existing lock file /etc/subuid.lock", False),
    ],
)
def test_a_home_that_root_may_not_make_has_a_way_out(msg: str, hint: bool) -> None:
    """As on a share that takes root for nobody."""
    (block, *_) = yaml.safe_load((ROLES / "accounts/tasks/users.yml").read_text())
    (task,) = block["rescue"]
    results = [{"item": {"name": "ada"}}, {"failed": True, "msg": msg, "item": {"name": "trainer"}}]
    host = Host("accounts", {"ansible_failed_result": {"results": results}})
    failed = host.template(trust_as_template(task["vars"]["accounts_failed"]))
    said = host.template(
        trust_as_template(task["ansible.builtin.fail"]["msg"]), accounts_failed=failed
    )
    assert said.startswith(f"accounts: trainer: {msg}.")
    assert ("trainyard_account" in said) is hint


def test_reads_rules_of_the_role_alone(tmp_path: Path) -> None:
    (tmp_path / "accounts-ada").write_text("rule")
    (tmp_path / "README").touch()
    rules = accounts_machine.read_rules(str(tmp_path / "accounts-"))
    assert {path: rule.text for path, rule in rules.items()} == {
        str(tmp_path / "accounts-ada"): "rule"
    }


def test_reads_shadow() -> None:
    text = f"root:*:1:0:99999:7:::\nada:{HASH}:1:0:99999:7:::\n"
    assert accounts_machine.shadow_passwords(text) == {"root": "*", "ada": HASH}


@pytest.mark.parametrize(
    ("caller", "refused"), [("ada", True), ("eve", False), ("", False), (None, False)]
)
def test_whom_ssh_logs_in_is_kept(
    caller: str | None, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inventory does not name the user; sudo does."""
    monkeypatch.delenv("SUDO_USER", raising=False)
    if caller is not None:
        monkeypatch.setenv("SUDO_USER", caller)
    monkeypatch.setattr(accounts, "read_machine", lambda *_given: MACHINE)
    listed = Accounts("root", str(tmp_path / "record"), users=[User("ada", state="absent")])
    with pytest.raises(VerbError, match="failed") if refused else nullcontext() as refusal:
        accounts.look_at_accounts(listed)
    if refusal is not None:
        assert "user ada cannot be removed" in refusal.value.values["message"]


@pytest.mark.parametrize(("option", "form"), [("accounts_groups", Group), ("accounts_users", User)])
def test_the_node_program_takes_what_the_role_declares(option: str, form: Any) -> None:
    specs = yaml.safe_load((ROLES / "accounts/meta/argument_specs.yml").read_text())
    declared = specs["argument_specs"]["main"]["options"][option]["options"]
    assert set(form._fields) == set(declared)
    for name, entry in declared.items():
        default = form._field_defaults.get(name)
        assert default == (
            tuple(entry["default"]) if entry.get("type") == "list" else entry.get("default")
        )
        assert entry.get("required", False) == (name not in form._field_defaults)
