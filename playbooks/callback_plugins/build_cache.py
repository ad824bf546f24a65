# Copyright Trainyard. Apache-2.0
"""Ansible callback: keeps what Ansible builds of modules and templates for the next command.

For each module that a command uses, Ansible packs an archive of the module and of all that it
imports, which it finds by parsing some fifty files: up to half a second. It uses the archive again
for each host, but throws it away with the folder of the command. Here the archives come into
the next command's folder, as long as no source has changed.

A template is every text with braces, as a variable that names another one. Ansible has Jinja
compile it anew in the process of each task on each host: a third of the processor time of these
processes. Here the compiled code is kept by the text of the template.

Ansible finds this plugin by itself, in the folder of plugins beside the playbooks.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ansible
from ansible import constants
from ansible._internal._datatag._tags import Origin
from ansible._internal._templating._jinja_bits import AnsibleEnvironment, _TemplateCompileContext
from ansible.parsing.vault import is_encrypted_file
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import module_loader, module_utils_loader
from ansible.release import __version__
from jinja2 import Environment, FileSystemBytecodeCache

DOCUMENTATION = r"""
name: build_cache
type: aggregate
short_description: Keeps what Ansible builds of modules and templates
description:
  - Keeps the archives of modules and the code of templates, in the folder C(built-UID) of Ansible's
    C(local_tmp), for the next command.
