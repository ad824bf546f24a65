"""Where the commands of a GPU day run: in the trainer image, or straight on this machine."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from record import CONTAINER, STRAIGHT

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.append(str(CHECKOUT))

from node.engine.containers import EngineError  # noqa: E402  # found through the line above
from node.engine.gpus import gpu_host_configuration  # noqa: E402

MEASURE = CHECKOUT / "tests/gpu/measure.py"
# What the programs read of the checkout. A container has the same paths.
READ = ("trainer", "tests/gpu", "group_vars", "roles/training_run/defaults")
# Of the output of a command that failed, so much is shown.
SHOWN_LINES = 40


class CommandError(Exception):
    """A command failed, or did not end in time; what it printed last is in `output`."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = "\n".join(output.strip().splitlines()[-SHOWN_LINES:])


def run(
    command: Sequence[str | Path],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> str:
    """Run a command to its end, at most for so many seconds; return what it printed.

    Args:
        environment: beside that of this program.
        log: file that keeps the output; it is there also while the command runs.

    Raises:
        CommandError: it cannot be started, fails, or takes too long, and is ended then with all
            that it has started.
    """
    words = " ".join(map(str, command[:4]))
    if seconds <= 0:
        raise CommandError(f"no time is left for {words} …", "")
    path = log or Path(os.devnull)
    with path.open("a+b") if log else open(os.memfd_create("output"), "w+b") as stream:
        begin = stream.seek(0, os.SEEK_END)
        try:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError(f"{command[0]}: {error.strerror}", "") from error
        try:
            process.wait(timeout=seconds)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        finally:
            # Ranks that their launcher has left behind, too
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stream.seek(begin)
        output = stream.read().decode(errors="replace")
    if not ended:
        raise CommandError(f"not over within {seconds:.0f} s: {words} …", output)
    if process.returncode != 0:
        raise CommandError(f"exit status {process.returncode}: {words} …", output)
    return output


@dataclass
class Straight:
    """A Python of this machine that has torch; ranks are started by torchrun, without Open MPI.

    Attributes:
        python: the interpreter.
        stand_in: whether a processor stands in for the GPU.
    """

    python: str
    stand_in: bool = False
    name: str = field(default=STRAIGHT, init=False)
    # What exchanges gradients where a rank has a GPU of its own.
    engine: str = field(default="ddp", init=False)
    backend: str = field(default="nccl", init=False)

    def run(self, arguments: Sequence[str | Path], seconds: float, log: Path | None = None) -> str:
        """Run Python with these arguments; see the function of this name."""
        return self._run(1, arguments, seconds, log)

    def run_ranks(
        self, number: int, arguments: Sequence[str | Path], seconds: float, log: Path | None = None
    ) -> str:
        """Run so many ranks of a module ("-m") or a script; see the function `run`."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        torchrun = ["-m", "trainer.bench.torchrun", "--nnodes", "1", "--nproc-per-node"]
        torchrun += [str(number), "--node-rank", "0"]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
        is_module = arguments[0] == "-m"
        ranks = ["--module", *arguments[1:]] if is_module else arguments
        return self._run(number, [*torchrun, *ranks], seconds, log)

    def _run(
        self, ranks: int, arguments: Sequence[str | Path], seconds: float, log: Path | None
    ) -> str:
        variables = environment(self.stand_in, ranks)
        return run([self.python, *arguments], seconds, variables, log)


@dataclass
class Container:
    """Containers of a trainer image; ranks are started by Open MPI's mpirun, as in a run.

    Attributes:
        image: its reference.
        folders: of this machine that the commands write to.
        data: folder with prepared data sets, which they read.
        stand_in: whether a processor stands in for the GPU.
    """

    image: str
    folders: Sequence[Path]
    data: Path
    stand_in: bool = False
    name: str = field(default=CONTAINER, init=False)
    engine: str = field(default="horovod", init=False)
    backend: str = field(default="nccl", init=False)

    def run(self, arguments: Sequence[str | Path], seconds: float, log: Path | None = None) -> str:
        """Run Python with these arguments in a new container; see the function of this name."""
        return self.run_program(["python3", *arguments], seconds, log)

    def run_program(
        self,
        command: Sequence[str | Path],
        seconds: float,
        log: Path | None = None,
        ranks: int = 1,
    ) -> str:
        """Run any program of the image, or one that NVIDIA's toolkit puts into the container."""
        name = f"trainyard-gpu-day-{os.getpid()}-{time.monotonic_ns()}"
        begin = ["docker", "run", "--rm", "--init", "--name", name, "--network", "none"]
        # The same in all of them: a configuration names the host of its ranks.
        begin += ["--hostname", "gpu-day"]
        begin += ["--shm-size", "1g", "--user", f"{os.getuid()}:{os.getgid()}", "--workdir", "/tmp"]
        begin += [] if self.stand_in else gpu_arguments()
        mounts = [f"{CHECKOUT / part}:{CHECKOUT / part}:ro" for part in READ]
        mounts += [f"{folder}:{folder}" for folder in self.folders]
        mounts += [f"{self.data}:{self.data}:ro"] if self.data.is_dir() else []
        begin += [word for mount in mounts for word in ("--volume", mount)]
        # No account of the image has this number: programs that ask for its name get one here.
        variables = {**environment(self.stand_in, ranks), "HOME": "/tmp", "USER": "trainer"}
        # Open MPI asks this of root, who a container is no more than its own.
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        begin += [f"--env={key}={value}" for key, value in variables.items()]
        try:
            return run([*begin, self.image, *command], seconds, log=log)
        finally:
            # A client that was ended leaves its container.
            subprocess.run(["docker", "rm", "--force", name], capture_output=True)

    def run_ranks(
        self, number: int, arguments: Sequence[str | Path], seconds: float, log: Path | None = None
    ) -> str:
        """Run so many ranks of a module ("-m") or a script; see the function `run`."""
        mpirun = ["mpirun", "-n", str(number), "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        return self.run_program([*mpirun, "python3", *arguments], seconds, log, number)


Way = Straight | Container


def gpu_arguments() -> list[str]:
    """What gives a container all GPUs, as a run's container gets them.

    Raises:
        CommandError: the engine does not answer, or has no way to give them.
    """
    try:
        given = gpu_host_configuration("all")
    except EngineError as error:
        raise CommandError(str(error), "") from error
    (request,) = given["DeviceRequests"]
    if request["Driver"] == "cdi":
        return [word for name in request["DeviceIDs"] for word in ("--device", name)]
    return [*(["--runtime", given["Runtime"]] if "Runtime" in given else []), "--gpus", "all"]


def environment(stand_in: bool, ranks: int) -> dict[str, str]:
    """What all commands get: the trainer, the network of this machine alone, a GPU, and threads.

    With `TRAINYARD_GPUS` the trainer never computes on a processor instead.
    """
    variables = {
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TRAINYARD_NETWORK": "127.0.0.0/8",
        # What a stand-in computes is so small that threads would wait for each other.
        "OMP_NUM_THREADS": "1" if stand_in else str(max((os.cpu_count() or 1) // ranks, 1)),
        # Why NCCL refuses something
        "NCCL_DEBUG": "WARN",
    }
    return variables | ({"CUDA_VISIBLE_DEVICES": ""} if stand_in else {"TRAINYARD_GPUS": "1"})


def pythons(named: str | None) -> list[str]:
    """The interpreters to try: the one that is named, else this one and those on the PATH."""
    if named:
        return [named]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    found = [shutil.which("python3", path=folder) for folder in folders]
    return list(dict.fromkeys([sys.executable, *filter(None, found)]))


def find_image(named: str | None) -> str:
    """The trainer image with CUDA: the one that is named, else the newest on the engine.

    Raises:
        CommandError: no engine answers, or it has no such image.
    """
    if shutil.which("docker") is None:
        raise CommandError("there is no docker on this machine", "")
    try:
        listed = run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"], 30)
    except CommandError as error:
        last = error.output.splitlines()[-1:] or [str(error)]
        raise CommandError(f"no container engine answers: {last[0]}", "") from error
    if named:
        return named
    for image in listed.splitlines():
        # Not what stands on one: notebooks, what projects require, the compiler.
        repository, _, tag = image.partition(":")
        if repository.startswith("trainyard/trainer-cuda") and "-" not in tag:
            return image
    raise CommandError("the engine has no trainer image for GPUs; IMAGE= names one", "")
