"""The files of an inventory: what they define, on which line, and which of them cannot be read.

Ansible's own loader stops at the first mistake, and of a key that stands twice it keeps one. So
the files are read here once more, as YAML nodes, which know their lines.
"""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible.module_utils.inventory_check_problem import Problem, shown

# libyaml is ten times as fast, where PyYAML was built with it.
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
YAML_SUFFIXES = frozenset({".yml", ".yaml", ".json"})
VARIABLE_DIRECTORIES = ("group_vars", "host_vars")
# What Ansible passes over in a directory (INVENTORY_IGNORE_EXTS).
IGNORED_SUFFIXES = (
    *(".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg"),
    ".retry",
)
# YAML's types, as people call them.
WORDS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}
SECTIONS = ("hosts", "vars", "children")


class Definition(NamedTuple):
    """A variable that a file sets.

    Attributes:
        name: of the variable.
        file, line: where it is set; lines from 1.
        node: the value as written.
        owner: the host it is set for (a pattern with a range, perhaps), or the empty string.
        group: the group it is set for, or the empty string.
    """

    name: str
    file: Path
    line: int
    node: yaml.Node
    owner: str = ""
    group: str = ""

    @property
    def value(self) -> str:
        """The value as written, templates and all; empty where it is a list or a mapping."""
        return str(self.node.value) if isinstance(self.node, yaml.ScalarNode) else ""


class Entry(NamedTuple):
    """A place where a file names a host or a group; `group` is what the host is listed in."""

    name: str
    file: Path
    line: int
    group: str = ""


