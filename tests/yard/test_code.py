"""A project of the user's own: what of it travels, what is run, and what is refused before."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_schemas import errors
from yard_command import DATA, REPOSITORY, RUN_ID, Yard

from yard.code import files as travelling
from yard.code import syntax
from yard.code.files import find_files, looks_secret
from yard.code.git import difference, git_revision
from yard.code.modules import missing_modules
from yard.code.own import project_name, read_code
from yard.code.settings import read_settings
from yard.code.snapshot import take_snapshot
from yard.code.starts import lfs_pointers
from yard.code.syntax import of_other_pythons, syntax_errors
from yard.commands.rerun import request_of
from yard.core.errors import Exit, RequestError
from yard.core.project import Project
from yard.core.words import size
from yard.operations.packages import keep_code
from yard.operations.retries import going_on
from yard.plays.inventory import Inventory, Model
from yard.request.own_code import ProjectRequest, resolve_project
from yard.request.resolve import resolve
from yard.request.training import TrainRequest
from yard.runs.folder import create_run
from yard.runs.manifest import new_manifest, write_manifest

Make = Callable[..., Path]
# Of a trainyard.yml: what has no option of its own.
MORE = "checkpoints: ckpt-*\nsilence: 0\n"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a project of files; what ends with a slash is an empty folder."""

    def build(**contents: str) -> Path:
        folder = tmp_path / "My_Project"
        folder.mkdir(exist_ok=True)
        for name, text in contents.items():
            write(folder, name, text)
        return folder

    return build


