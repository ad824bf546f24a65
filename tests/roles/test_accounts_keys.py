"""Keys of users in homes that the users have prepared for root's coming."""

import ctypes
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.setup import accounts_differences, accounts_keys, accounts_lists
from node.setup import accounts_machine as machines

pytestmark = pytest.mark.process

Home, KeysError, Wish = accounts_keys.Home, accounts_keys.KeysError, accounts_keys.Wish

ROOT = os.geteuid() == 0
# Of nobody, so that the tests need no user.
UID = 47110 if ROOT else os.getuid()
GID = 47110 if ROOT else os.getgid()
A = "ssh-ed25519 AAAAC3A ada@laptop"
B = "ssh-ed25519 AAAAC3B ada@desk"
OF_ROOT = "nothing of the user's\n"

needs_root = pytest.mark.skipif(not ROOT, reason="only root can become somebody else")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of ours that others may look into, which pytest's are not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(place: Path) -> accounts_keys.Home:
    """A user's home, with `.ssh` in it."""
    for path in (place / "ada", place / "ada/.ssh"):
        path.mkdir(mode=0o700)
        os.chown(path, UID, GID)
    return Home("ada", UID, GID, str(place / "ada"))


@pytest.fixture
def secret(place: Path) -> Path:
    """A directory that the user may write, so that it is not left alone for lack of rights."""
    path = place / "secret"
    path.mkdir()
    path.chmod(0o777)
    os.chown(path, UID, GID)
    (path / "authorized_keys").write_text(OF_ROOT)
    (path / "authorized_keys").chmod(0o666)
    return path


def keys_file(home: accounts_keys.Home) -> Path:
    """Where a user's keys are."""
    return Path(home.path, ".ssh/authorized_keys")


def write(home: accounts_keys.Home, *lines: str, **options: bool) -> str:
    """Have the file hold these keys; return what it holds then."""
    accounts_keys.bring_about(home, Wish(lines, **options))
    return keys_file(home).read_text()


def attributes(path: Path) -> tuple[int, int, int]:
    """Owner, group and mode."""
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def untouched(secret: Path, before: tuple[int, int, int]) -> bool:
    """Whether the directory is as the fixture made it."""
    files = [path.name for path in secret.iterdir()]
    text = (secret / "authorized_keys").read_text()
    return (files, text, attributes(secret)) == (["authorized_keys"], OF_ROOT, before)


def test_a_new_home_gets_what_sshd_asks_for(home: accounts_keys.Home) -> None:
    Path(home.path, ".ssh").rmdir()
    assert write(home, A, B) == f"{A}\n{B}\n"
    assert attributes(Path(home.path, ".ssh")) == (UID, GID, 0o700)
    assert attributes(keys_file(home)) == (UID, GID, 0o600)
    assert os.listdir(Path(home.path, ".ssh")) == ["authorized_keys"]


def test_the_users_other_lines_stay(home: accounts_keys.Home) -> None:
    own = f'# mine\n\ncommand="echo \\"a b\\"",restrict {B}\nnonsense'
    keys_file(home).write_bytes(own.encode() + b"\xff")
    assert accounts_keys.bring_about(home, Wish((A,))).after.endswith(f"\n{A}\n")
    assert keys_file(home).read_bytes() == own.encode() + b"\xff\n" + A.encode() + b"\n"
    # Again changes nothing, and does not make the file anew.
    before = keys_file(home).stat().st_ino
    write_again = accounts_keys.bring_about(home, Wish((A,)))
    assert write_again.before == write_again.after
    assert keys_file(home).stat().st_ino == before


def test_the_same_key_with_other_options_gives_way(home: accounts_keys.Home) -> None:
    keys_file(home).write_text(f"{B}\nssh-ed25519 AAAAC3A old comment\n{B}2\n")
    assert write(home, f"restrict {A}") == f"{B}\nrestrict {A}\n{B}2\n"


def test_exclusive_leaves_no_other_key(home: accounts_keys.Home) -> None:
    keys_file(home).write_text(f"{B}\n# mine\n")
    assert write(home, A, A, exclusive=True) == f"{A}\n"
    assert write(home, exclusive=True) == ""


