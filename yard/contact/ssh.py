"""The ssh program, as Ansible calls it, but without a trace and with time limits."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yard.plays.connections import Connection

# Until sshd has said its first words, in seconds; and a whole command.
CONNECT_SECONDS, COMMAND_SECONDS = 5, 15
# Before Ansible's, as the first of two options holds. A connection that is open from earlier would
# prove nothing; nothing is asked, and nothing is learnt on the way.
OURS = (
    "ControlMaster=no",
    "ControlPath=none",
    "ControlPersist=no",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "VisualHostKey=no",
    f"ConnectTimeout={CONNECT_SECONDS}",
    "ConnectionAttempts=1",
    "LogLevel=DEBUG1",
)
# The words of ssh that only LogLevel=DEBUG1 shows.
DEBUG = re.compile(
    r"debug\d: |OpenSSH_\d|Authenticated to |Transferred: |Bytes per second: |Authenticating to "
)
AUTHENTICATED = re.compile(r"^(?:debug1: )?Authenticat(?:ed to|ion succeeded)", re.MULTILINE)
# Options of ssh that are for a person at a terminal, and the values with which commands work.
HARMLESS = {
    "RequestTTY": ("auto", "false", "true", "no", "yes"),
    "RemoteCommand": ("none",),
    "SessionType": ("default",),
    "StdinNull": ("no",),
    "ForkAfterAuthentication": ("no",),
}
ASKPASS = Path(__file__).with_name("askpass.sh")
NO_FILE = ("none", "/dev/null")


@dataclass(frozen=True)
class Settings:
    """What ssh makes of its arguments and its configuration, for one target.

    Attributes:
        address, port, user: where the connection goes, and who logs in.
        jumps: the bastions on the way, the first one first, each as ProxyJump has it.
        proxy_command: the program that makes the connection; None where ssh does.
        known_hosts: the file in which people's ssh keeps host keys; None where it keeps none.
        in_the_way: an option with which no command can be given to the target; "" for none.
    """

    address: str
    port: int
    user: str
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    known_hosts: str | None = None
    known_name: str = ""
    in_the_way: str = ""

    @property
    def is_direct(self) -> bool:
        """Whether no other machine or program is on the way."""
        return not self.jumps and self.proxy_command is None


@dataclass(frozen=True)
class Answer:
    """How a command over ssh ended.

    Attributes:
        status: 255 where ssh itself failed; None where the time was up.
        said: what ssh and the command wrote to stderr, what only a debug level shows included.
    """

    status: int | None
    output: str
    said: str

    @property
    def words(self) -> str:
        """What ssh said, as everybody sees it."""
        return "\n".join(line for line in self.said.splitlines() if not DEBUG.match(line))

    @property
    def authenticated(self) -> bool:
        """Whether the target let ssh in; of bastions on the way the debug level is another."""
        return AUTHENTICATED.search(self.said) is not None


def settings_of(target: Connection) -> Settings | str:
    """Ask ssh what it makes of a target; contacts nobody.

    Returns:
        The settings, or the words of ssh where it takes an argument or its configuration amiss.
    """
    try:
        answer = run_program([target.executable, "-G", *target.arguments, target.address])
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if answer.returncode != 0:
        return answer.stderr.strip()
    return parse_settings(answer.stdout)


def run_program(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program of OpenSSH on this machine, which is to ask nobody.

    Raises:
        OSError: it is not there.
        subprocess.TimeoutExpired: the time was up.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COMMAND_SECONDS,
        check=False,
    )


def parse_settings(text: str) -> Settings:
    """Build settings from the output of `ssh -G`."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name, value)
    address, port = said["hostname"], int(said["port"])
    jump = said.get("proxyjump", "none")
    command = said.get("proxycommand", "none")
    files = [file for file in said.get("userknownhostsfile", "none").split() if file not in NO_FILE]
    name = said.get("hostkeyalias", "none")
    if name == "none":
        name = address if port == 22 else f"[{address}]:{port}"
    expanded = {"%h": address, "%p": str(port), "%r": said["user"], "%%": "%"}
    return Settings(
        address=address,
        port=port,
        user=said["user"],
        jumps=() if jump == "none" else tuple(jump.split(",")),
        proxy_command=None
        if command == "none"
        else re.sub("%[hpr%]", lambda found: expanded[found[0]], command),
        known_hosts=os.path.expanduser(files[0]) if files else None,
        known_name=name,
        in_the_way=_in_the_way(said),
    )


def _in_the_way(said: Mapping[str, str]) -> str:
    """The option, as people write it, that keeps a command or its input from a target."""
    for name, harmless in HARMLESS.items():
        value = said.get(name.lower(), harmless[0])
        if value not in harmless:
            return f"{name} {value}"
    return ""


def run_ssh(
    target: Connection,
    settings: Settings,
    *command: str,
    options: tuple[str, ...] = (),
    text: str = "",
) -> Answer:
    """Run a command on a target.

    Args:
        command: for the login shell there.
        options: further ones of ssh, before all others.
        text: what the command reads on standard input.
    """
    ours = [part for option in OURS for part in ("-o", option)]
    ours += ["-o", f"BatchMode={'yes' if target.password is None else 'no'}"]
    ours += ["-o", "NumberOfPasswordPrompts=1"]
    line = [target.executable, *options, *ours, *target.arguments, target.address, *command]
    process = subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment_of(target, settings),
        # Without the terminal, on which the ssh of a bastion would ask. And Ctrl-C ends this
        # program alone, which ends the others.
        start_new_session=True,
    )
    try:
        output, said = process.communicate(text, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        # The ssh of a bastion with it, which would hold the pipes open.
        os.killpg(process.pid, signal.SIGKILL)
        output, said = process.communicate()
        return Answer(None, output, said)
    return Answer(process.returncode, output, said)


def environment_of(target: Connection, settings: Settings) -> Mapping[str, str]:
    """The environment of an ssh that gets the password of a target, or asks nobody for one."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    if target.password is None:
        return {**environment, "SSH_ASKPASS_REQUIRE": "never"}
    return {
        **environment,
        "SSH_ASKPASS": str(ASKPASS),
        "SSH_ASKPASS_REQUIRE": "force",
        "TRAINYARD_ASKPASS_LOGIN": f"{settings.user}@{target.address}",
        "TRAINYARD_ASKPASS_PASSWORD": target.password,
    }
