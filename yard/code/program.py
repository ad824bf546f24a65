"""What is run of a project: its entry, and the arguments that start it."""

import ast
import codecs
import posixpath
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from yard.code.files import IGNORE, Files
from yard.core.errors import RequestError

# Looked for in this order where nobody says what is run.
ENTRIES = ("train.py", "main.py")

FORMS = "script.py, run.sh or -m package.module"

# Modules that start the ranks of a node
LAUNCHER_MODULES = r"torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch|deepspeed\.\S+"
# What starts the ranks of a node, and what those of all nodes
LAUNCHERS = rf"""(?:(?P<here>torchrun|deepspeed|composer|xtuner[ \t]+train
        |swift[ \t]+(?:sft|pt|rlhf)
        |accelerate(?:[ \t]+|-)launch|(?:colossalai|tune|fabric|lightning)[ \t]+run
        |(?:axolotl|llamafactory-cli)[ \t]+train
        |(?:python[\d.]*|\$\{{?\w+(?::-\w+)?\}}?)(?:[ \t]+-[a-zA-Z])*[ \t]+
            (?:-m[ \t]+(?:{LAUNCHER_MODULES})|(?:\$\(|`)which[ \t]+torchrun[)`]))
    |(?P<everywhere>(?:horovod|orte|prte|mpi)run(?:\.\w+)?|mpiexec(?:\.\w+)?|srun|sbatch|aprun
        |jsrun|ibrun|[qb]sub|pbsdsh|pdsh|flux[ \t]+run
        |python[\d.]*[ \t]+-m[ \t]+horovod\.runner\S*))(?=["'\s]|$)"""
# At the beginning of a command of a shell script, in one line: a launcher, or another script
LAUNCHER = re.compile(
    rf"""(?:^|[;&|({{`])[ \t]*
    (?:(?:\w+=(?:"[^"\n]*"|'[^'\n]*'|[^\s"']*)|then|do|else|exec|time|if|while|!|env|nohup|nice
        |command|stdbuf|numactl|timeout|eval|sudo|xargs|(?:ba)?sh[ \t]+-\w*c
        |(?:uv|poetry|pixi|pdm|rye|hatch|pipenv)[ \t]+run|uvx
        |conda[ \t]+run(?:[ \t]+-[np][ \t]+\S+)?|-\S+|\d+[a-z]?)[ \t]+)*
    (?:(?:(?:(?:ba|z|da)?sh|source|\.)[ \t]+(?:-\w+[ \t]+)*(?=[\w./-]+(?:[\s;]|$))|(?=\.?[\w./-]*/))
        (?P<script>[\w./-]+\.sh)
    |["']?(?:[\w./~${{}}-]*/)?{LAUNCHERS})""",
    re.MULTILINE | re.VERBOSE,
)
# A name in a shell script, and the words that it stands for
ASSIGNED = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)=(["'])((?:\\\n|(?!\2)[^\n])*)\2""", re.MULTILINE
)
# What other launchers tell of nodes and ranks, where a script does without it in no other way
OF_OTHERS = re.compile(r"\$(\{)?(?P<name>(?:SLURM|PBS|LSB|FLUX|PMI|PMIX)_\w+)(?(1)[^:\w-]|)")
# What makes a world of each node by itself: options of torchrun, and others without theirs
ALONE = re.compile(
    r"torch(?:run|\.distributed\.\w+)\b.*(?:--standalone|--nnodes?[= ]1(?![\d:]))"
    r"|accelerate\S*\s+launch(?!.*--(?:num_machines|machine_rank|config_file))"
    # On CPUs it starts one process that knows of no other, unless mpirun is to start them.
    r"|accelerate\S*\s+launch(?=.*--(?:use_)?cpu)(?!.*--mpirun)"
    r"|deepspeed(?!.*--(?:no_ssh|node_rank|hostfile))"
)
# What starts programs in Python
STARTS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "execvp"})
# How git-lfs begins what stands in the place of a file that was not fetched
LFS_POINTER = b"version https://git-lfs.github.com/spec"
# How long that is: two lines more, of a hash and a size
LFS_BYTES = range(100, 200)


def find_program(files: Files, entry: str | None) -> tuple[str, ...]:
    """The arguments that start a project's entry, without those of the program.

    Args:
        entry: as it was asked for; None looks for one of `ENTRIES`.

    Raises:
        RequestError: there is no such entry, or it is not clear which one; the message says what
            there is.
    """
    if entry is None:
        entry = _default(files)
    module = re.fullmatch(r"-m\s+(\S+)", entry.strip())
    if module:
        return ("python3", "-m", _module(files, module[1]))
    if entry.strip().startswith("-"):
        raise RequestError([f"entry {entry!r}: must be {FORMS}; arguments go into SCRIPT_ARGS="])
    path = _script(files, entry)
    return ("bash" if path.endswith(".sh") else "python3", path)


