"""Action: packages of the distribution for a role, which can be taken away again.

    - name: Install Open MPI
      packages:
        owner: openmpi          # the role; the record on the machine bears its name
        names: [openmpi-bin, libopenmpi-dev]    # each with =VERSION behind it where it matters
        start_services: false   # true unless the role writes settings before services start
        replaces: [mpich]       # what may go for them, by name or pattern

    - name: Remove what came with it
      packages:
        owner: openmpi
        state: absent

It looks first, which is quick; apt, which is slow, comes only where there is something to do. What
was not there before is recorded on the machine for each role, dependencies included. Packages that
only are recommended do not come. What the variable `packages_ahead` lists, which a play sets to
what its other roles will ask for, comes in the same run of apt.

Where apt would remove a package that did not come with the role and is not among `replaces`,
nothing is installed.

Removed is, with its configuration, what the role's record names. Packages that were there before
stay, and so do those that another role needs too, and those that a package from elsewhere has come
to need. Debian's packages leave the users and groups that they made, because files may bear their
numbers.

A dry run fetches package lists that are older than an hour, because without them it could not tell.

Returns `missing`, those of the names that were not installed; `recorded`, what was added to the
record; `removed`.
"""

import fnmatch
import re
from typing import Any

from ansible.plugins.action import ActionBase

# Seconds that another apt or dpkg on the machine may take, such as the daily upgrade.
LOCK_TIMEOUT = 120
# Seconds for which package lists count as fresh.
LISTS_VALID = 3600
# What policy-rc.d answers where a package may not start its service.
FORBIDDEN = 101
# What dpkg says of a package that it cannot finish, and apt where dpkg was cut off.
STUCK = re.compile(
    r"^\s*dpkg: error processing package ([a-z0-9][a-z0-9+.:-]*) \(--configure\)", re.MULTILINE
)
INTERRUPTED = "dpkg was interrupted"

# What apt lists before it refuses to remove anything, and how it says so.
REMOVALS = re.compile(r"^The following packages will be REMOVED:\n((?: .*\n)+)", re.MULTILINE)
REFUSED = "Packages need to be removed but remove is disabled"

OPTIONS = {
    "owner": {"type": "str", "required": True},
    "names": {"type": "list", "elements": "str", "default": []},
    "replaces": {"type": "list", "elements": "str", "default": []},
    "start_services": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}

Result = dict[str, Any]


def words_of(apt: Result) -> str:
    """Return all that apt and dpkg said."""
    return f"{apt.get('msg', '')}\n{apt.get('stdout', '')}\n{apt.get('stderr', '')}"


def refused_removals(said: str) -> list[str]:
    """Return the packages that apt was not to remove, and so did nothing at all."""
    found = REMOVALS.search(said) if REFUSED in said else None
    return found[1].split() if found else []