class InventoryFiles:
    """What the files of an inventory say.

    Files in other forms than YAML (INI, scripts, plugins, files encrypted as a whole) are passed
    over: Ansible alone knows what they define.

    Attributes:
        definitions: the variables that they set, those of the site-wide group_vars last.
        site: the site-wide ones among these.
        hosts, groups: where hosts and groups are named.
        form: of the last file that is none of YAML: ini, toml or program.
        texts: of the files that may be INI.
        encrypted: whether a file is, as a whole.
        group_files: the names that the inventory's own group_vars bear, with file or directory.
        problems: what is wrong with the files themselves.
        unreadable: whether one of these problems hides what a file says, so that Ansible stops.
    """

    def __init__(self, sources: list[str], site: Path, checkout: Path) -> None:
        """Read the files.

        Args:
            sources: files and directories, as given with --inventory.
            site: directory of the site-wide group_vars.
            checkout: files below it are named without its path.
        """
        self.checkout = checkout
        self.definitions: list[Definition] = []
        self.site: list[Definition] = []
        self.hosts: list[Entry] = []
        self.groups: list[Entry] = []
        self.group_files: list[tuple[str, Path]] = []
        self.problems: list[Problem] = []
        self.unreadable = False
        self.form = "ini"
        self.texts: dict[Path, str] = {}
        self.encrypted = False
        self._seen: set[Path] = set()
        # First: an inventory beside the checkout's group_vars has the same, and none of its own.
        self._read_variables(site)
        self.site, self.definitions = self.definitions, []
        for source in map(Path, sources):
            if source.is_dir():
                for file in _inventory_files(source):
                    self._read_inventory(file)
            elif source.exists() or source.is_symlink():
                self._read_inventory(source)
            else:
                continue  # a list of hosts with commas, say
            directory = source if source.is_dir() else source.parent
            self._read_variables(directory)
            self.group_files += _group_files(directory)
        self.definitions += self.site

    def _problem(self, code: str, file: Path, line: int | None = None, **values: Any) -> None:
        place: dict[str, Any] = {"file": shown(file, self.checkout)}
        if line is not None:
            place["line"] = line
        self.problems.append(Problem(code, place | values))

    def _structure(self, code: str, file: Path, node: yaml.Node, **values: Any) -> None:
        """Note a value of the wrong form, at which Ansible stops or which it passes over."""
        self.unreadable = True
        self._problem(code, file, node.start_mark.line + 1, **values)

    def _read_variables(self, directory: Path) -> None:
        for name in VARIABLE_DIRECTORIES:
            below = (directory / name).resolve()
            for owner, hidden, taken in _hidden(below):
                values = {"name": owner, "taken": shown(taken, self.checkout)}
                self._problem("variables_hidden", hidden, **values)
            for file in _variable_files(below):
                node = self._compose(file)
                if node is None:
                    continue
                if not isinstance(node, yaml.MappingNode):
                    self._structure("variables_not_mapping", file, node)
                owner = file.relative_to(below).parts[0]
                suffix = Path(owner).suffix
                owner = owner.removesuffix(suffix) if suffix in YAML_SUFFIXES else owner
                of_host = name == "host_vars"
                self._define(file, node, owner if of_host else "", "" if of_host else owner)

    def _read_inventory(self, file: Path) -> None:
        node = self._compose(file)
        if node is None:
            return
        if not isinstance(node, yaml.MappingNode):
            # Without a suffix it may be a list of host names, which is INI.
            if file.suffix in YAML_SUFFIXES:
                self._structure("inventory_not_mapping", file, node)
            return
        entries = list(_entries(node))
        if any(key.value == "plugin" for key, _ in entries):
            return
        for key, group in entries:
            self._read_group(file, key, group)

    def _read_group(self, file: Path, key: yaml.ScalarNode, group: yaml.Node) -> None:
        name = key.value
        self.groups.append(Entry(name, file, key.start_mark.line + 1))
        if _is_null(group):
            return
        if not isinstance(group, yaml.MappingNode):
            self._structure("group_not_mapping", file, key, group=name)
        for section, content in _entries(group):
            line = section.start_mark.line + 1
            if section.value not in SECTIONS:
                values = {"group": name, "section": section.value}
                if near := get_close_matches(section.value, SECTIONS, n=1):
                    self._problem("section_misspelt", file, line, **values, near=near[0])
                else:
                    self._problem("section_unknown", file, line, **values)
                continue
            if not isinstance(content, yaml.MappingNode) and not _is_text(content):
                if not _is_null(content):
                    values = {"group": name, "section": section.value}
                    self._structure("section_not_mapping", file, section, **values)
                continue
            if section.value == "vars":
                self._define(file, content, group=name)
            elif section.value == "hosts":
                self._read_hosts(file, content, name)
            else:
                for child, below in _entries(content):
                    self._read_group(file, child, below)

    def _read_hosts(self, file: Path, hosts: yaml.Node, group: str) -> None:
        # Ansible takes one host without variables as a text, too.
        entries = [(hosts, None)] if isinstance(hosts, yaml.ScalarNode) else list(_entries(hosts))
        for key, variables in entries:
            self.hosts.append(Entry(key.value, file, key.start_mark.line + 1, group))
            if not _is_text(key):
                kind = WORDS.get(key.tag.rpartition(":")[2], "something else")
                self._structure("host_not_text", file, key, host=key.value, kind=kind)
            if variables is None or _is_null(variables):
                continue
            if not isinstance(variables, yaml.MappingNode):
                self._structure("host_not_mapping", file, key, host=key.value)
            self._define(file, variables, key.value)

    def _define(self, file: Path, node: yaml.Node, owner: str = "", group: str = "") -> None:
        for key, value in _entries(node):
            line = key.start_mark.line + 1
            self.definitions.append(Definition(key.value, file, line, value, owner, group))

    def _compose(self, file: Path) -> yaml.Node | None:
        """Parse a file into nodes; None where it is not YAML, or was read before."""
        if file.resolve() in self._seen:
            return None
        self._seen.add(file.resolve())
        try:
            content = file.read_bytes()
        except OSError as error:
            self.unreadable = True
            nowhere = isinstance(error, FileNotFoundError) and file.is_symlink()
            reason = "the link leads nowhere" if nowhere else str(error.strerror)
            self._problem("file_unreadable", file, reason=reason)
            return None
        if _is_program(file, content):
            self.form = "program"
            return None
        if content.startswith(b"$ANSIBLE_VAULT"):
            self.encrypted = True
            return None
        try:
            text = content.decode()
            broken = text.index("\0") if "\0" in text else None
        except UnicodeDecodeError as error:
            broken = error.start
        if broken is not None:
            self.unreadable = True
            line = content.count(b"\n", 0, broken) + 1
            self._problem("file_not_text", file, line, byte=f"0x{content[broken]:02x}")
            return None
        if file.suffix not in YAML_SUFFIXES:
            self.texts[file] = text
        if file.suffix and file.suffix not in YAML_SUFFIXES:
            self.form = "toml" if file.suffix == ".toml" else "ini"
            return None
        try:
            node: yaml.Node | None = yaml.compose(text, LOADER)
        except yaml.YAMLError as error:
            # Without a suffix it may be INI, which never begins so.
            if file.suffix or text.startswith("---"):
                self.unreadable = True
                self._invalid(file, text, error)
            return None
        if node is not None:
            self._find_doubles(file, node, set())
        return node

    def _invalid(self, file: Path, text: str, error: yaml.YAMLError) -> None:
        lines = text.splitlines() or [""]
        mark, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
        # What is missing at the end is noticed behind the last line.
        number = min(mark.line, len(lines) - 1) if mark else 0
        reason = str(getattr(error, "problem", None) or error).splitlines()[0].rstrip(".")
        character = lines[number][mark.column : mark.column + 1] if mark else ""
        if character == "\t":
            code = "yaml_tab"
        elif "mapping values" in reason or character in tuple("@`%&*!|>{}[]"):
            code = "yaml_unquoted"
        else:
            code = "yaml_invalid"
        begin = (context.line if context else number) + 1
        self._problem(code, file, number + 1, reason=reason, begin=begin)

    def _find_doubles(self, file: Path, node: yaml.Node, visited: set[int]) -> None:
        """Note every key that stands twice in a mapping, at any depth."""
        if id(node) in visited:  # an alias leads here again
            return
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._find_doubles(file, item, visited)
        if not isinstance(node, yaml.MappingNode):
            return
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            self._find_doubles(file, value, visited)
            # Several mappings may be merged with <<.
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                self._problem("key_twice", file, line, key=key.value, first=lines[name])
            lines.setdefault(name, line)