def lfs_pointers(files: Files) -> list[str]:
    """A warning for the files that travel of which only git-lfs has the content."""
    named = [
        path
        for path, file in files.travelling.items()
        if file.size in LFS_BYTES and file.source.read_bytes().startswith(LFS_POINTER)
    ]
    if not named:
        return []
    shown = ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
    return [f"{shown}: only a pointer of git-lfs travels, not the file; fetch it: git lfs pull"]


def check_start(files: Files, program: tuple[str, ...], per_rank: bool) -> list[str]:
    """Why an entry cannot start, or would start other worlds than the run's; without running it.

    Args:
        per_rank: whether each rank is one of it (LAUNCH=rank), and not each node.
    """
    if program[1] == "-m" and per_rank and re.fullmatch(LAUNCHER_MODULES, program[2]):
        return [
            f"entry -m {program[2]}: starts the ranks of a node by itself, and each rank would "
            "start it: LAUNCH=node starts it once on each node"
        ]
    path = program[1]
    if program[0] not in ("bash", "python3") or path not in files.travelling:
        return []
    content = files.travelling[path].source.read_bytes()
    if content.startswith(LFS_POINTER):
        return [f"entry {path}: is a pointer of git-lfs, not the file; fetch it: git lfs pull"]
    if program[0] != "bash":
        return []
    if b"\r\n" in content:
        return [
            f"entry {path}: has the line ends of Windows, with which bash finds no command; "
            f"take them out: sed -i 's/\\r$//' {path}"
        ]
    if content.startswith(codecs.BOM_UTF8):
        return [
            f"entry {path}: begins with a byte order mark, which bash takes for a part of the "
            f"first command; take it out: sed -i '1s/^\\xef\\xbb\\xbf//' {path}"
        ]
    read = subprocess.run(
        ["bash", "-n", files.travelling[path].source],
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # it repeats words of the script
        check=False,
    )
    if read.returncode:
        said = read.stderr.replace(str(files.travelling[path].source), path).strip()
        return [f"entry {path}: bash cannot read it: {said}"]
    return _launchers(files, path, per_rank, {path})


def doubtful_starts(files: Files, program: tuple[str, ...]) -> list[str]:
    """What of an entry may start other worlds than the run's, on several nodes or at times."""
    path = source_of(files, program)
    if path is not None:
        return _started_in_python(files.travelling[path].source, path)
    if program[0] != "bash":
        return []
    text = files.travelling[program[1]].source.read_text(encoding="utf-8", errors="replace")
    commands = [line.strip() for line in text.replace("\\\n", "  ").splitlines()]
    code = "\n".join(line for line in commands if not line.startswith("#"))
    names = sorted({found["name"] for found in OF_OTHERS.finditer(code)})
    unset = [
        f"{program[1]}: {', '.join(names)}: of another launcher, and not set here; NNODES, "
        "NODE_RANK, NPROC_PER_NODE, MASTER_ADDR and MASTER_PORT are"
    ]
    return unset * bool(names) + [
        f"{program[1]}: {command}: on several nodes each of them is a world of its own; torchrun "
        "takes their number and address from the launch where no option says another one"
        for command in commands
        if not command.startswith("#") and ALONE.search(command)
    ]


def _started_in_python(source: Path, path: str) -> list[str]:
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):
        return []  # which is told by itself
    warnings = []
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", None) if isinstance(node, ast.Call) else None
        if name not in STARTS or not isinstance(node, ast.Call) or not node.args:
            continue
        words = getattr(node.args[0], "elts", [node.args[0]])
        said = " ".join(str(each.value) for each in words if isinstance(each, ast.Constant))
        found = re.match(LAUNCHERS, said, re.VERBOSE)
        if found:
            warnings.append(
                f"{path}:{node.lineno}: {found[0]} would start ranks where the launch has done it"
            )
    return warnings


