"""Action: how a machine reaches packages.

Takes the role's variables without their prefix. Reads certificates and a repository of packages on
the control node, has package_sources_write compare with the machine, and changes what differs. What
is empty is as it was before the action came to the machine.

Returns `ca_certificates_needed`, whether the package that has certificates trusted is missing, and
`packages`, whether packages came with the role.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ansible.module_utils
from ansible.plugins.action import ActionBase

# Ansible looks in a role's module_utils for what modules import, and not for an action.
ansible.module_utils.__path__.append(str(Path(__file__).parents[1] / "module_utils"))

from ansible.module_utils.package_sources_apt import (  # noqa: E402  # found through the line above
    address_problem,
    hidden,
)
from ansible.module_utils.package_sources_bundle import (  # noqa: E402
    LIST,
    BundleError,
    identity,
    read_list,
)
from ansible.module_utils.package_sources_certificates import (  # noqa: E402
    CertificateError,
    check,
)

Result = dict[str, Any]
ADDRESSES = ("http_proxy", "https_proxy", "mirror", "security_mirror")


class Refused(Exception):
    """A setting makes no sense; the message says why."""


def read_certificates(path: str) -> str:
    """Return what is in a file of certificates.

    Raises:
        Refused: it is not certificates of authorities.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        check(text)
    except (OSError, CertificateError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(f"package_sources_ca, {path} on the control node: {why}") from error
    return text


def repository(bundle: str, release: str) -> Path:
    """Return the repository of a bundle for a release.

    Raises:
        Refused: it has none.
    """
    folder = Path(bundle, "debian")
    has = sorted(path.parent.name for path in folder.glob(f"*/{LIST}"))
    if release not in has:
        raise Refused(
            f"package_sources_bundle, {bundle}, has no packages for release "
            f"{release or 'unknown (facts were not gathered)'}; it has "
            f"{', '.join(has) or f'none: there is no debian/RELEASE/{LIST}'}"
        )
    return folder / release


def split_login(address: str) -> tuple[str, str]:
    """Return an address of a proxy without what to log in with, and that."""
    login, at, _ = urlsplit(address).netloc.rpartition("@")
    return address.replace(login + at, "", 1), login


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Reads on the control node, and has package_sources_write compare and write on the machine."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        """Bring the settings about, or take them back."""
        super().run(tmp, task_vars)
        text = {"type": "str", "default": ""}
        _, options = self.validate_argument_spec(
            {
                **dict.fromkeys((*ADDRESSES, "no_proxy"), text),
                "ca": {"type": "path", "default": ""},
                "bundle": {"type": "path", "default": ""},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            }
        )
        self._variables = task_vars or {}
        arguments: Result = {}
        folder = None
        if options["state"] == "present":
            try:
                arguments, folder = self._arguments(options)
            except (Refused, BundleError) as error:
                return {"failed": True, "msg": f"package_sources: {error}. Nothing was changed."}
        return self._bring_about(arguments, folder)

    def _arguments(self, options: Result) -> tuple[Result, Path | None]:
        """Return what the module is told, and the repository that apt is to use."""
        for name in ADDRESSES:
            if options[name] and (problem := address_problem(options[name])):
                raise Refused(f"package_sources_{name}, {hidden(options[name])!r}, {problem}")
        no_proxy = [entry.strip() for entry in options["no_proxy"].split(",")]
        arguments: Result = {
            "mirror": options["mirror"],
            "security_mirror": options["security_mirror"],
            "no_proxy": [entry for entry in no_proxy if entry],
        }
        for kind in ("http", "https"):
            # Apart, so that Ansible hides the one and shows the other.
            proxy, login = split_login(options[f"{kind}_proxy"])
            arguments |= {f"{kind}_proxy": proxy, f"{kind}_login": login}
        if options["ca"]:
            arguments["certificates"] = read_certificates(options["ca"])
        if not options["bundle"]:
            return arguments, None
        facts = self._variables.get("ansible_facts", {})
        folder = repository(options["bundle"], facts.get("distribution_release", ""))
        arguments["bundle"] = identity(folder)
        return arguments, folder

    def _bring_about(self, arguments: Result, folder: Path | None) -> Result:
        """Have the module do it; what it lacks comes in between."""
        result = self._write(arguments)
        if folder and result.get("lacks_bundle") and not self._task.check_mode:
            try:
                incoming = self._send(folder, result["held_files"])
            except BundleError as error:
                return {"failed": True, "msg": f"package_sources: {folder}: {error}."}
            result = self._write({**arguments, "incoming": incoming})
        for name in ("lacks_bundle", "held_files"):
            result.pop(name, None)
        return result

    def _write(self, arguments: Result) -> Result:
        """Run the module on the machine."""
        result: Result = self._execute_module(
            module_name="package_sources_write", module_args=arguments, task_vars=self._variables
        )
        return result

    def _send(self, folder: Path, there: dict[str, str]) -> str:
        """Send the files of a repository that a machine lacks, and return where they are there."""
        packages = read_list((folder / LIST).read_text(encoding="utf-8"))
        missing = [
            package.name for package in packages if there.get(package.name) != package.sha256
        ]
        absent = [name for name in missing if not (folder / name).is_file()]
        if absent:
            raise BundleError(f"{', '.join(absent)} is not there, and {LIST} names it")
        incoming = self._connection._shell.join_path(self._make_tmp_path(), "")
        for name in (LIST, *missing):
            self._connection.put_file(str(folder / name), f"{incoming}{name}")
        return str(incoming)
