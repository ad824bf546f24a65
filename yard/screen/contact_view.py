"""What the first contact came to: this machine, the hosts, and what mends them."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from yard.contact.causes import Trouble
from yard.contact.here import INVENTORY, Check
from yard.contact.report import Contact, HostReport
from yard.core.words import first_names, plural, size
from yard.screen.plain_table import plain_table

# More names of hosts than this make a line too long; of more than this many, one does not read
# every proof.
MOST_HOSTS, MOST_PROOFS = 12, 8
FINE, WRONG, UNASKED = Text("fine", "green"), Text("wrong", "red"), Text("-", "dim")


def show_contact(console: Console, contact: Contact) -> None:
    """Print the looks at this machine, a line for every host, then what is wrong and its remedy."""
    table = plain_table("this machine", "", "")
    for check in contact.here:
        table.add_row(Text(check.name), WRONG if check.trouble else FINE, Text(check.found))
    console.print(table)
    if contact.hosts:
        console.print()
        console.print(_hosts(contact.hosts))
    for check in contact.here:
        if check.trouble is not None:
            _heading(console, _whose(check), check.trouble)
            _lines(console, check.trouble.proof)
            _remedy(console, check.trouble, (check.trouble.remedy,))
    for group in contact.groups():
        _show_group(console, group)
    console.print()
    console.print(_conclusion(contact))


def _hosts(hosts: tuple[HostReport, ...]) -> Table:
    table = plain_table("host", "", "login", "root", "system", "Python", "free")
    for host in hosts:
        facts = host.facts
        if facts is None:
            state = WRONG if host.trouble else UNASKED
            what = host.trouble.code if host.trouble else host.note
            table.add_row(Text(host.host), state, Text(host.place), Text(what))
            continue
        free = min(facts.free.values(), default=None)
        table.add_row(
            Text(host.host),
            WRONG if host.trouble else FINE,
            Text(host.place),
            Text(host.trouble.code if host.trouble else host.root),
            Text(facts.release),
            Text(facts.python or "-"),
            Text("-" if free is None else size(free)),
        )
    return table


def _show_group(console: Console, group: Mapping[str, Trouble]) -> None:
    first = next(iter(group.values()))
    _heading(console, first_names([*group], MOST_HOSTS), first)
    for name, trouble in [*group.items()][:MOST_PROOFS]:
        _lines(console, trouble.proof, f"{name}: " if len(group) > 1 else "")
    if len(group) > MOST_PROOFS:
        console.print(f"    and of {len(group) - MOST_PROOFS} more; JSON=1 has all", style="dim")
    _remedy(console, first, tuple(dict.fromkeys(trouble.remedy for trouble in group.values())))


def _heading(console: Console, names: str, trouble: Trouble) -> None:
    console.print()
    console.print(f"[red bold]{escape(names)}[/]  {escape(trouble.cause)} [dim]({trouble.code})[/]")


def _lines(console: Console, lines: tuple[str, ...], before: str = "") -> None:
    for number, line in enumerate(lines):
        lead = before if number == 0 else " " * len(before)
        _indented(console, f"[dim]{escape(lead + line)}[/]", 4)


def _indented(console: Console, text: str, blanks: int) -> None:
    """Print a text; on a terminal its further lines begin where the first does."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, blanks), expand=False))
    else:
        console.print(" " * blanks + text)


def _remedy(console: Console, trouble: Trouble, commands: tuple[str, ...]) -> None:
    if trouble.advice:
        _indented(console, escape(trouble.advice), 2)
    if trouble.on_host:
        console.print(f"  On the {'bastion' if trouble.bastion else 'host'}, as root:")
    else:
        console.print("  Then:" if trouble.advice else "  Mend it:")
    for command in commands:
        # Alone in its line and never wrapped: it is there to be pasted.
        console.print(f"    [bold]{escape(command)}[/]", soft_wrap=True)


def _conclusion(contact: Contact) -> str:
    asked = [host for host in contact.hosts if not host.note]
    wrong = [host for host in asked if host.trouble]
    here = dict.fromkeys(_whose(check) for check in contact.here if check.trouble)
    if contact.ok:
        return f"This machine and {plural(len(asked), 'host')} are fit. Next: make setup"
    parts = [f"{len(wrong)} of {plural(len(asked), 'host')}"] if wrong else []
    parts += here
    return f"Not fit: {' and '.join(parts)}. Nothing was changed. Mend it, then ask again."


def _whose(check: Check) -> str:
    return "the inventory" if check.name == INVENTORY else "this machine"