def test_a_dry_run_changes_nothing(home: accounts_keys.Home) -> None:
    texts = accounts_keys.bring_about(home, Wish((A,)), dry_run=True)
    assert texts == ("", f"{A}\n")
    assert os.listdir(Path(home.path, ".ssh")) == []
    Path(home.path, ".ssh").rmdir()
    assert accounts_keys.bring_about(home, Wish((A,)), dry_run=True).after == f"{A}\n"
    assert os.listdir(home.path) == []
    # A dry run has not made the home either.
    missing = home._replace(path=f"{home.path}/none")
    assert accounts_keys.bring_about(missing, Wish((A,)), dry_run=True).after == f"{A}\n"
    with pytest.raises(KeysError, match="does not exist"):
        accounts_keys.bring_about(missing, Wish((A,)))


def link_directory(home: accounts_keys.Home, secret: Path) -> None:
    Path(home.path, ".ssh").rmdir()
    Path(home.path, ".ssh").symlink_to(secret)


def link_file(home: accounts_keys.Home, secret: Path) -> None:
    keys_file(home).symlink_to(secret / "authorized_keys")


def link_to_what_is_not_there(home: accounts_keys.Home, secret: Path) -> None:
    keys_file(home).symlink_to(secret / "new")


@pytest.mark.parametrize("plant", [link_directory, link_file, link_to_what_is_not_there])
def test_a_link_leads_nowhere(
    plant: Callable[[accounts_keys.Home, Path], None], home: accounts_keys.Home, secret: Path
) -> None:
    before = attributes(secret)
    plant(home, secret)
    # Neither is read through it, nor written; the sentence names user, path and remedy.
    with pytest.raises(KeysError, match=rf"^user ada: {home.path}/\.ssh.* is a link.* mend or"):
        accounts_keys.read_keys(home)
    with pytest.raises(KeysError, match="is a link"):
        accounts_keys.bring_about(home, Wish((A,), exclusive=True))
    assert untouched(secret, before)


def test_what_is_no_file_is_refused_at_once(home: accounts_keys.Home) -> None:
    begin = time.monotonic()
    os.mkfifo(keys_file(home))
    with pytest.raises(KeysError, match="is not a file"):
        accounts_keys.read_keys(home)
    keys_file(home).unlink()
    keys_file(home).mkdir()
    with pytest.raises(KeysError, match="is not a file"):
        accounts_keys.bring_about(home, Wish((A,)))
    keys_file(home).rmdir()
    Path(home.path, ".ssh").rmdir()
    Path(home.path, ".ssh").touch()
    with pytest.raises(KeysError, match="is not a directory"):
        accounts_keys.bring_about(home, Wish((A,)))
    assert time.monotonic() - begin < 10


def test_a_huge_file_is_not_read(home: accounts_keys.Home) -> None:
    with keys_file(home).open("wb") as file:
        file.truncate(1 << 40)  # without a block on the disk
    with pytest.raises(KeysError, match="larger than"):
        accounts_keys.read_keys(home)


def test_a_home_that_does_not_answer(home: accounts_keys.Home) -> None:
    with pytest.raises(KeysError, match="did not answer within 0 s"):
        accounts_keys.as_user(home, lambda: "".join(map(str, map(time.sleep, [60]))), patience=0.2)


def test_a_process_that_somebody_ended(home: accounts_keys.Home) -> None:
    with pytest.raises(KeysError, match="somebody ended it"):
        accounts_keys.as_user(home, lambda: str([*map(os.kill, [os.getpid()], [9])]))
    with pytest.raises(KeysError, match="ZeroDivisionError"):
        accounts_keys.as_user(home, lambda: str(1 / 0))


@needs_root
def test_all_of_it_is_done_with_the_users_rights_alone(home: accounts_keys.Home) -> None:
    said = accounts_keys.as_user(
        home, lambda: f"{os.getresuid()} {os.getresgid()} {os.getgroups()}"
    )
    assert said == f"{(UID,) * 3} {(GID,) * 3} {[GID]}"
    # Without a way back, and nobody else of the user's processes may look into it.
    with pytest.raises(KeysError, match="PermissionError"):
        accounts_keys.as_user(home, lambda: str([*map(os.setuid, [0])]))
    assert accounts_keys.as_user(home, lambda: str(os.stat("/proc/self/mem").st_uid)) == "0"