def write(folder: Path, name: str, text: str = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@control"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def problems_of(act: Callable[[], object]) -> str:
    with pytest.raises(RequestError) as caught:
        act()
    assert caught.value.status == Exit.BAD_REQUEST
    return str(caught.value)


def names(folder: Path) -> list[str]:
    return list(find_files(folder).travelling)


def program(folder: Path, **typed: Any) -> tuple[str, ...]:
    return read_code(Project(Path("/nowhere")), str(folder), **typed).program


@pytest.mark.process
def test_everything_travels_but_caches_and_environments(make: Make) -> None:
    folder = make(**{"train.py": "", "a/b.py": "", "__pycache__/x.pyc": "", ".git/HEAD": ""})
    for name in ("env/pyvenv.cfg", "env/bin/python", "a/node_modules/x.js", ".mypy_cache/x"):
        write(folder, name)
    # What looks like a repository and is none is told rather than copied as a whole.
    assert "in a git repository that cannot be read" in problems_of(lambda: find_files(folder))
    (folder / ".git/HEAD").unlink()
    (folder / ".git").rmdir()
    found = find_files(folder)
    assert list(found.travelling) == ["a/b.py", "train.py"]
    assert (found.rules, found.left_out) == (None, ())


def test_a_file_of_its_own_says_what_is_left_out(make: Make) -> None:
    rules = "data/\n*.log\n!keep.log\n/top.txt\n"
    folder = make(**{".trainyardignore": rules, "train.py": ""})
    for name in ("data/1", "data/deep/2", "x/a.log", "b.log", "keep.log", "top.txt", "x/top.txt"):
        write(folder, name)
    found = find_files(folder)
    assert list(found.travelling) == [".trainyardignore", "keep.log", "train.py", "x/top.txt"]
    assert found.rules == ".trainyardignore"
    assert sorted(map(str, found.left_out)) == [
        "*.log: 2 files",
        "/top.txt: 1 file",
        "data/: 2 files",
    ]


@pytest.mark.process
@pytest.mark.parametrize("of_git", [False, True])
def test_a_file_of_a_folder_that_is_left_out_may_travel(make: Make, of_git: bool) -> None:
    """As the advice says, in a repository and without one."""
    rules = "conf/\n!conf/deep/a.yml\n"
    folder = make(**{".trainyardignore": rules, "train.py": "", "conf/b.yml": ""})
    write(folder, "conf/deep/a.yml")
    write(folder, "conf/deep/__pycache__/a.yml")
    if of_git:
        git(folder, "init")
    assert names(folder) == [".trainyardignore", "conf/deep/a.yml", "train.py"]


@pytest.mark.process
def test_rules_of_git_and_of_its_own_add_up(make: Make) -> None:
    """What git keeps here, .env above all, does not travel for a line about something else."""
    own = "big.bin\n!weights/\n!weights/**\n"
    git_rules = ".env\nweights/\nwandb/\n"
    folder = make(**{".trainyardignore": own, ".gitignore": git_rules, "train.py": ""})
    for name in (".env", "big.bin", "weights/a.pt", "weights/b/c.pt", "wandb/run"):
        write(folder, name)
    git(folder, "init")
    found = find_files(folder)
    assert list(found.travelling) == [
        *(".gitignore", ".trainyardignore", "train.py", "weights/a.pt", "weights/b/c.pt")
    ]
    assert found.rules == ".gitignore and .trainyardignore"
    assert sorted(map(str, found.left_out)) == [
        ".env: 1 file",
        "big.bin: 1 file",
        "wandb/: 1 file",
    ]


@pytest.mark.process
def test_a_link_that_is_named_in_the_own_file_lets_nothing_else_travel(make: Make) -> None:
    folder = make(**{".gitignore": "data/\n.env\n", ".env": "KEY=1", "train.py": ""})
    (folder / "data").symlink_to("/usr/share/doc")  # `data/` is of folders, and this is a link
    git(folder, "init")
    with pytest.raises(RequestError, match=r"out of the folder; .* or name it in .trainyardignore"):
        find_files(folder)
    # As an editor on Windows writes it
    (folder / ".trainyardignore").write_bytes(b"\xef\xbb\xbfdata\r\n*.log\r\n")
    write(folder, "a.log")
    assert list(find_files(folder).travelling) == [".gitignore", ".trainyardignore", "train.py"]


@pytest.mark.parametrize(
    "secrets",
    [
        (".env", ".env.local", "Token.txt", "certificates/site.pem", "client_secret_1.json"),
        (".npmrc", "aws_credentials", "gcp-key.json", "passwords.txt", "token.json"),
        (".aws/config", "home/.docker/config.json", "x/.kube/config"),
        (".hf_token", "github_token", "openai_key.txt", "api_keys.json", "secrets.local.yaml"),
        ("auth.json", "hf_token.json", "site.ovpn", "ada.keytab", "kubeconfig.yaml"),
    ],
)
def test_what_looks_like_a_secret_is_named(make: Make, secrets: tuple[str, ...]) -> None:
    others = [".env.example", "keys.py", "secret_santa.py", "monkey.txt", "incredible.json"]
    others += ["tokenizer.json", "added_tokens.json", "keypoints.json", "hotkey.py", "token.py"]
    folder = make(**dict.fromkeys((*secrets, *others, "train.py"), ""))
    [warning] = looks_secret(find_files(folder))
    assert warning.startswith(f"{', '.join(sorted(secrets))}: looks like a secret")
    assert warning in read_code(Project(Path("/nowhere")), str(folder)).warnings


def test_pointers_of_git_lfs_are_named_before_they_travel(make: Make) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    folder = make(**{"weights/base.pt": pointer, "train.py": "", "notes.txt": "x" * 130})
    [warning] = lfs_pointers(find_files(folder))
    assert warning.startswith("weights/base.pt: only its git-lfs pointer is here")


def test_modules_of_another_python_are_named(make: Make) -> None:
    names = ("a.cpython-311-x86_64-linux-gnu.so", "b.cpython-313-x86_64-linux-gnu.so", "c.abi3.so")
    [warning] = of_other_pythons(find_files(make(**dict.fromkeys(names, ""))))
    assert warning.startswith("a.cpython-311-x86_64-linux-gnu.so: compiled for another Python")


@pytest.mark.process
def test_an_import_that_is_left_out_is_named_with_its_rule(make: Make) -> None:
    program = "import src.data.module\ntry:\n    import src.data.other\nexcept ImportError: pass\n"
    folder = make(**{".gitignore": "*.log\ndata/\n", "train.py": program, "src/__init__.py": ""})
    for name in ("__init__", "module", "other"):
        write(folder, f"src/data/{name}.py")
    git(folder, "init")
    with pytest.raises(RequestError) as caught:
        read_code(Project(Path("/nowhere")), str(folder))
    assert caught.value.problems == (
        "train.py:1: imports src/data/module.py, which .gitignore:2 (data/) leaves out of what "
        "travels",
    )
    write(folder, ".trainyardignore", "!src/data/**\n")
    read_code(Project(Path("/nowhere")), str(folder))


@pytest.mark.process
@pytest.mark.parametrize("entry", ["train.py", "-m own.part.run"])
def test_packages_around_a_module_are_looked_at_too(make: Make, entry: str) -> None:
    folder = make(**{".trainyardignore": "data.py\n", "train.py": "import own.part.run\n"})
    for name in ("own/__init__.py", "own/data.py", "own/part/run.py"):
        write(folder, name)
    write(folder, "own/part/__init__.py", "from own.data import x\n")
    with pytest.raises(RequestError, match=r"own/part/__init__.py:1: imports own/data.py, which"):
        read_code(Project(Path("/nowhere")), str(folder), entry)


STARTS_BOTH = "torchrun --nproc_per_node=1 train.py\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "launch", "says"),
    [
        (f"#!/bin/bash\n{STARTS_BOTH}", None, "run.sh:2: torchrun starts the ranks of a node"),
        (f"set -e\nexec {STARTS_BOTH}", "rank", "LAUNCH=node runs it once on each node"),
        ("A=1 python -m torch.distributed.run x.py\n", "rank", "python -m torch.distributed.run"),
        ("/opt/venv/bin/torchrun train.py\n", "rank", "run.sh:1: torchrun starts the ranks"),
        (
            'P="$(dirname $0)/..":$P \\\npython -m torch.distributed.launch \\\n  x.py\n',
            "rank",
            "run.sh:2: python -m torch.distributed.launch starts",
        ),
        ('nohup env A="b c" \\\n  numactl -N 0 torchrun train.py\n', "rank", "run.sh:2: torchrun"),
        ("if ! uv run torchrun x.py; then exit 1; fi\n", "rank", "LAUNCH=node"),
        ("python3.13 -u -m accelerate.commands.launch x.py\n", "rank", "LAUNCH=node"),
        ("true && accelerate  launch x.py\n", "rank", "run.sh:1: accelerate launch starts"),
        ("horovodrun -np 2 python3 hvd.py\n", "node", "horovodrun starts ranks on all nodes"),
        ("\nsrun python3 train.py\n", "rank", "run.sh:2: srun starts ranks on all nodes"),
        ("mpirun.openmpi -np 2 python3 x.py\n", "node", "mpirun.openmpi starts ranks on all"),
        ("python -m horovod.runner.launch -np 2 x\n", "node", "starts ranks on all nodes"),
        ("sbatch job.sh\n", "node", "sbatch starts ranks on all nodes"),
        ("for i in 1; do { sudo tune run full; }; done\n", "rank", "run.sh:1: tune run starts"),
        ("conda run -n e composer x.py\n", "rank", "run.sh:1: composer starts the ranks"),
        ("python3 $(which torchrun) x.py\n", "rank", "LAUNCH=node"),
        ("python `which torchrun` x.py\n", "rank", "LAUNCH=node"),
        ("${PYTHON:-python} -m torch.distributed.launch x.py\n", "rank", "LAUNCH=node"),
        ('"$PREFIX/bin/torchrun" x.py\n', "rank", "run.sh:1: torchrun starts"),
        ("bash -c 'torchrun x.py'\n", "rank", "run.sh:1: torchrun starts"),
        ('RUN="torchrun \\\n -n 2"\n\nexec ${RUN} x.py\n', "rank", "run.sh:4: torchrun starts"),
        ("\ufeffpython3 train.py\n", "node", "byte order mark"),
        ("qsub job.sh\n", "node", "qsub starts ranks on all nodes"),
        ("case $1 in\n  a|b) torchrun x.py ;;\nesac\n", "rank", "run.sh:2: torchrun starts"),
        ("LAUNCHER=torchrun\n$LAUNCHER x.py\n", "rank", "run.sh:2: torchrun starts"),
        ('L="torchrun -q"\nL="$L -n 2"\n$L x.py\n', "rank", "run.sh:3: torchrun starts"),
        ("L=accelerate\n$L launch x.py\n", "rank", "run.sh:2: accelerate launch starts"),
        ("python -m accelerate launch x.py\n", "rank", "accelerate launch starts the ranks"),
        ("accelerate launch --cpu \\\n --num_machines 2 x.py\n", "node", "LAUNCH=rank"),
        ("accelerate launch --config_file=cpu.yaml x.py\n", "node", "LAUNCH=rank (the default)"),
        ("accelerate launch --config_file cpu.yaml x.py\n", "rank", "add --main_process_ip $MAS"),
        ("accelerate launch --cpu --num_processes 2 x.py\n", "rank", "add --main_process_ip $MA"),
        ('bash "$(dirname "$0")/tools/dist.sh"\n', "rank", "tools/dist.sh:2: torchrun starts"),
        ('. "${HERE}/tools/dist.sh"\n', "rank", "tools/dist.sh:2: torchrun starts"),
        ("#!/bin/csh\nsetenv A 1\n", "node", "run.sh: is written for csh, and run with bash"),
        ("cd tools\nbash -x dist.sh 2\n", "rank", "tools/dist.sh:2: torchrun starts the ranks"),
        ("./tools/dist.sh\n", "rank", "tools/dist.sh:2: torchrun starts the ranks"),
        ("if true; then\n", "node", "bash cannot read it: run.sh: line 2: syntax error"),
        ("#!/bin/bash\r\npython3 train.py\r\n", "node", "Windows line endings"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "node", "git lfs pull"),
    ],
)
def test_a_script_that_would_start_another_world_is_refused(
    make: Make, script: str, launch: str | None, says: str
) -> None:
    folder = make(**{"run.sh": script, "train.py": "", "tools/dist.sh": f". x.sh\n{STARTS_BOTH}"})
    write(folder, "cpu.yaml", "use_cpu: true\nnum_machines: 2\nmain_process_ip: 127.0.0.1\n")
    (folder / "tools/dist.sh").chmod(0o755)
    with pytest.raises(RequestError) as caught:
        read_code(Project(Path("/nowhere")), str(folder), "run.sh", launch=launch)
    [problem] = caught.value.problems
    assert says in problem


@pytest.mark.process
@pytest.mark.parametrize(
    "options",
    [
        "--cpu",
        "--cpu --num_processes 2 --num_machines 2 --main_process_ip $MASTER_ADDR",
        "--config_file cpu.yaml --main_process_ip $MASTER_ADDR",
    ],
)
def test_accelerate_on_cpus_starts_as_each_rank(make: Make, options: str) -> None:
    """There it starts one process, and hands on what it has."""
    folder = make(**{"run.sh": f"accelerate launch {options} x.py\n", "x.py": ""})
    write(folder, "cpu.yaml", "distributed_type: MULTI_CPU\nnum_processes: 2\n")
    assert not read_code(Project(Path("/nowhere")), str(folder), "run.sh").warnings


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "lost"),
    [("", True), ("--multi_gpu", False), ("--use_fsdp", False), ("--config_file x.yml", False)],
)
def test_accelerate_that_finds_no_gpus_is_named(make: Make, options: str, lost: bool) -> None:
    command = f"accelerate launch --num_machines 2 {options} x.py"
    folder = str(make(**{"run.sh": f"{command}\n", "x.py": ""}))

    def warned(on_cpus: bool) -> tuple[str, ...]:
        root = Project(Path("/nowhere"))
        return read_code(root, folder, "run.sh", launch="node", on_cpus=on_cpus).warnings

    assert [f"run.sh: {command}: without GPUs" in each for each in warned(True)] == [True] * lost
    assert not warned(False)


