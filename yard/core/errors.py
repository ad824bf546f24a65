"""What ends a command early, and with which exit status."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of every `yard` command."""

    DONE = 0
    FAILED = 1
    BAD_REQUEST = 2
    UNFIT = 3
    INTERRUPTED = 130


class YardError(Exception):
    """A command cannot go on; the message is for the person at the screen."""

    status = Exit.FAILED


class RequestError(YardError):
    """The request makes no sense. Raised before anything is touched, with all problems at once."""

    status = Exit.BAD_REQUEST

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class OtherVersionError(RequestError):
    """A file of a run is not as this version of yard writes it."""


class ClusterError(YardError):
    """The cluster is not fit for what was asked."""

    status = Exit.UNFIT


class SomeNodesError(ClusterError):
    """Something could not be done on some of the nodes; on the others it was."""

    failed: frozenset[str] = frozenset()


class UnreachableError(SomeNodesError):
    """A node does not answer."""


class Interrupted(YardError):
    """The user stopped the command before there was a run to end."""

    status = Exit.INTERRUPTED


class Detached(YardError):
    """The user has left a run to another command, which goes on in the background."""

    status = Exit.DONE
