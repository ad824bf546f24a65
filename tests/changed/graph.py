"""Who uses what: a graph of the things of a checkout, and what a change of one reaches."""

from collections import defaultdict, deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reached:
    """A thing that a change reaches.

    Attributes:
        thing: path of a file, or of a folder that counts as one thing: a role, a scenario.
        way: what led there, the changed thing first and `thing` last.
    """

    thing: str
    way: tuple[str, ...]

    @property
    def steps(self) -> int:
        """How many uses lie between the change and the thing; 0 is the thing itself."""
        return len(self.way) - 1


@dataclass
class Graph:
    """Uses between things: `users[a]` are those that stand on a."""

    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, user: str, used: str) -> None:
        """Note one use."""
        if user != used:
            self.users[used].add(user)

    def things(self) -> set[str]:
        """All that uses something or is used."""
        return set(self.users).union(*self.users.values())

    def reached_from(self, changed: str) -> dict[str, Reached]:
        """What uses a thing, itself included, each by a shortest way."""
        reached = {changed: Reached(changed, (changed,))}
        waiting = deque([changed])
        while waiting:
            here = waiting.popleft()
            for user in sorted(self.users.get(here, ())):
                if user not in reached:
                    reached[user] = Reached(user, (*reached[here].way, user))
                    waiting.append(user)
        return reached