@pytest.mark.process
def test_a_script_in_an_older_encoding_is_refused_as_any_other(make: Make) -> None:
    """bash repeats the line, which is no UTF-8."""
    folder = make(**{"run.sh": ""})
    (folder / "run.sh").write_bytes(b"if [ caf\xe9 ); then\n")
    with pytest.raises(RequestError) as caught:
        read_code(Project(Path("/nowhere")), str(folder), "run.sh")
    [problem] = caught.value.problems
    assert "bash cannot read it" in problem
    assert "caf\N{REPLACEMENT CHARACTER}" in problem


@pytest.mark.process
@pytest.mark.parametrize(
    ("entry", "text", "says"),
    [
        ("run.sh", "torchrun \\\n --standalone train.py\n", "makes each node a world of its own"),
        ("run.sh", "torchrun --nnodes=1 train.py\n", "makes each node a world of its own"),
        ("run.sh", "torchrun --nnodes=1:4 train.py\n", None),
        ("run.sh", "python3 x.py --id ${SLURM_NODEID}\n", "SLURM_NODEID: set by another launcher"),
        ("run.sh", "python3 x.py $NUM_NODES $SKYPILOT_NODE_RANK\n", "NUM_NODES, SKYPILOT_NODE_RAN"),
        ("run.sh", "python3 tools/x1.py\n", "starts tools/x1.py, and there is no such file"),
        ("run.sh", "git clone x || cd y\npython3 x1.py\n", "git: not in the trainer image"),
        ("run.sh", "python3 /opt/x1.py; cd y && python3 $Y/x1.py\n", None),
        ("train.py", "init_process_group()\n", "with LAUNCH=node it is no rank"),
        ("train.py", "if spawn: init_process_group()\n", None),
        (
            "run.sh",
            "torchrun --nnodes $WORLD_SIZE --node_rank ${RANK} x.py\n",
            "RANK, WORLD_SIZE: set by",
        ),
        (
            "run.sh",
            "MASTER_ADDR=localhost\nexport NODE_RANK=0\n",
            "MASTER_ADDR=localhost, NODE_RANK=0",
        ),
        (
            "run.sh",
            "export NCCL_SOCKET_IFNAME=eth0\n",
            "NCCL_SOCKET_IFNAME=eth0: a network",
        ),
        ("run.sh", "export NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME\n", None),
        (
            "train.py",
            "os.environ['GLOO_SOCKET_IFNAME'] = 'eth9'\n",
            "train.py:1: sets a network",
        ),
        ("run.sh", "MASTER_ADDR=${MASTER_ADDR:-localhost}\nNNODES=${NNODES:-1}\n", None),
        ("run.sh", "RANK=$NODE_RANK\npython3 x.py $RANK $RANKING\n", None),
        ("run.sh", "# $SLURM_A\npython3 x.py ${SLURM_NODEID:-0} ${PBS_X-}\n", None),
        ("run.sh", "MESSAGE='torchrun is there'\npython3 x.py --words \"$MESSAGE\"\n", None),
        ("run.sh", "python3 x.py 2>&1 | tee log\n", "ends with the status of tee"),
        ("run.sh", "command -v git && git log\n", "run.sh: git: not in the trainer image"),
        ("run.sh", "command -v git\npython3 x.py\n", None),
        ("run.sh", "set -eo pipefail\npython3 x.py | tee log\n", None),
        ("run.sh", "nohup python3 x.py --a \\\n  > log 2>&1 &\n", "runs in the background"),
        ("run.sh", "python3 x.py > log.txt 2>&1\n", "writes its output to a file"),
        ("run.sh", "python3 x.py >&2 2>/dev/null && date > began; ls > x\n", None),
        ("run.sh", "python3 watch.py &\npython3 x.py && echo done\n", None),
        ("run.sh", "for i in 1 2; do\n  python3 x.py $i &\ndone\nwait\n", None),
        ("run.sh", "tmux new -d 'python3 x.py'\n", "tmux: not in the trainer image"),
        ("run.sh", "conda activate env\npython3 x.py\n", "conda: not in the trainer image"),
        ("run.sh", "cat <<'EOF' > job.sh\nsrun python3 x.py\nmodule load x\nEOF\n", None),
        ("run.sh", "accelerate launch train.py\n", "makes each node a world of its own"),
        ("run.sh", "accelerate launch --num_machines 2 train.py\n", None),
        ("train.py", "subprocess.run(['mpirun', '-np', '2'])\n", "train.py:1: mpirun starts ranks"),
        ("train.py", "os.system('torchrun x.py')\nmp.spawn(f, nprocs=2)\n", None),
        ("train.py", "os.system('which torchrun')\nrun()\nx.run(y)\n", None),
        ("train.py", "os.environ['MASTER_ADDR'] = 'localhost'\n", "train.py:1: sets MASTER_ADDR"),
        ("train.py", "if x:\n    os.environ['MASTER_ADDR'] = 'localhost'\n", None),
        ("train.py", "init(init_method='tcp://127.0.0.1:29500')\n", "init_method is another"),
        ("-m pkg.train", "", "lies in src/, where Python does not look"),
    ],
)
def test_what_may_start_another_world_is_a_warning(
    make: Make, entry: str, text: str, says: str | None
) -> None:
    name = entry if entry.endswith(("py", "sh")) else "src/pkg/train.py"
    started = dict.fromkeys(("x.py", "watch.py", "train.py"), "")
    folder = str(make(**{**started, name: text}))
    code = read_code(Project(Path("/nowhere")), folder, entry, launch="node")
    assert [says in warning for warning in code.warnings if says] == [True] * (says is not None)
    assert bool(code.warnings) == (says is not None)


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run([sys.executable, '-m', 'torch.distributed.run', 'x.py'])",
        "os.system(f'torchrun -n {n} x.py')",
        "command = ['accelerate', 'launch']; subprocess.run(command + ['x.py'], check=True)",
        "subprocess.run(['bash', '-c', 'set -e; deepspeed x.py'])",
        "subprocess.Popen(shlex.split('torchrun x.py'))",
        "subprocess.check_call(args='torchrun x.py'.split())",
        "subprocess.run(['bash', 'run.sh'])",
        "def main():\n    torch.multiprocessing.spawn(f, nprocs=2)",
    ],
)
def test_a_program_that_starts_ranks_itself_is_named(make: Make, text: str) -> None:
    """Also in a module that it imports."""
    folder = str(make(**{"train.py": "import lib\n", "lib.py": f"{text}\n", "run.sh": STARTS_BOTH}))
    [warning] = read_code(Project(Path("/nowhere")), folder, "train.py").warnings
    assert re.match(r"lib.py:[12]: .* starts (?:the )?ranks", warning)
    assert not read_code(Project(Path("/nowhere")), folder, "train.py", launch="node").warnings


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("bash x.sh", "set -e\r\n", "x.sh: has Windows line endings"),
        ("./x.sh", "python3 c.py\n", "x.sh: is not executable: chmod"),
        ("./x.sh", "#!/bin/zsh\n", "x.sh: is written for zsh, which the image comes without"),
        ("source x.sh", "if\n", "x.sh: bash cannot read it"),
        ("torchrun lib/a.py", "", "lib/a.py:1: imports lib/data.py, which .trainyardignore"),
        ("python3 -m lib.a", "", "lib/a.py:1: imports lib/data.py, which .trainyardignore"),
    ],
)
def test_what_a_script_starts_is_looked_at_too(
    make: Make, name: str, content: str, says: str
) -> None:
    folder = make(**{"run.sh": f"{name}\n", "lib/a.py": "import data\n", "lib/data.py": ""})
    (folder / ".trainyardignore").write_text("lib/data.py\n")
    (folder / "x.sh").write_text(content, newline="")
    with pytest.raises(RequestError) as caught:
        read_code(Project(Path("/nowhere")), str(folder), "run.sh", launch="node")
    [problem] = caught.value.problems
    assert says in problem
    # Of two programs one may be for another day.
    if "/a" in says:
        write(folder, "run.sh", f"{name}\npython3 b.py\n")
        write(folder, "b.py")
        code = read_code(Project(Path("/nowhere")), str(folder), "run.sh", launch="node")
        assert says in code.warnings[0]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f():\n    import data.m\n", 2),
        ("if __name__ == '__main__':\n    from data import m\n", 2),
        ("import sys\nsys.path.append('src')\nimport own.m\n", 3),
    ],
)
def test_an_import_that_may_be_left_out_is_a_warning(make: Make, text: str, line: int) -> None:
    folder = make(**{".trainyardignore": "m.py\n", "train.py": text, "data/m.py": ""})
    write(folder, "src/own/m.py")
    [warning] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert re.match(rf"train.py:{line}: imports \S+/m.py, which .trainyardignore \(m.py\)", warning)