author: Trainyard
options: {}
"""

# Ansible's own folder of archives, in the folder of a command
ARCHIVES = "ansiballz_cache"
# How many states of the sources have a folder
STATES = 3
# What is in the folder of each
MODULES = "modules"
TEMPLATES = "templates"
BOOT = Path("/proc/sys/kernel/random/boot_id")
# Folders of roles whose files come into archives
FOLDERS = ("library", "module_utils")
# What pip brought, of which the folder of collections has too many files to look at each
INSTALLED = f"{Path(ansible.__file__).parent}/"
COLLECTIONS = Path(ansible.__file__).parents[1] / "ansible_collections/ansible_release.py"
COLLECTION = "ansible_collections."
# Parts of a path that leads to variables of a site: from beside the playbooks, or out of the roles
SITES = ("/group_vars/", "/host_vars/", "/../")


@dataclass(frozen=True)
class Sources:
    """All that could come into an archive, and what decides how a template is compiled.

    Attributes:
        folders: that were looked at.
        state: a name for what is in them; an edit changes it.
        changed: when something was changed in them last, seconds of the epoch.
    """

    folders: frozenset[str]
    state: str
    changed: float


def source_folders() -> list[str]:
    """Return the folders in which Ansible finds modules, and what modules import, in its order."""
    found = [
        path
        for loader in (module_loader, module_utils_loader)
        for path in loader.print_paths().split(os.pathsep)
    ]
    for roles in map(Path, constants.DEFAULT_ROLES_PATH):
        found += sorted(str(path) for name in FOLDERS for path in roles.glob(f"*/{name}"))
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def look() -> Sources:
    """Look at all sources.

    Of files that pip brought, what stands in their place is another file when pip brings others.
    After a crash of the machine nothing counts that was written before, for it may be damaged.
    """
    folders = source_folders()
    seen = hashlib.sha256(f"{sys.version} {__version__}".encode())
    with suppress(OSError):
        seen.update(BOOT.read_bytes())
    changed = 0.0
    for folder in folders:
        installed = f"{folder}/".startswith(INSTALLED)
        seen.update(b"\0")
        for entry in sorted(files(folder), key=lambda entry: entry.path):
            about = entry.stat()
            changed = max(changed, about.st_ctime)
            seen.update(os.fsencode(entry.path.removeprefix(folder)))
            if installed:
                seen.update(mark(about))
            else:
                seen.update(hashlib.sha256(Path(entry.path).read_bytes()).digest())
    if COLLECTIONS.is_file():
        seen.update(mark(COLLECTIONS.stat()))
    return Sources(frozenset(folders), seen.hexdigest()[:32], changed)


def files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield all files below a folder, but for byte code."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from files(entry.path)
            elif entry.is_file():  # and no link to nothing
                yield entry


def mark(about: os.stat_result) -> bytes:
    """Return what tells a file from another one in its place."""
    return f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}".encode()


def sources_of_templates() -> tuple[Path, ...]:
    """Return the folders of what may be kept of templates: the roles, and the playbooks here."""
    return (*map(Path, constants.DEFAULT_ROLES_PATH), Path(__file__).parents[1])


@cache
def is_encrypted(path: str) -> bool:
    """Return whether a file is Ansible's vault's; one that cannot be read any more may be."""
    try:
        with open(path, "rb") as file:
            return bool(is_encrypted_file(file))
    except OSError:
        return True


def other_collections() -> bool:
    """Return whether there are collections beside those that came with Ansible."""
    return any(
        (Path(path) / "ansible_collections").is_dir() for path in constants.COLLECTIONS_PATHS
    )


def make_own(path: Path) -> bool:
    """Make a folder unless it is there; return whether this user alone may write in it."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    about = path.lstat()
    return (
        stat.S_ISDIR(about.st_mode)
        and about.st_uid == os.geteuid()
        and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def archives(folder: Path) -> list[Path]:
    """Return the archives in a folder, those of collections only where all came with Ansible."""
    found = [path for path in folder.iterdir() if not path.name.endswith((".lock", "-part"))]
    if other_collections():
        return [path for path in found if not path.name.startswith(COLLECTION)]
    return found


def names(folder: Path) -> set[str]:
    """Return the names of the archives in a folder."""
    return {archive.name for archive in archives(folder)}


def link(source: Path, target: Path) -> None:
    """Have the archives of a folder in another one, too."""
    for archive in archives(source):
        with suppress(FileExistsError):
            os.link(archive, target / archive.name)


class TemplateCache(FileSystemBytecodeCache):
    """The compiled code of templates in a folder, which Jinja keeps for files of templates alone.

    How a template is compiled depends on its text and on how its plugins are marked. Only templates
    of the roles and playbooks are kept, and none that come out of Ansible's vault, as those of an
    inventory or of a site's variables may: code has the constants of its template.

    Args:
        folder: where it is kept.
        sources: folders of what is kept.
    """

    def __init__(self, folder: Path, sources: tuple[Path, ...]) -> None:
        super().__init__(str(folder))
        self._sources = tuple(f"{source}/" for source in sources)

    def install(self) -> None:
        """Use it in this process, and in those that it forks from now on."""
        compile_anew = AnsibleEnvironment.compile

        def compile_or_load(
            environment: AnsibleEnvironment, source: Any, *arguments: Any, **options: Any
        ) -> Any:
            # Some template files have a syntax of their own, by an environment over the usual one.
            if arguments or options or environment.overlayed or not self.keeps(source):
                return compile_anew(environment, source, *arguments, **options)
            return self.code(environment, source, lambda: compile_anew(environment, source))

        AnsibleEnvironment.compile = compile_or_load

    def keeps(self, source: Any) -> bool:
        """Return whether it keeps a template; a condition comes parsed, and is none."""
        origin = Origin.get_tag(source) if isinstance(source, str) else None
        path = origin.path if origin is not None else None
        return (
            path is not None
            and path.startswith(self._sources)
            and not any(name in path for name in SITES)
            and not is_encrypted(path)
        )

    def code(self, environment: Environment, source: str, build: Callable[[], Any]) -> Any:
        """Return the code of a template, built only where it is not kept."""
        context = _TemplateCompileContext.current(optional=True)
        name = f"{context is not None and context.escape_backslashes} {source!a}"
        try:
            bucket = self.get_bucket(environment, name, None, name)
        except (OSError, EOFError, pickle.UnpicklingError):  # it is damaged before its code begins
            return build()
        if bucket.code is None:
            bucket.code = build()
            with suppress(OSError):  # where it cannot be kept, it is compiled again
                self.set_bucket(bucket)
        return bucket.code


def forget(states: Path) -> None:
    """Remove what is kept for older states of the sources."""
    newest = sorted(states.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[STATES:]:
        shutil.rmtree(path, ignore_errors=True)  # another command may remove it as well


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Takes what was kept when a playbook begins, and keeps new archives at its end.

    Templates are kept when they are compiled.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "build_cache"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        command = Path(constants.DEFAULT_LOCAL_TMP)
        self._archives = command / ARCHIVES
        self._states = command.parent / f"built-{os.geteuid()}"
        self._began = time.time()
        self._sources: Sources | None = None

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Take what is kept for the present state of the sources."""
        # Without it, or where nothing can be kept, Ansible builds all as always.
        with suppress(OSError):
            sources = look()
            kept = self._states / sources.state
            if all(map(make_own, (self._states, kept, kept / MODULES, kept / TEMPLATES))):
                self._archives.mkdir(exist_ok=True)
                link(kept / MODULES, self._archives)
                if not other_collections():
                    TemplateCache(kept / TEMPLATES, sources_of_templates()).install()
                os.utime(kept)
                self._sources = sources
                forget(self._states)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Keep those that came, unless they may be of other sources than there were."""
        if self._sources is None:
            return
        with suppress(OSError):
            kept = self._states / self._sources.state / MODULES
            if names(self._archives) <= names(kept):
                return
            now = look()
            if now == self._sources and now.changed < self._began:
                link(self._archives, kept)