def _launchers(files: Files, path: str, per_rank: bool, seen: set[str]) -> list[str]:
    """What a shell script starts that starts ranks, and the scripts that it names."""
    content = files.travelling[path].source.read_bytes()
    text = re.sub(r"^[ \t]*#.*$", "", content.decode(errors="replace"), flags=re.MULTILINE)
    words = {
        name: " ".join(value.replace("\\\n", " ").split())
        for name, _, value in ASSIGNED.findall(text)
        if re.match(LAUNCHERS, value.strip(), re.VERBOSE)
    }
    text = re.sub(r'"?\$\{?(\w+)\}?"?', lambda name: words.get(name[1], name[0]), text)
    problems = []
    # A backslash continues a line; every place stays where it is.
    for found in LAUNCHER.finditer(text.replace("\\\n", "  ")):
        line = text.count("\n", 0, found.end()) + 1
        if found["script"]:
            name = posixpath.normpath(found["script"]).replace("../", "")
            # A script may have changed its directory.
            inner = [each for each in files.travelling if f"/{each}".endswith(f"/{name}")]
            inner = [name] if name in inner else inner if len(inner) == 1 else []
            for each in set(inner) - seen:
                seen.add(each)
                problems += _launchers(files, each, per_rank, seen)
        elif found["everywhere"]:
            problems.append(
                f"{path}:{line}: {' '.join(found['everywhere'].split())} starts ranks on all "
                "nodes, which the launch does already: name the program that it starts in ENTRY=, "
                "and its arguments in SCRIPT_ARGS="
            )
        elif per_rank:
            problems.append(
                f"{path}:{line}: {' '.join(found['here'].split())} starts the ranks of a node by "
                "itself, and each rank would start it: LAUNCH=node starts it once on each node"
            )
    return problems


def split_program(program: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The entry of a program, and its arguments: what `ENTRY=` and `SCRIPT_ARGS=` were."""
    if program[1] == "-m":
        return f"-m {program[2]}", program[3:]
    return program[1], program[2:]


def source_of(files: Files, program: tuple[str, ...]) -> str | None:
    """The Python file among those that travel with which a program begins; None where none does."""
    if program[:2] == ("python3", "-m"):
        return find_module(files, program[2])
    return program[1] if program[0] == "python3" else None


def find_module(files: Files, module: str) -> str | None:
    """The file of a module that lies in the project; of a package the one that `-m` runs."""
    path = module.replace(".", "/")
    names = (f"{path}.py", f"{path}/__main__.py")
    return next((name for name in names if name in files.travelling), None)


def _default(files: Files) -> str:
    there = [name for name in ENTRIES if name in files.travelling]
    if len(there) == 1:
        return there[0]
    if there:
        raise RequestError([f"entry: there are {' and '.join(there)}; say which with ENTRY="])
    ignored = [name for name in ENTRIES if (files.folder / name).is_file()]
    if ignored:
        raise RequestError([_not_travelling(files, ignored[0])])
    raise RequestError(
        [
            f"entry: there is no {' or '.join(ENTRIES)}; say with ENTRY= what is run\n"
            f"{_scripts(files)}"
        ]
    )


def _module(files: Files, name: str) -> str:
    top = name.partition(".")[0]
    ours = any(path in (f"{top}.py",) or path.startswith(f"{top}/") for path in files.travelling)
    # One that does not lie here may be a module of the image: accelerate's, torch's own.
    if not all(part.isidentifier() for part in name.split(".")) or (
        ours and find_module(files, name) is None
    ):
        path = name.replace(".", "/")
        raise RequestError([f"entry -m {name}: there is no {path}.py or {path}/__main__.py"])
    return name


def _script(files: Files, entry: str) -> str:
    path = posixpath.normpath(entry.strip())
    if Path(path).is_absolute() and Path(path).is_relative_to(files.folder):
        path = str(Path(path).relative_to(files.folder))
    if path not in files.travelling:
        if not path.startswith(("/", "../")) and (files.folder / path).is_file():
            raise RequestError([_not_travelling(files, path)])
        raise RequestError([f"entry {entry}: there is no such file\n{_scripts(files)}"])
    if not path.endswith((".py", ".sh")):
        way = "; jupyter nbconvert --to script makes one of it" * path.endswith(".ipynb")
        raise RequestError([f"entry {entry}: must be {FORMS}{way}"])
    return path


def _not_travelling(files: Files, path: str) -> str:
    return (
        f"entry {path}: is there, but does not travel: it is left out by "
        f"{files.rules or 'a rule for caches and environments'}; take it out there, or say in "
        f"{IGNORE} what is left out"
    )


def _scripts(files: Files) -> str:
    scripts = [path for path in files.travelling if path.endswith((".py", ".sh"))]
    # Those at the top first: an entry seldom lies deep.
    shown = sorted(scripts, key=lambda path: (path.count("/"), path))
    lines = [f"        {path}" for path in shown[:10]]
    if len(shown) > 10:
        lines.append(f"        and {len(shown) - 10} more")
    return "\n".join(["    there are", *(lines or ["        no .py and no .sh"])])