def test_arguments_that_name_what_stays_behind_are_warned_of(make: Make) -> None:
    folder = make(**{".trainyardignore": "data/\n*.pt\nout/\n", "train.py": "", "c.yml": ""})
    for name in ("data/a.csv", "last.pt", "out/x", "lib/m.py"):
        write(folder, name)

    def warned(typed: str) -> list[str]:
        return list(read_code(Project(Path("/nowhere")), str(folder), script_args=typed).warnings)

    [data, last] = warned(
        "--data_dir data --config c.yml --resume=last.pt --output_dir out -x 'a b'"
    )
    assert data.startswith("argument data: does not travel: .trainyardignore (data/)")
    assert last.startswith("argument --resume=last.pt: does not travel: .trainyardign")
    [there] = warned(f"--data {REPOSITORY}/docs --log /dev/null --lib lib --input . --lr 1e-3")
    assert there.startswith(f"argument {REPOSITORY}/docs: is a path of this machine")


@pytest.mark.process
def test_paths_in_a_program_that_stay_behind_are_warned_of(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = syntax.OF_MACHINE.pattern.replace("tmp|", "")  # where this is
    monkeypatch.setattr(syntax, "OF_MACHINE", re.compile(own))
    folder = make(**{".trainyardignore": "data/\nout/\nruns/\n", "c/train.csv": ""})
    for name in ("data/a.csv", "data/b.csv", "out/x", "runs/train/last.pt", "../faces/1"):
        write(folder, name)
    text = "a = read('data/a.csv')\nb = f'./data/{n}'\nsave('out/x', 'runs/train/last.pt')\n"
    text += "cfg['data']\nopen('/etc/hosts')\nread('c/train.csv', 'data/no', '//', '/home/')\n"
    write(folder, "train.py", text)
    [data] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert data.startswith("train.py:1: data/a.csv: does not travel: .trainyardignore")
    assert data.endswith("(and 1 more)")
    write(folder, "lib.py", f"def f(root='{tmp_path}/faces'): pass\n")
    write(folder, "train.py", "import lib\n")
    [faces] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert faces.startswith(f"lib.py:1: {tmp_path}/faces: is a path of this machine")


@pytest.mark.process
def test_what_a_script_names_and_stays_behind_is_warned_of(make: Make) -> None:
    script = "source .env\n. ./env.sh && python3 tools/train.py \\\n --config c.yml --out runs\n"
    rules = ".env\nenv.sh\nruns/\ntools/\nc.yml\n"
    folder = make(**{"run.sh": f"{script}rm env.sh\n", ".gitignore": rules})
    for name in (".env", "c.yml", "env.sh", "runs/x", "tools/train.py"):
        write(folder, name)
    git(folder, "init")
    warnings = read_code(Project(Path("/nowhere")), str(folder), "run.sh").warnings
    way = "a line !{} in .trainyardignore includes it; data goes with make data"
    secret = "keys and passwords reach the ranks by training_run_secrets"
    assert [each.replace("does not travel: .gitignore:", "") for each in warnings] == [
        f"run.sh: .env: 1 (.env) leaves it out; {secret}",
        f"run.sh: ./env.sh: 2 (env.sh) leaves it out; {way.format('env.sh')}",
        f"run.sh: tools/train.py: 4 (tools/) leaves it out; {way.format('tools/train.py')}",
        f"run.sh: c.yml: 5 (c.yml) leaves it out; {way.format('c.yml')}",
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ("train.py", "train.py:2: imports .model, and a script has no package: take the dot out"),
        ("pkg/train.py", 'has no package: start it by ENTRY="-m pkg.train", or take the dot out'),
        ("-m pkg.train", None),
    ],
)
def test_a_script_that_imports_as_a_module_is_refused(
    make: Make, entry: str, refused: str | None
) -> None:
    text = "import os\nfrom .model import Net\n"
    files = {"train.py": text, "model.py": ""}
    folder = str(make(**files, **{f"pkg/{name}": each for name, each in files.items()}))
    read = partial(read_code, Project(Path("/nowhere")), folder, entry)
    if refused is None:
        read()
    else:
        assert refused in problems_of(read)


@pytest.mark.parametrize("name", ["random.py", "torch/__init__.py"])
def test_a_module_in_the_way_of_pythons_or_the_images_is_named(make: Make, name: str) -> None:
    folder = make(**{"train.py": "", "lib/queue.py": "", "test/__init__.py": "", "torch.md": ""})
    assert not read_code(Project(Path("/nowhere")), str(folder)).warnings
    write(folder, name)
    [warning] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert warning.startswith(f"{name}: has the name of a module of Python or the image")


FOREIGN = """
import os, cv2
from lib.m import x
import torch.nn, imp
try:
    import apex
except ImportError:
    pass
if os.environ.get("PLOT"):
    import matplotlib
def late():
    import pandas
import deep, fast, kept
"""


def test_imports_that_nobody_brings_are_known_before_the_start(make: Make) -> None:
    """Of what is always imported, also by modules; what is somewhere in the project is its own."""
    folder = make(**{".trainyardignore": "kept/\n", "train.py": FOREIGN, "kept/a": ""})
    write(folder, "lib/m.py", "from tqdm.auto import tqdm\nimport cv2\n")
    write(folder, "src/deep/x.py")
    write(folder, "lib/fast.cpython-313-x86_64-linux-gnu.so")
    foreign = read_code(Project(Path("/nowhere")), str(folder)).foreign
    assert foreign == {
        "cv2": "train.py:2",
        "torch": "train.py:4",
        "imp": "train.py:4",
        "tqdm": "lib/m.py:1",
    }
    [cv2, imp, tqdm] = missing_modules(foreign, "runtime", None)
    assert cv2.startswith(
        "train.py:2: imports cv2, which is neither in the image, the project nor its re"
    )
    assert "Write opencv-python-headless to requirements.txt" in cv2
    assert imp == "train.py:4: imports imp, which Python 3.13 no longer has"
    assert tqdm.startswith("lib/m.py:1: imports tqdm, ")


