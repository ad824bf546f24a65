"""Launches as the arguments and the environment say, and notes the status."""

import os
import sys

from trainer.launch.mpirun import split_commands
from trainer.launch.settings import LaunchSettings
from trainer.launch.supervisor import Supervisor


def main() -> int:
    """Launch, write `exit_status` into the run directory, and return the status."""
    settings = LaunchSettings.from_environment(os.environ)
    status = Supervisor(settings).run(split_commands(sys.argv[1:]))
    scratch = settings.run_dir / ".exit_status"
    scratch.write_text(f"{status}\n", encoding="ascii")
    scratch.rename(settings.run_dir / "exit_status")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
