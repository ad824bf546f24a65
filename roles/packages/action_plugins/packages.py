# Copyright Trainyard. Apache-2.0
"""Action: packages for a role. What it takes and returns stands in library/packages.py.

It looks first, which is quick; apt, which is slow, comes only where there is something to do.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

# Seconds that another apt or dpkg on the machine may take, such as the daily upgrade.
LOCK_TIMEOUT = 120
# Seconds for which package lists count as fresh.
LISTS_VALID = 3600
# What policy-rc.d answers where a package may not start its service.
FORBIDDEN = 101

Result = dict[str, Any]


def differences(apt: Result) -> list[Result]:
    """Return what apt said of the difference, as an item of a list."""
    difference = apt.get("diff") or {}
    return [{"prepared": difference["prepared"] + "\n"}] if difference.get("prepared") else []


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Looks with packages_look, has ansible.builtin.apt change what differs, and records it."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Bring the packages, or take them away."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "owner": {"type": "str", "required": True},
                "names": {"type": "list", "elements": "str", "default": []},
                "start_services": {"type": "bool", "default": True},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            }
        )
        self._variables = task_vars
        look = self._execute("packages_look", owner=options["owner"], names=options["names"])
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

    def _install(self, options: Result, look: Result) -> Result:
        """Install what is missing, and record what came."""
        owner, missing, shared = options["owner"], look["missing"], look["shared"]
        result: Result = {"changed": False, "missing": missing}
        apt: Result = {}
        if missing:
            if self._task.check_mode:
                apt = self._fetch_lists()
            if not apt.get("failed"):
                apt = self._execute(
                    "ansible.builtin.apt",
                    # All, not the missing alone: apt then keeps one from pushing out another.
                    name=options["names"] + self._ahead(options["names"]),
                    install_recommends=False,
                    update_cache=True,
                    cache_valid_time=LISTS_VALID,
                    policy_rc_d=None if options["start_services"] else FORBIDDEN,
                    lock_timeout=LOCK_TIMEOUT,
                )
            result |= apt
        if (missing and not self._task.check_mode) or shared:
            # Also where apt failed: some packages may have come before that.
            record = self._execute(
                "packages_record", owner=owner, before=look["installed"], shared=shared
            )
            if record.get("failed"):
                return record
            result["recorded"] = record["recorded"]
            result["changed"] = result["changed"] or record["changed"]
            result["diff"] = differences(apt) + record.get("diff", [])
        if apt.get("failed"):
            came = "Nothing was changed." if self._task.check_mode else "What came is recorded."
            result["msg"] = (
                f"packages: {owner} needs {', '.join(missing)}, and apt did not install that: "
                f"{apt.get('msg', '').rstrip('.')}. {came} See there whether `apt-get update` "
                f"reaches the package sources and `apt-get install {' '.join(missing)}` works."
            )
        return result

    def _ahead(self, names: list[str]) -> list[str]:
        """Return what other roles of the play will ask for, as the play says."""
        ahead: list[str] = self._templar.template((self._variables or {}).get("packages_ahead", []))
        return [name for name in ahead if name not in names]

    def _remove(self, owner: str, look: Result) -> Result:
        """Remove what came with the role and nobody else needs, then its record."""
        result: Result = {"changed": False, "removed": []}
        unneeded: list[str] = []
        if look["removable"]:
            release = self._execute("packages_release", names=look["removable"])
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
        if look["record"] or look["empty"]:
            record = self._execute("packages_record", owner=owner, state="absent")
            if record.get("failed"):
                return record
            result["changed"] = result["changed"] or record["changed"]
            result["diff"] = differences(result) + record["diff"]
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