def test_a_wheel_tells_which_modules_it_brings(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, files in {
        "opencv": ("cv2/__init__.py", "opencv-1.dist-info/RECORD"),
        "odd": ("odd-1.data/purelib/sklearn/__init__.py", "fast.cpython-313.so", "one.py"),
    }.items():
        with zipfile.ZipFile(wheels / f"{name}-1-py3-none-any.whl", "w") as wheel:
            for file in files:
                wheel.writestr(file, "")
    foreign = dict.fromkeys(("cv2", "sklearn", "fast", "one", "distutils", "opencv"), "train.py:1")
    found = missing_modules(foreign, "runtime", tmp_path)
    assert [each.split()[2] for each in found] == ["distutils,", "opencv,"]
    assert [each.split()[2] for each in missing_modules(foreign, "cuda13", tmp_path)] == ["opencv,"]
    # Those of what is compiled with the image are not known yet.
    (tmp_path / "sources").mkdir()
    assert missing_modules(foreign, "runtime", tmp_path) == []


@pytest.mark.process
def test_a_module_that_no_package_of_the_project_has_is_named(make: Make) -> None:
    """As in a clone of a repository whose .gitignore kept a folder of modules out."""
    folder = make(**{".trainyardignore": "data/\n", "train.py": "from src.data.m import x\n"})
    assert not read_code(Project(Path("/nowhere")), str(folder)).warnings  # another's, perhaps
    write(folder, "src/__init__.py")
    [warning] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert warning.startswith("train.py:1: imports src.data.m, and src/ here has no such module")
    assert ".trainyardignore (data/) leaves it out" in warning
    write(folder, ".trainyardignore", "")
    write(folder, "src/data/m.py")
    assert not read_code(Project(Path("/nowhere")), str(folder)).warnings


def test_modules_that_lie_where_python_does_not_look_are_named(make: Make) -> None:
    folder = make(**{"tools/train.py": "import lib.m\nimport mine, sys\n", "lib/__init__.py": ""})
    write(folder, "src/mine/__init__.py")
    write(folder, "lib/m.py")

    def warned(entry: str) -> list[str]:
        warnings = read_code(Project(Path("/nowhere")), str(folder), entry).warnings
        return [warning.partition(", not on")[0] for warning in warnings]

    mine = "tools/train.py:2: imports mine, which is in src/"
    lib = "tools/train.py:1: imports lib, which is in the top folder"
    assert warned("tools/train.py") == [lib, mine]
    assert warned("-m tools.train") == [mine]
    write(folder, "tools/train.py", "import sys\nsys.path.append('.')\nimport lib\n")
    assert warned("tools/train.py") == []


@pytest.mark.process
def test_a_submodule_that_was_not_fetched_is_named(make: Make) -> None:
    module = '[submodule "third/x"]\n\tpath = third/x\n\turl = ../x\n'
    folder = make(**{"train.py": "", ".gitmodules": module})
    git(folder, "init")
    (folder / "third/x").mkdir(parents=True)
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},third/x")
    said = "third/x: is an empty submodule, not fetched yet"
    [warning] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert warning.startswith(said)
    shutil.rmtree(folder / ".git")  # as in an archive that was downloaded
    [warning] = read_code(Project(Path("/nowhere")), str(folder)).warnings
    assert warning.startswith(said)
    write(folder, "third/x/there.py")
    assert not read_code(Project(Path("/nowhere")), str(folder)).warnings


def test_a_launcher_as_the_entry_needs_a_start_on_each_node(make: Make) -> None:
    folder, entry = str(make(**{"train.py": ""})), "-m torch.distributed.run"
    with pytest.raises(RequestError, match="LAUNCH=node runs it once on each node"):
        read_code(Project(Path("/nowhere")), folder, entry)
    read_code(Project(Path("/nowhere")), folder, entry, launch="node")


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "launch"),
    [
        (STARTS_BOTH, "node"),
        ('A="b" B=$(which torchrun) C=1 python3 train.py\n', "rank"),
        ("# torchrun train.py\npython3 train.py\n", "rank"),
        ("echo start torchrun\npython3 mpirun.py\n", "rank"),
        ("if command -v torchrun; then python3 train.py; fi\n", "rank"),
        ('if $X; then\n  L=torchrun\nelse\n  L="python3"\nfi\n$L train.py\n', "rank"),
        ("pip install torchrun-tools\nwhich mpirun\n", "rank"),
        # Of a length at which a search that begins again at each line does not end.
        ("\n" * 20_000 + "python3 \\\n" * 5_000 + "train.py\n", "rank"),
    ],
)
def test_a_script_that_starts_no_other_world_goes(make: Make, script: str, launch: str) -> None:
    folder = make(**{"run.sh": script, "train.py": ""})
    assert read_code(Project(Path("/nowhere")), str(folder), "run.sh", launch=launch).program == (
        "bash",
        "run.sh",
    )


@pytest.mark.process
def test_git_says_what_is_left_out(make: Make) -> None:
    rules = "data/\n*.log\nold.py\n"
    folder = make(**{".gitignore": rules, "train.py": "", "old.py": "", "gone.py": ""})
    git(folder, "init")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "-m", "one")
    for name in ("data/1", "data/2", "a.log", "logs/b.log", "new.py", "__pycache__/x.pyc"):
        write(folder, name)
    write(folder, "env/pyvenv.cfg")
    write(folder, "env/lib/x.py")
    (folder / "gone.py").unlink()
    found = find_files(folder)
    # What git knows travels, whatever its rules say now.
    assert list(found.travelling) == [".gitignore", "new.py", "old.py", "train.py"]
    assert list(map(str, found.left_out)) == ["data/: 2 files", "a.log: 1 file", "logs/: 1 file"]


@pytest.mark.process
def test_git_rules_of_a_folder_in_a_repository_and_of_one_in_it(make: Make) -> None:
    folder = make(**{".gitignore": "*.bin\n", "app/train.py": "", "app/x.bin": ""})
    git(folder, "init")
    write(folder, "app/lib/m.py")
    write(folder, "app/lib/m.bin")
    write(folder, "app/lib/.gitignore", "*.txt\n")
    write(folder, "app/lib/m.txt")
    git(folder / "app/lib", "init")
    # A repository has its own rules.
    assert names(folder / "app") == ["lib/.gitignore", "lib/m.bin", "lib/m.py", "train.py"]


@pytest.mark.process
def test_a_folder_that_git_ignores_as_a_whole_travels(make: Make) -> None:
    folder = make(**{".gitignore": "runs/\n", "runs/1/code/train.py": ""})
    git(folder, "init")
    git(folder, "add", ".gitignore")
    git(folder, "commit", "-m", "one")
    assert names(folder / "runs/1/code") == ["train.py"]
    assert git_revision(folder / "runs/1/code") is None
    revision = git_revision(folder)
    assert revision is not None
    assert revision["dirty"] is False


@pytest.mark.process
def test_a_look_at_a_repository_is_only_a_look(make: Make) -> None:
    """It takes no lock, at which a commit would fail, and settings for people change nothing."""
    folder = make(**{"train.py": "one\n", "same.py": ""})
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    write(folder, "train.py", "two\n")
    for setting in ("diff.external=false", "color.ui=always", "diff.noprefix=true"):
        git(folder, "config", *setting.split("="))
    index = (folder / ".git/index").read_bytes()
    os.utime(folder / "same.py", (1, 1))
    assert (git_revision(folder) or {})["dirty"] is True
    assert (folder / ".git/index").read_bytes() == index
    said = difference(folder)
    git(folder, "config", "color.ui", "auto")
    (folder.parent / "code.diff").write_bytes(said)
    git(folder, "checkout", "train.py")
    git(folder, "apply", str(folder.parent / "code.diff"))
    assert (folder / "train.py").read_text() == "two\n"


def test_links_become_what_they_point_at(make: Make) -> None:
    folder = make(**{"train.py": "one", "lib/a.py": "two", "lib/deep/b.py": ""})
    (folder / "main.py").symlink_to("train.py")
    (folder / "same").symlink_to("lib")
    assert names(folder) == [
        "lib/a.py",
        "lib/deep/b.py",
        "main.py",
        "same/a.py",
        "same/deep/b.py",
        "train.py",
    ]
    take_snapshot(find_files(folder), folder.parent / "code")
    copy = folder.parent / "code/same/a.py"
    assert copy.read_text() == "two"
    assert not any(path.is_symlink() for path in copy.parents)
    assert not copy.is_symlink()