def literal(node: yaml.Node) -> Any:
    """Return the value of a node.

    Raises:
        ValueError: only Ansible knows it: something in it is a template, or has a tag of Ansible's.
    """
    if _is_templated(node):
        raise ValueError("a template")
    try:
        return yaml.SafeLoader("").construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _is_templated(node: yaml.Node) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return "{{" in node.value or "{%" in node.value
    return any(map(_is_templated, _children(node)))


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


def _entries(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield keys and values of a mapping; nothing of another node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key, value


def _hidden(directory: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield each name with a file of variables that Ansible does not read, and what it does.

    For a name it takes the first that there is: one without suffix, which may be a folder, .yml,
    .yaml, .json.
    """
    for first in sorted(directory.glob("*")):
        if first.suffix in YAML_SUFFIXES or first.name.startswith("."):
            continue
        for suffix in sorted(YAML_SUFFIXES):
            if (hidden := first.with_name(first.name + suffix)).exists():
                yield first.name, hidden, first


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str"


def _is_program(file: Path, content: bytes) -> bool:
    """Whether Ansible would run the file to get the inventory."""
    return content.startswith(b"#!") and os.access(file, os.X_OK)


def _inventory_files(directory: Path) -> Iterator[Path]:
    """Yield the files that Ansible takes for inventories in a directory, and in those below it."""
    for path in sorted(directory.iterdir()):
        if path.name in VARIABLE_DIRECTORIES or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _inventory_files(path)
        elif not path.name.endswith(IGNORED_SUFFIXES):
            yield path


def _variable_files(directory: Path) -> Iterator[Path]:
    """Yield the files that Ansible reads in a group_vars or host_vars."""
    for folder, folders, names in os.walk(directory, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            hidden = name.startswith(".") or name.endswith("~")
            if not hidden and (not file.suffix or file.suffix in YAML_SUFFIXES):
                yield file


def _group_files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names that a directory's group_vars bear, and the file or directory of each."""
    for file in sorted((directory / "group_vars").glob("*")):
        if file.name.startswith("."):
            continue
        if file.is_dir():
            yield file.name, file.resolve()
        elif not file.suffix or file.suffix in YAML_SUFFIXES:
            yield file.stem, file.resolve()