def remedy(said: str, missing: list[str]) -> str:
    """Return what to do where apt failed.

    Args:
        said: all that apt and dpkg said.
        missing: the packages that were to come.
    """
    stuck = sorted(set(STUCK.findall(said)) - set(missing))
    if stuck:
        those = " ".join(stuck)
        return (
            f"dpkg cannot finish {those}, which was on the machine before, and fails each time "
            f"until it can: see there what `dpkg --configure {those}` says, or remove "
            f"{'them' if len(stuck) > 1 else 'it'}."
        )
    if INTERRUPTED in said:
        return "There an installation was cut off before: `dpkg --configure -a` ends it."
    return (
        "See there whether `apt-get update` reaches the package sources and "
        f"`apt-get install {' '.join(missing)}` works."
    )


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Looks, has ansible.builtin.apt change what differs, and records it."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Bring the packages, or take them away."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(OPTIONS)
        self._variables = task_vars
        look = self._step("look", options["owner"], names=options["names"])
        if look.get("failed"):
            return look
        if options["state"] == "absent":
            return self._remove(options["owner"], look)
        return self._install(options, look)

    def _execute(self, module: str, **arguments: Any) -> Result:
        """Run a module on the node."""
        result: Result = self._execute_module(
            module_name=module, module_args=arguments, task_vars=self._variables
        )
        return result

    def _step(self, step: str, owner: str, **arguments: Any) -> Result:
        """Run the role's own module on the node."""
        return self._execute("packages_step", step=step, owner=owner, **arguments)

    def _install(self, options: Result, look: Result) -> Result:
        """Install what is missing, and record what came."""
        owner, missing, shared = options["owner"], look["missing"], look["shared"]
        result: Result = {"changed": False, "missing": missing}
        apt: Result = {}
        foreign: list[str] = []
        if missing:
            if self._task.check_mode:
                apt = self._fetch_lists()
            if not apt.get("failed"):
                apt = self._fetch(options, keep_all=True)
                going = refused_removals(words_of(apt))
                foreign = [
                    name
                    for name in going
                    if name not in look["own"]
                    and not any(fnmatch.fnmatchcase(name, one) for one in options["replaces"])
                ]
                if going and not foreign:
                    apt = self._fetch(options, keep_all=False)
            result |= apt
        if (missing and not self._task.check_mode) or shared:
            # Also where apt failed: some packages may have come before that.
            record = self._step("record", owner, before=look["installed"], names=shared)
            if record.get("failed"):
                return record
            result["recorded"] = record["recorded"]
            result["changed"] = result["changed"] or record["changed"]
        if apt.get("failed"):
            reason = f"{apt.get('msg', '').strip().rstrip('.')}."
            came = "Nothing was changed." if self._task.check_mode else "What came is recorded."
            advice = remedy(words_of(apt), missing)
            if foreign:
                those = ", ".join(foreign)
                reason = f"it would remove {those}, which this machine has from elsewhere."
                came = "Nothing was changed."
                advice = f"Remove {those} there yourself, or leave role {owner} off for this host."
            result["msg"] = (
                f"packages: {owner} needs {', '.join(missing)}, and apt did not install that: "
                f"{reason} {came} {advice}"
            )
        return result

    def _fetch(self, options: Result, *, keep_all: bool) -> Result:
        """Have apt install; where it is to keep all that is there, it removes nothing for that."""
        return self._execute(
            "ansible.builtin.apt",
            # All, not the missing alone: apt then keeps one from pushing out another.
            name=options["names"] + self._ahead(options["names"]),
            install_recommends=False,
            update_cache=True,
            cache_valid_time=LISTS_VALID,
            fail_on_autoremove=keep_all,
            policy_rc_d=None if options["start_services"] else FORBIDDEN,
            lock_timeout=LOCK_TIMEOUT,
        )

    def _ahead(self, names: list[str]) -> list[str]:
        """Return what other roles of the play will ask for, as the play says."""
        ahead: list[str] = self._templar.template((self._variables or {}).get("packages_ahead", []))
        return [name for name in ahead if name not in names]

    def _remove(self, owner: str, look: Result) -> Result:
        """Remove what came with the role and nobody else needs, then its record."""
        result: Result = {"changed": False, "removed": []}
        unneeded: list[str] = []
        if look["removable"]:
            release = self._step("release", owner, names=look["removable"])
            if release.get("failed"):
                return release
            unneeded = release["unneeded"]
            result["changed"] = True
        # A package that another one replaced later has left its configuration.
        names = unneeded + look["configured"]
        if names:
            apt = self._execute(
                "ansible.builtin.apt",
                name=names,
                state="absent",
                purge=True,
                lock_timeout=LOCK_TIMEOUT,
            )
            if apt.get("failed"):
                apt["msg"] = (
                    f"packages: apt did not remove {', '.join(names)}, which came with {owner}: "
                    f"{apt.get('msg', '').rstrip('.')}. The record stays. See there what "
                    f"`apt-get purge {' '.join(names)}` says, then remove the role again."
                )
                return apt
            result |= apt
            result["removed"] = names
        if look["recorded"]:
            record = self._step("forget", owner)
            if record.get("failed"):
                return record
            result["changed"] = True
        return result

    def _fetch_lists(self) -> Result:
        """Fetch the package lists in a dry run, too: without them apt cannot tell what comes."""
        self._task.check_mode = False
        try:
            return self._execute(
                "ansible.builtin.apt",
                update_cache=True,
                cache_valid_time=LISTS_VALID,
                lock_timeout=LOCK_TIMEOUT,
            )
        finally:
            self._task.check_mode = True