def test_what_cannot_travel_is_told_together(make: Make) -> None:
    folder = make(**{"train.py": ""})
    outside = folder.parent / "secret"
    outside.write_text("")
    (folder / "out").symlink_to("../secret")
    (folder / "around").symlink_to(".")
    (folder / "lost").symlink_to("nowhere")
    (folder / "two\nlines").touch()
    Path(os.fsdecode(bytes(folder) + b"/latin\xe9")).touch()
    os.mkfifo(folder / "pipe")
    # Its path may be longer than an address of a socket.
    os.mknod(folder / "door", stat.S_IFSOCK | 0o600)
    text = problems_of(lambda: find_files(folder))
    for problem in (
        "out is a link to ../secret, out of the folder",
        "around is a link to ., the folder itself",
        "lost is a link to nowhere, which is not there",
        r"'two\nlines' cannot be printed",
        r"'latin\udce9' cannot be printed",
        "pipe is a pipe",
        "door is a socket",
    ):
        assert problem in text
    text.encode()  # as it goes to a screen
    write(folder, ".trainyardignore", "out\naround\nlost\ntwo*\nlatin*\npipe\ndoor\n")
    assert names(folder) == [".trainyardignore", "train.py"]


@pytest.mark.process
def test_what_is_left_out_may_have_any_name(make: Make) -> None:
    folder = make(**{"train.py": "", ".gitignore": "latin*\n"})
    Path(os.fsdecode(bytes(folder) + b"/latin\xe9")).touch()
    git(folder, "init")
    (left_out,) = find_files(folder).left_out
    assert str(left_out) == r"'latin\udce9': 1 file"


def test_an_argument_that_no_record_can_hold(make: Make) -> None:
    folder = make(**{"train.py": "", "trainyard.yml": r'resume_args: ["a\0b"]'})
    text = problems_of(lambda: program(folder, script_args=os.fsdecode(b"--x \xe9")))
    assert r"argument '\udce9': must be text in UTF-8" in text
    assert r"argument 'a\x00b': must be text in UTF-8" in text
    odd = folder.parent / "two\nlines"
    folder.rename(odd)
    assert r"lines': has a name that cannot be printed" in problems_of(lambda: program(odd))


def test_what_may_not_be_read(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(**{"train.py": "", "key.pem": ""})
    # Nothing is closed to root.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "key.pem")
    text = problems_of(lambda: find_files(folder))
    assert text.startswith("key.pem may not be read; change its mode")


def test_sizes_for_people() -> None:
    numbers = (0, 1, 999, 1000, 9_940, 9_960, 999_400, 999_500, 10**10, 5 * 10**15)
    assert [size(number) for number in numbers] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1.0 kB",
        "9.9 kB",
        "10 kB",
        "999 kB",
        "1.0 MB",
        "10 GB",
        "5000 TB",
    ]


def test_too_many_bytes_name_the_largest(make: Make) -> None:
    folder = make(**{"train.py": ""})
    for name, bytes_ in (("data/a.bin", 9 * 10**9), ("data/b.bin", 10**9), ("model.pt", 2 * 10**8)):
        write(folder, name)
        os.truncate(folder / name, bytes_)
    text = problems_of(lambda: find_files(folder))
    assert "10 GB in 4 files: too much to travel with a run; the limit is 500 MB" in text
    assert "\n    data/  10 GB, 2 files\n    model.pt  200 MB, 1 file\n" in text
    assert ".trainyardignore" in text
    assert "make data" in text
    write(folder, ".trainyardignore", "data/\n")
    assert names(folder) == [".trainyardignore", "model.pt", "train.py"]


def test_too_many_files_are_not_all_looked_at(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(**{f"many/{number}": "" for number in range(40)})
    write(folder, "train.py")
    monkeypatch.setattr(travelling, "MAX_FILES", 20)
    assert "41 files" in problems_of(lambda: find_files(folder))
    monkeypatch.setattr(travelling, "LOOKED_AT", 30)
    text = problems_of(lambda: find_files(folder))
    assert "at least 30 files" in text
    monkeypatch.setattr(travelling, "COUNTED", 10)
    write(folder, ".trainyardignore", "many/\n")
    assert list(map(str, find_files(folder).left_out)) == ["many/: more than 10 files"]


def test_a_folder_that_is_none(make: Make, tmp_path: Path) -> None:
    folder = make(**{"train.py": ""})
    inside = Project(folder / "sub/checkout")
    inside.root.mkdir(parents=True)
    assert "there is no such folder" in problems_of(lambda: read_code(inside, "/nonsense"))
    assert "is not a folder" in problems_of(lambda: read_code(inside, str(folder / "train.py")))
    assert "holds this checkout" in problems_of(lambda: read_code(inside, str(inside.root)))
    assert "holds this checkout" in problems_of(lambda: read_code(inside, str(folder)))
    (tmp_path / "empty").mkdir()
    assert "no file in it travels" in problems_of(
        lambda: read_code(inside, str(tmp_path / "empty"))
    )


@pytest.mark.process
def test_the_program_is_found(make: Make) -> None:
    folder = make(**{"train.py": "", "run.sh": "", "pkg/mod.py": "", "pkg/__main__.py": ""})
    assert program(folder) == ("python3", "train.py")
    assert program(folder, entry="./pkg/mod.py") == ("python3", "pkg/mod.py")
    assert program(folder, entry=str(folder / "pkg/mod.py")) == ("python3", "pkg/mod.py")
    assert program(folder, entry="run.sh", script_args="a 'b c' $HOME") == (
        "bash",
        "run.sh",
        "a",
        "b c",
        "$HOME",
    )
    assert program(folder, entry="-m pkg.mod") == ("python3", "-m", "pkg.mod")
    assert program(folder, entry="-m pkg") == ("python3", "-m", "pkg")
    # A module of the image.
    assert program(folder, entry="-m torch.distributed.checkpoint") == (
        "python3",
        "-m",
        "torch.distributed.checkpoint",
    )


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("nope.py", "entry nope.py: there is no such file\n    there are\n        other.py"),
        ("../x.py", "there is no such file"),
        ("notes.txt", "must be script.py, run.sh or -m package.module"),
        ("other.py --lr 1", "no such file; it is a file alone, arguments go into SCRIPT_ARGS="),
        ("-m pkg.nope", "there is no pkg/nope.py or pkg/nope/__main__.py"),
        ("-m pkg.mod --lr 1", "arguments go into SCRIPT_ARGS="),
        ("ignored.py", "does not travel, because it is left out by .trainyardignore"),
    ],
)
def test_an_entry_that_is_none(make: Make, entry: str, problem: str) -> None:
    folder = make(**{"other.py": "", "notes.txt": "", "pkg/mod.py": "", "ignored.py": ""})
    write(folder, ".trainyardignore", "ignored.py\n")
    assert problem in problems_of(lambda: program(folder, entry=entry))


def test_no_entry_and_two(make: Make) -> None:
    folder = make(**{"other.py": ""})
    text = problems_of(lambda: program(folder))
    assert "no train.py or main.py; ENTRY= says what to run" in text
    assert "other.py" in text
    write(folder, "main.py")
    assert program(folder) == ("python3", "main.py")
    write(folder, "train.py")
    assert "there are train.py and main.py" in problems_of(lambda: program(folder))
    write(folder, ".trainyardignore", "train.py\nmain.py\n")
    assert "train.py: does not travel" in problems_of(lambda: program(folder))


