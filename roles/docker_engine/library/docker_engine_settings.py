#!/usr/bin/python
"""Ansible module: merge settings into the engine's daemon.json, and take them out again."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.setup.docker_engine_settings import (
    SettingsError,
    keep,
    make_plan,
    note_file,
)
from ansible.module_utils.training_node.setup.docker_engine_units import (
    Flag,
    read_units,
    start_error,
    unit_flags,
)


def write(module: AnsibleModule, path: Path, text: str, mode: int) -> None:
    """Replace a file at once; one that is there keeps its owner and mode, and a link its place."""
    path = path.resolve()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    new = not path.exists()
    module.atomic_move(temporary, str(path))
    if new:
        path.chmod(mode)


def try_settings(path: Path, text: str, flags: Mapping[str, Flag]) -> None:
    """Have the engine that is installed read settings, without starting it.

    Raises:
        SettingsError: it would not start.
    """
    program = shutil.which("dockerd")
    if program is None:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        words = [word for key in flags if key != "--config-file" for word in flags[key].words]
        command = [program, "--validate", "--config-file", file.name, *words]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        said = start_error(answer.stderr).replace(file.name, str(path))
    # Engines before version 23 cannot be asked.
    if answer.returncode != 0 and "unknown flag: --validate" not in answer.stderr:
        flagged = ", ".join(sorted({flag.file for flag in flags.values()}))
        raise SettingsError(
            f"docker_engine: the engine would not start with {path} as it is to be: {said}. "
            f"Nothing was changed. Its flags stand in {flagged or 'no unit'}, its settings in that "
            "file and in docker_engine_daemon_options."
        )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "defaults": {"type": "dict", "default": {}},
            "kept": {"type": "path"},
            "keeps": {"type": "list", "elements": "path", "default": []},
            "options": {"type": "dict", "default": {}},
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path, record = Path(module.params["path"]), Path(module.params["record"])
    absent = module.params["state"] == "absent"
    flags = unit_flags(read_units())
    options, defaults = module.params["options"], module.params["defaults"]
    try:
        plan = make_plan(path, record, options, absent, defaults, flags)
        if plan.new not in (None, plan.text) and not absent:
            try_settings(path, plan.new or "", flags)
    except SettingsError as error:
        module.fail_json(msg=str(error))
    rewritten = plan.new != plan.text
    if module.params["kept"] and not module.check_mode and (rewritten or module.params["keeps"]):
        others = map(Path, module.params["keeps"])
        keep(Path(module.params["kept"]), [path, note_file(record), *others])
    if plan.changed and not module.check_mode:
        if plan.new is None:
            path.unlink(missing_ok=True)
        elif plan.new != plan.text:
            write(module, path, plan.new, 0o644)
        if absent:
            note_file(record).unlink()
        else:
            # The settings that it repeats may hold a proxy's password.
            write(module, note_file(record), json.dumps(plan.note, indent=2) + "\n", 0o600)
    module.exit_json(
        changed=plan.changed,
        rewritten=rewritten,
        lost=plan.lost,
        own=plan.own,
        keeps_containers=plan.keeps_containers,
        diff={"before": plan.text or "", "after": plan.new or "", "before_header": str(path)},
    )


if __name__ == "__main__":
    main()