@needs_root
def test_a_home_that_leads_elsewhere_opens_nothing_new(
    home: accounts_keys.Home, secret: Path
) -> None:
    # As where a user may write the directory above the home. /root/.ssh stands for all of root's.
    (secret / ".ssh").mkdir(mode=0o700)
    (secret / ".ssh/authorized_keys").write_text(OF_ROOT)
    led = home._replace(path=f"{home.path}/link")
    Path(led.path).symlink_to(secret)
    for work in (accounts_keys.read_keys, lambda led: accounts_keys.bring_about(led, Wish((A,)))):
        with pytest.raises(KeysError, match="Permission denied"):
            work(led)
    (secret / ".ssh").chmod(0o755)
    with pytest.raises(KeysError, match="does not belong to ada"):
        accounts_keys.bring_about(led, Wish((A,)))
    assert (secret / ".ssh/authorized_keys").read_text() == OF_ROOT


def test_a_home_that_is_the_administrators_link(home: accounts_keys.Home, place: Path) -> None:
    (place / "home").symlink_to(home.path)
    assert write(home._replace(path=str(place / "home")), A) == f"{A}\n"


def exchange(one: Path, other: Path) -> None:
    """Have two files change their names at once: renameat2(2)."""
    here, rename_exchange = -100, 2
    call = ctypes.CDLL(None, use_errno=True).renameat2
    assert call(here, bytes(one), here, bytes(other), rename_exchange) == 0


def test_a_link_put_in_place_meanwhile(home: accounts_keys.Home, secret: Path) -> None:
    # The user's processes change `.ssh` to and fro while root writes.
    before = attributes(secret)
    link, ssh = Path(home.path, "link"), Path(home.path, ".ssh")
    link.symlink_to(secret)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            exchange(link, ssh)

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes: set[str] = set()
    try:
        for number in range(300):
            if number > 40 and len(outcomes) == 2:
                break
            try:
                accounts_keys.bring_about(home, Wish((f"{A}{number}",), exclusive=True))
                outcomes.add("written")
            except KeysError:
                outcomes.add("refused")
    finally:
        done.set()
        thread.join()
    assert outcomes == {"written", "refused"}
    assert untouched(secret, before)


def test_a_file_with_two_names_keeps_its_text(home: accounts_keys.Home, place: Path) -> None:
    other = place / "other"
    other.write_text(f"{B}\n")
    os.chown(other, UID, GID)
    os.link(other, keys_file(home))
    assert write(home, A) == f"{B}\n{A}\n"
    assert other.read_text() == f"{B}\n"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (A, "ssh-ed25519 AAAAC3A"),
        ("ssh-rsa\tAAAAB3==", "ssh-rsa AAAAB3=="),
        (f'restrict,command="say \\" ssh-rsa AAAAx",pty {A}', "ssh-ed25519 AAAAC3A"),
        ("sk-ssh-ed25519@openssh.com AAAAG x", "sk-ssh-ed25519@openssh.com AAAAG"),
        ("# ssh-ed25519", None),
        ("https://example.org/keys", None),
        ("ssh-ed25519 AAAA$x", None),
        ('"' * 60000, None),
    ],
)
def test_finds_the_key_of_a_line(line: str, key: str | None) -> None:
    assert accounts_keys.key_of(line) == key


def test_sshd_takes_what_was_written(home: accounts_keys.Home, place: Path) -> None:
    key = place / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_name("key.pub").read_text().strip()
    write(home, f'restrict,from="192.0.2.1" {public}')
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(keys_file(home))], capture_output=True, text=True, check=True
    )
    assert listed.stdout.endswith("(ED25519)\n")


def test_a_planted_link_is_seen_and_keeps_nobody_else_from_anything(
    home: accounts_keys.Home, secret: Path
) -> None:
    assert machines.authorized_keys(home) == frozenset()
    link_file(home, secret)
    assert machines.authorized_keys(home) is None
    account = machines.Account(UID, GID, authorized_keys=None)
    machine = machines.Machine(users={"ada": account}, homes=frozenset({"/"}))
    ada = accounts_lists.User("ada")
    for user, seen in (
        (ada, False),
        (ada._replace(authorized_keys=(A,)), True),
        # Keys that are to go do not stay unnoticed behind a link.
        (ada._replace(authorized_keys_exclusive=True), True),
    ):
        plan = accounts_differences.differences_of_presence(
            accounts_lists.Lists([], [user]), machine, False
        )
        assert bool(plan["authorized_keys"]) is seen