def test_the_settings_of_a_project(make: Make) -> None:
    folder = make(**{"go.py": "", "train.py": ""})
    text = "entry: go.py\nargs: [--rate, 1e-3, --on, yes]\nlaunch: node\ngrace: 30\nstall: 0\n"
    write(
        folder,
        "trainyard.yml",
        text
        + "silence: 7\nmetrics: 'loss (?P<loss>\\S+)'\nresume_args: --resume x\n"
        + "checkpoints: saved/ckpt-*.pt\n",
    )
    settings = read_settings(folder)
    assert settings.args == ("--rate", "1e-3", "--on", "yes")
    assert (settings.grace, settings.stall) == (30, 0)
    assert settings.resume_args == ("--resume", "x")
    assert (settings.checkpoints, settings.silence) == ("saved/ckpt-*.pt", 7)
    code = read_code(Project(Path("/nowhere")), str(folder))
    assert (code.program, code.per) == (("python3", "go.py", *settings.args), "node")
    typed: dict[str, Any] = {"entry": "train.py", "script_args": "", "launch": "rank"}
    code = read_code(Project(Path("/nowhere")), str(folder), **typed)
    assert (code.program, code.per) == (("python3", "train.py"), "rank")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("entri: x.py\n", "entri: unknown; there are entry, args, launch"),
        ("- train.py\n", "must have keys"),
        ("entry: [\n", "trainyard.yml: "),
        ("entry: {a: b}\n", "entry: must be a word"),
        ("args: {a: b}\n", "args: must be a list, or a line"),
        ('args: "it\'s"\n', "args: No closing quotation"),
        ("launch: gpu\n", "launch: must be rank or node"),
        ("metrics: '('\n", "metrics: is not a regular expression"),
        ("metrics: 'loss .*'\n", "metrics: needs a named group"),
        ("grace: soon\n", "grace: must be a number of seconds"),
        ("stall: -1\n", "stall: must be a number of seconds"),
        ("checkpoints: /srv/*.pt\n", "checkpoints: must be a path in the working directory"),
        ("checkpoints: ../*.pt\n", "checkpoints: must be a path in the working directory"),
        ("checkpoints: a/**/*.pt\n", "checkpoints: must be a path in the working directory"),
    ],
)
def test_wrong_settings(make: Make, text: str, problem: str) -> None:
    folder = make(**{"train.py": "", "trainyard.yml": text})
    assert problem in problems_of(lambda: read_code(Project(Path("/nowhere")), str(folder)))


def test_an_error_of_syntax_is_found_with_line_and_text(make: Make) -> None:
    folder = make(**{"train.py": "import sys\nfrom lib import model\n", "lib/__init__.py": ""})
    write(folder, "lib/model.py", "from .deep import x\n")
    write(folder, "lib/deep.py", "\nif True\n    pass\n")
    write(folder, "unused.py", "print 'old'\n")
    text = problems_of(lambda: program(folder))
    assert text == "lib/deep.py:2: expected ':'\n    if True"
    write(folder, "lib/deep.py", "x = 1\n")
    assert program(folder) == ("python3", "train.py")
    write(folder, "train.py", "x = 1\0\n")
    assert "train.py" in problems_of(lambda: program(folder))


