"""Becomes Jupyter Lab, as the program of a run: `python3 -P .../notebook.py --idle-seconds N`.

The server listens on the loopback of the node, on a port that is free, and wants a token that is
made here. The token stands in files of a folder that the account of the ranks alone can read, and
that does not go home; not in arguments, in the environment, or in the log. Cells inherit the
environment of the server.
"""

import argparse
import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

# What mpirun tells a rank. With it every kernel would take itself for the same rank, and the end of
# one that has used MPI would end the server. Without it each is a world of its own.
RANK_NAMES = ("OMPI_", "PMIX_", "PRTE_", "PET_")
# Settings of Open MPI, which hold for a world of one, too.
SETTINGS = "OMPI_MCA_"
# Where the packages of the project are, with Jupyter Lab among them (docker/trainer).
PACKAGES = Path("/opt/trainyard/packages")
# Below the run directory: where Jupyter notes its servers and kernels.
RUNTIME = ".notebook"
TOKEN, CONFIG = "token", "config"
# The page does not ask whether it may fetch news: a node may have no way to them.
PAGE = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


def environment_of(present: Mapping[str, str], runtime: Path) -> dict[str, str]:
    """The environment of the server and its kernels.

    Args:
        runtime: the private folder of the server.
    """
    kept = {
        name: value
        for name, value in present.items()
        if name.startswith(SETTINGS) or not name.startswith(RANK_NAMES)
    }
    # Packages in a folder of their own have their data below it, where Jupyter does not look.
    return kept | {
        "JUPYTERLAB_DIR": str(PACKAGES / "share/jupyter/lab"),
        "JUPYTER_PATH": str(PACKAGES / "share/jupyter"),
        "JUPYTER_CONFIG_PATH": f"{runtime / CONFIG}:{PACKAGES / 'etc/jupyter'}",
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_TOKEN_FILE": str(runtime / TOKEN),
    }


def arguments_of(port: int, idle_seconds: int) -> list[str]:
    """The command line of the server.

    Args:
        idle_seconds: after so long without use a kernel or terminal ends, and after as long
            without either the server; 0: never.
    """
    arguments = ["python3", "-m", "jupyterlab", "--no-browser"]
    arguments += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    # The run has the node: another port of it serves as well.
    arguments += ["--ServerApp.port_retries=50", "--ServerApp.root_dir=."]
    arguments += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    arguments += ["--LabApp.news_url=None", "--LabApp.extension_manager=readonly"]
    # Kernels answer on sockets of the private folder: on TCP, any account could listen to outputs.
    arguments += ["--KernelManager.transport=ipc"]
    if idle_seconds:
        interval = max(5, min(300, idle_seconds // 4))
        for manager, limit in (
            ("MappingKernelManager", "cull_idle_timeout"),
            ("TerminalManager", "cull_inactive_timeout"),
        ):
            arguments += [f"--{manager}.{limit}={idle_seconds}"]
            arguments += [f"--{manager}.cull_interval={interval}"]
        # A page that is left open holds no node. A cell that computes does.
        arguments += ["--MappingKernelManager.cull_connected=True"]
        arguments += [f"--ServerApp.shutdown_no_activity_timeout={idle_seconds}"]
    return arguments


def make_runtime(folder: Path) -> None:
    """Make the private folder, with a new token and the settings of the page."""
    folder.mkdir(mode=0o700, exist_ok=True)
    page = folder / CONFIG / "labconfig/page_config.json"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(json.dumps(PAGE), encoding="utf-8")
    descriptor = os.open(folder / TOKEN, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(24))


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def main() -> None:
    """Become the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle-seconds", type=int, required=True)
    options = parser.parse_args()
    runtime = Path(os.environ["TRAINYARD_OUTPUT_DIR"]).parent / RUNTIME
    make_runtime(runtime)
    arguments = arguments_of(free_port(), options.idle_seconds)
    os.execvpe(arguments[0], arguments, environment_of(os.environ, runtime))


if __name__ == "__main__":
    main()