def test_syntax_that_may_be_newer_is_a_warning(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(**{"train.py": "type X = int =\n"})
    monkeypatch.setattr("sys.version_info", (3, 11))
    wrong, doubtful, _ = syntax_errors(find_files(folder), "train.py")
    assert wrong == []
    newer = "train.py:1: invalid syntax, or newer than the Python here\n    type X = int ="
    assert doubtful == [newer]
    monkeypatch.setattr("sys.version_info", (3, 13))
    wrong, *others = syntax_errors(find_files(folder), "train.py")
    assert (wrong, others) == (["train.py:1: invalid syntax\n    type X = int ="], [[], {}])


def test_a_snapshot_is_known_by_its_hash(make: Make) -> None:
    folder = make(**{"train.py": "one", "run.sh": ""})
    (folder / "run.sh").chmod(0o700)
    os.utime(folder / "train.py", (1000, 1000))

    def taken(name: str) -> str:
        return take_snapshot(find_files(folder), folder.parent / name).sha256

    first = taken("first")
    copy = folder.parent / "first"
    assert (copy / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (copy / "train.py").stat().st_mode & 0o777 == 0o644
    assert (copy / "train.py").stat().st_mtime == 1000
    os.utime(folder / "train.py", (2000, 2000))
    assert taken("later") == first
    (folder / "train.py").chmod(0o755)
    executable = taken("executable")
    (folder / "train.py").write_text("two")
    assert len({first, executable, taken("edited")}) == 3


def test_a_file_that_goes_away_meanwhile(make: Make) -> None:
    folder = make(**{"train.py": ""})
    found = find_files(folder)
    (folder / "train.py").unlink()
    text = problems_of(lambda: take_snapshot(found, folder.parent / "code"))
    assert "train.py changed while it was copied" in text


def test_the_name_of_a_project() -> None:
    assert project_name(Path("/x/My_Project.v2")) == "my-project-v2"
    assert project_name(Path("/x/" + "a" * 39 + "--b")) == "a" * 39
    assert project_name(Path("/x/größe")) == "gr-e"
    assert project_name(Path("/x/数据")) == "project"


@pytest.mark.process
def test_a_project_runs_from_a_snapshot(ready: Yard) -> None:
    project = ready.root / "examples/Tiny"
    write(project, "main.py", "print('hello')\n")
    write(project, "data/x")
    write(project, ".trainyardignore", "data/\n")
    git(project, "init")
    git(project, "add", ".")
    git(project, "commit", "-m", "one")
    write(project, "main.py", "print('changed')\n")
    done = ready("train", "--code", "examples/Tiny", "--script-args=--lr '0 1'", "--nodes", "2")
    assert done.returncode in (0, 1), done.stdout + done.stderr  # the result is another's matter
    assert "tiny, 2 nodes, 2 ranks (local)" in done.stdout
    assert "runs on every rank: python3 main.py --lr '0 1'" in done.stdout
    assert "left out by .gitignore and .trainyardignore: data/: 1 file" in done.stdout
    (run,) = ready.root.glob("runs/2*")
    assert run.name.partition("_")[2] == "tiny_n2_p1"
    assert (run / "code/main.py").read_text() == "print('changed')\n"
    assert "+print('changed')" in (run / "code.diff").read_text()
    document = json.loads((run / "manifest.json").read_text())
    assert errors("manifest", document) == []
    told = document["project"]
    assert (told["folder"], told["files"], told["per"]) == ("examples/Tiny", 2, "rank")
    assert told["program"] == ["python3", "main.py", "--lr", "0 1"]
    assert told["git"]["dirty"] is True
    assert document["configuration"]["dataset"] is None


@pytest.mark.process
def test_make_passes_on_what_is_typed(tmp_path: Path) -> None:
    """A program in place of Python says what reached it; nothing in between may look into that."""
    for name in ("Makefile", "requirements.txt", "bootstrap.sh"):
        shutil.copy(REPOSITORY / name, tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done\n')
    python.chmod(0o755)
    (tmp_path / ".venv/.complete").touch()

    def told(*typed: str) -> list[str]:
        command = ["make", "train", "CODE=my project", *typed]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[4:]

    arguments = """--x "it's $HOME" $(shell id) `ls` \\ * # %"""
    assert told(f"SCRIPT_ARGS={arguments}", "ENTRY=-m a.b", "GRACE=3") == [
        "train",
        "--code=my project",
        "--grace=3",
        "--entry=-m a.b",
        f"--script-args={arguments}",
    ]
    assert told("SCRIPT_ARGS=--verbose", "LAUNCH=node")[-2:] == [
        "--launch=node",
        "--script-args=--verbose",
    ]
    # To say that there are none, where trainyard.yml names some.
    assert told("SCRIPT_ARGS=")[-1] == "--script-args="
    assert told()[-1] == "--code=my project"


@pytest.mark.process
def test_the_example_is_a_project() -> None:
    code = read_code(Project(REPOSITORY), str(REPOSITORY / "examples/own-code"))
    assert (code.name, code.program) == ("own-code", ("python3", "train.py"))
    assert list(code.files.travelling) == ["train.py"]


@pytest.mark.process
@pytest.mark.parametrize("group", ["trainers", "gpu_nodes", "amd_nodes"])
def test_the_inventory_tells_whether_there_are_gpus(make: Make, lab: Inventory, group: str) -> None:
    command = "accelerate launch --num_machines 2 x.py\n"
    folder = make(**{"run.sh": command, "x.py": ""})
    request = ProjectRequest(str(folder), entry="run.sh", launch="node")
    inventory = replace(lab, groups={group: lab.nodes})
    warnings = resolve_project(request, inventory, Project(REPOSITORY)).code.warnings
    assert any("without GPUs" in each for each in warnings) is (group == "trainers")


def test_what_goes_on_gets_the_arguments_for_it(make: Make, lab: Inventory) -> None:
    folder = make(**{"train.py": "", "trainyard.yml": "args: --a\nresume_args: --resume last\n"})
    job = resolve_project(ProjectRequest(str(folder)), lab, Project(REPOSITORY))
    first = job.extravars()
    assert going_on(job, first, {}) == first
    resumed = {"training_run_resume_from": "/runs/1"}
    again = going_on(job, first, resumed)
    assert again["training_run_program"] == ["python3", "train.py", "--a", "--resume", "last"]
    # Once, however often it goes on.
    assert going_on(job, again, resumed) == again
    training = resolve(TrainRequest("vit"), lab)
    assert going_on(training, training.extravars(), resumed) == training.extravars() | resumed


def test_a_project_runs_again_as_it_was(make: Make, lab: Inventory, tmp_path: Path) -> None:
    folder = make(**{"x.py": "one", "y.py": "", ".trainyardignore": "y.py\n"})
    (folder / "link.txt").symlink_to("y.py")
    write(folder, "trainyard.yml", "resume_args: --again\nmetrics: (?P<loss>.*)\n" + MORE)
    checkout, run = Project(tmp_path), tmp_path / "runs/20260101T000000Z_my-project_n1_p2"
    request = ProjectRequest(
        str(folder), entry="x.py", script_args="--a 'b c'", nodes=2, min_nodes=1, procs_per_node=2
    )
    request = replace(request, dataset="cifar10", launch="node", grace=3, stall=5, retries=2)
    job = resolve_project(request, lab, checkout)
    run.mkdir(parents=True)
    manifest = new_manifest(checkout, lab, request, job, run.name, 0.0, keep_code(run, job, None))
    assert manifest.short == "my-project-1"
    write_manifest(run, manifest)
    later = new_manifest(checkout, lab, request, job, "later", 0.0, None)
    assert (later.short, replace(later, number=None).short) == ("my-project-2", "")
    write(folder, "x.py", "two")
    again = request_of(run, manifest)
    assert isinstance(again, ProjectRequest)
    assert again.retries == 2
    assert job.extravars()["training_run_checkpoint_files"] == "ckpt-*"
    assert job.extravars()["training_run_silence_seconds"] == 0
    repeated = resolve_project(again, lab, checkout)
    assert repeated.extravars() == job.extravars()
    assert repeated.to_json() == job.to_json()
    (tmp_path / "second").mkdir()
    second = keep_code(tmp_path / "second", repeated, None)
    assert manifest.project is not None
    assert second == {**manifest.project, "folder": second["folder"], "left_out": []}
    shutil.rmtree(run / "code")
    assert "is gone" in problems_of(lambda: request_of(run, manifest))


def test_a_project_that_changes_while_it_is_copied_leaves_no_run(
    make: Make, lab: Inventory, tmp_path: Path
) -> None:
    folder = make(**{"train.py": "", "gone.py": ""})
    job = resolve_project(ProjectRequest(str(folder)), lab, Project(tmp_path))
    runs = tmp_path / "runs"
    earlier = create_run(runs, job)
    (earlier / "manifest.json").touch()
    (folder / "gone.py").unlink()
    run = create_run(runs, job)
    assert "gone.py changed" in problems_of(lambda: keep_code(run, job, None))
    assert not run.exists()
    assert (runs / "latest").resolve() == earlier


def test_the_trainer_runs_again_as_it_did(lab: Inventory, tmp_path: Path) -> None:
    asked = {"seed": 2}
    request = TrainRequest(
        "vit", train_images="all", options=asked, name="first", epochs=9, checkpoint_seconds=30
    )
    training = resolve(request, lab)
    manifest = new_manifest(Project(tmp_path), lab, request, training, "run", 0.0, None)
    again = request_of(tmp_path, manifest)
    assert isinstance(again, TrainRequest)
    # Whatever the defaults of the model are by then.
    assert resolve(again, replace(lab, models={"vit": Model("vit", "", {})})) == training
    assert again.name == "first"


def test_a_run_is_launched_again_by_name(ready: Yard) -> None:
    assert ready("train", "--model", "vit", "--nodes", "2", "--set", "steps=4").returncode == 0
    done = ready("rerun", "latest")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (
        json.loads((run / "manifest.json").read_text())
        for run in sorted(ready.root.glob("runs/2*"))
    )
    assert first["configuration"] == second["configuration"]


def test_what_a_run_went_on_from_is_kept_by_its_whole_name(ready: Yard) -> None:
    held = ("--validation", "0")  # what the run that stands in here has
    training = ("train", "--model", "vit", "--nodes", "2", "--set", "steps=4", *held)
    assert ready(*training).returncode == 0
    (first,) = ready.root.glob("runs/2*")
    (first / "checkpoints").mkdir(exist_ok=True)
    for name in ("epoch-0001.pt", "epoch-0001.pt.sha256"):
        (first / "checkpoints" / name).touch()
    done = ready(*training, "--resume", "latest")
    assert done.returncode == 0, done.stdout + done.stderr
    again = json.loads((ready.root / "runs/latest/manifest.json").read_text())
    assert again["request"]["resume"] == first.name
    # One of all the epochs that are asked for leaves nothing to train.
    (first / "checkpoints/epoch-9.pt").write_bytes(b"state")
    digest = hashlib.sha256(b"state").hexdigest()
    (first / "checkpoints/epoch-9.pt.sha256").write_text(f"{digest}  epoch-9.pt\n")
    before = sorted(ready.root.glob("runs/2*"))
    done = ready(*training, "--resume", first.name)
    assert done.returncode == Exit.BAD_REQUEST
    assert f"{first.name} has done 9 epochs; ask for more: EPOCHS=10" in done.stderr
    assert sorted(ready.root.glob("runs/2*")) == before


def test_a_project_does_not_go_on_from_a_run_of_the_trainer(fresh: Yard) -> None:
    write(fresh.root / "mine", "train.py")
    shutil.copytree(DATA / "runs/succeeded", fresh.root / "runs" / RUN_ID)
    done = fresh("train", "--code", "mine", "--resume", RUN_ID)
    assert done.returncode == Exit.BAD_REQUEST
    assert f"{RUN_ID} ran the trainer (MODEL=)" in done.stderr


def test_a_project_that_makes_no_sense_touches_nothing(fresh: Yard) -> None:
    write(fresh.root / "mine", "train.py", "x = = 1\n")
    done = fresh("train", "--code", "mine", "--nodes", "9", "--dataset", "mnist")
    assert done.returncode == Exit.BAD_REQUEST
    for problem in ("train.py:1: invalid syntax", "x = = 1", "nodes 9", "dataset 'mnist'"):
        assert problem in done.stderr
    trainers = ("--epochs", "2", "--lr", "0.1", "--set", "seed=1", "--checkpoint-seconds", "0")
    done = fresh("train", "--code", "mine", *trainers)
    assert done.returncode == Exit.BAD_REQUEST
    for option in (
        "EPOCHS= (--epochs)",
        "LR= (--lr)",
        "--set",
        "SCRIPT_ARGS=",
        "CHECKPOINT_SECONDS=",
    ):
        assert option in done.stderr
    done = fresh("train", "--model", "vit", "--entry", "x.py", "--grace", "3")
    assert done.returncode == Exit.BAD_REQUEST
    assert "ENTRY= (--entry): goes with CODE= alone" in done.stderr
    assert "GRACE= (--grace): goes with CODE= alone" in done.stderr
    done = fresh("scaling", "--code", "mine")
    assert (done.returncode, "with NODES=1" in done.stderr) == (Exit.BAD_REQUEST, True)
    assert not (fresh.root / "runs").exists()
    assert not (fresh.root / ".trainyard").exists()
