"""What the entry of a project starts, and why that cannot go well; told without running it."""

import ast
import codecs
import contextlib
import posixpath
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from yard.code.files import Files
from yard.code.program import find_module, source_of
from yard.core.words import first_names

# Modules that start the ranks of a node
LAUNCHER_MODULES = r"torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch|deepspeed\.\S+"
# What starts the ranks of a node, and what those of all nodes
LAUNCHERS = rf"""(?:(?P<here>torchrun|deepspeed|composer|xtuner[ \t]+train
        |swift[ \t]+(?:sft|pt|rlhf)
        |accelerate(?:[ \t]+|-)launch|(?:colossalai|tune|fabric|lightning)[ \t]+run
        |(?:axolotl|llamafactory-cli)[ \t]+train
        |(?:(?:coverage[ \t]+run|python[\d.]*)|\$\{{?\w+(?::-\w+)?\}}?)(?:[ \t]+-[a-zA-Z])*[ \t]+
            (?:-m[ \t]+(?:{LAUNCHER_MODULES}|accelerate[\w.]*[ \t]+launch|torchrun)
            |(?:\$\(|`)which[ \t]+torchrun[)`]))
    |(?P<everywhere>(?:horovod|orte|prte|mpi)run(?:\.\w+)?|mpiexec(?:\.\w+)?|srun|sbatch|aprun
        |jsrun|ibrun|[qb]sub|pbsdsh|pdsh|flux[ \t]+run
        |python[\d.]*[ \t]+-m[ \t]+horovod\.runner\S*))(?=["'\s]|$)"""
# The beginning of a command of a shell script, in one line
COMMAND = r"""(?:^|[;&|({`])[ \t]*
    (?:(?:\w+=(?:"[^"\n]*"|'[^'\n]*'|[^\s"'])*|then|do|else|exec|time|if|while|!|env|nohup|nice
        |command|stdbuf|numactl|timeout|eval|sudo|xargs|(?:ba)?sh[ \t]+-\w*c|unbuffer
        |[\w*."'-]+\)  # of a case
        |(?:uv|poetry|pixi|pdm|rye|hatch|pipenv)[ \t]+run|uvx
        |conda[ \t]+run(?:[ \t]+-[np][ \t]+\S+)?|-\S+|\d+[a-z]?)[ \t]+)*(?<!command[ ]-v[ ])"""
# There a launcher, or another script, perhaps in a folder that a variable names
LAUNCHER = re.compile(
    rf"""{COMMAND}
    (?:(?:(?P<by>(?:ba|z|da)?sh|source|\.)[ \t]+(?:-\w+[ \t]+)*(?=["']?[$\w./-])
            |(?=["']?(?:\$|\.?[\w./-]*/)))
        ["']?(?:(?:\$\{{?\w+\}}?|\$\(dirname[^)\n]*\))/)?(?P<script>[\w./-]+\.sh)(?=["']?(?:[\s;)]|$))
    |["']?(?:[\w./~${{}}-]*/)?{LAUNCHERS})""",
    re.MULTILINE | re.VERBOSE,
)
# What people's scripts call on other machines, and the trainer image comes without
LACKING = re.compile(
    rf"{COMMAND}(?P<name>conda|mamba|micromamba|module|spack|docker|singularity|apptainer|sudo"
    r"|apt(?:-get)?|pip3?|git|tmux|screen|wget|curl|unzip|gcc|g\+\+|make|cmake|nvcc|ffmpeg|aws|gsutil|scontrol"
    r"|ip|ifconfig|ping|bc|jq|(?:source|\.)[ \t]+\S*\bactivate)(?=[ \t\n;]|$)",
    re.MULTILINE | re.VERBOSE,
)
# A Python program of a script: a file, or a module
PYTHON = re.compile(
    r"""(?:\b(?:python[\d.]*|torchrun|accelerate|deepspeed)|\$\{?\w+\}?)["']?[ \t]
    (?:[^\n;|&]{0,300}?[ \t])??
    (?:-m[ \t]+(?P<module>[\w.]+)
    |["']?(?:(?:\$\{?\w+\}?|\$\(dirname[^)\n]*\))/)?(?P<file>[\w./-]+\.py))(?=["']?(?:[\s;)]|$))""",
    re.VERBOSE,
)
_PROGRAM = r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed)\b"
# The status of such a command is that of tee.
PIPED = re.compile(_PROGRAM + r"[^\n;|]{0,999}\|&?[ \t]*tee\b")
# Its words go to a file.
HIDDEN = re.compile(
    _PROGRAM + r"(?:(?!&&)[^\n|;]){0,999}[ \t](?:&|1)?>>?[ \t]*(?!&|/dev/)[\"'$\w./{]"
)
# The script goes on after such a command, and ends; others than the last have a purpose.
BEHIND = re.compile(rf"^.*{_PROGRAM}.*(?<![&>|])&[ \t]*$(?![\s\S]*{_PROGRAM})", re.MULTILINE)
WAITS = re.compile(r"\b(?:wait|fg|sleep|kill[ \t]+-0|tail[ \t]+-\w*[fF])\b")
# A name in a shell script, and the words that it stands for
ASSIGNED = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)=(?:(["'])((?:\\\n|(?!\2)[^\n])*)\2|([\w./-]+)[ \t]*$)""",
    re.MULTILINE,
)
# Text in a script that is none of its commands
REMARK = re.compile(r"^[ \t]*\#.*$", re.MULTILINE)
HERE_DOCUMENT = re.compile(r"<<-?[ \t]*([\"']?)(\w+)\1[^\n]*\n(?s:.*?)^[ \t]*\2$", re.MULTILINE)
# The interpreter that a script asks for, where it is none that reads what bash does
INTERPRETER = re.compile(rb"#!.*?\b(t?csh|fish|zsh|ksh|python[\d.]*|perl)\b")
# What other launchers tell of nodes and ranks, where a script does without it in no other way
_READ = r"\$(\{)?(?P<name>%s)(?(1)[^:\w-]|\b)"
OF_OTHERS = re.compile(
    _READ % r"(?:SLURM|PBS|LSB|FLUX|PMI|PMIX|VC|MLP|SKYPILOT|DSTACK|SM|AZUREML|AZ_BATCH|COBALT)_\w+"
    r"|NUM_(?:NODES|MACHINES|GPUS)|MACHINE_RANK|N?GPUS_PER_NODE|HOSTFILE"
)
# What ranks have, and what starts them on a node has not
OF_RANKS = re.compile(_READ % "(?:LOCAL_)?(?:RANK|WORLD_SIZE)")
# The same for all nodes, of names that the launch sets for each
ALIKE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?"
    r"((?:MASTER_ADDR=[\"']?(?:localhost|127\.[\d.]+)|NNODES=1|(?:NODE_)?RANK=\d+)[\"']?)[ \t]*$",
    re.MULTILINE,
)
# What the launch sets to the interface of the training network
INTERFACE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?((?:GLOO|NCCL|TP)_SOCKET_IFNAME=[\"']?[=^\w][^\s\"']*)[\"']?[ \t]*$",
    re.MULTILINE,
)
# What makes a world of each node by itself: options of torchrun, and others without theirs
ALONE = re.compile(
    r"torch(?:run|\.distributed\.\w+)\b.*(?:--standalone|--nnodes?[= ]1(?![\d:]))"
    r"|accelerate\S*\s+launch(?!.*--(?:num_machines|machine_rank|config_file|(?:use_)?cpu))"
    r"|deepspeed(?!.*--(?:no_ssh|node_rank|hostfile))"
)
# How accelerate is told to compute on CPUs, by an option and in a file that an option names: there
# it starts one process, with the environment that it has
ON_CPUS = re.compile(r"--(?:use_)?cpu\b")
CONFIG = re.compile(r"--config_file[= \t]+[\"']?([\w./-]+)")
CONFIG_ON_CPUS = re.compile(
    r"^(?:use_cpu:[ ]*(?:true|yes)|distributed_type:[ ]*[\"']?(?:MULTI_CPU|NO)[\"']?)[ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
# Where it is not told, it starts ranks for GPUs alone.
ONLY_ON_GPUS = re.compile(
    r"accelerate\S*\s+launch(?=.*--num_machines)"
    r"(?!.*--(?:(?:use_)?cpu|multi_gpu|use_(?:fsdp|deepspeed|megatron_lm)|tpu|config_file|mpirun))"
)
# More processes than one, for which it sets MASTER_ADDR
SEVERAL = re.compile(r"--num_(?:processes|machines)[= \t]+(?![\"']?1\b)")
# What a script does in another folder than the project's, or may have made before
ELSEWHERE = re.compile(r"\b(?:cd|pushd|git|wget|curl|tar|unzip|cp|mv|ln|cat|rsync)\b")
# What a program says that is a rank, and what starts ranks in it
JOINS = re.compile(rb"\binit_process_group\b|\bAccelerator\(|environ\S{1,6}(?:LOCAL_)?RANK\b")
MAKES_RANKS = re.compile(rb"spawn|subprocess|Process\(|elastic|os\.exec|[Ll]ightning|NODE_RANK")
# What starts programs in Python, and what starts ranks as processes of it
STARTS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "execvp"})
SPAWNS = re.compile(r"(?:.*\b(?:mp|multiprocessing)\.(?:spawn|start_processes)|.*\belastic_launch)")
# An address that is another machine on each node
HERE = re.compile(r"(?:tcp://)?(?:localhost|127\.0\.0\.1)(?::.*)?")
# How git-lfs begins what stands in the place of a file that was not fetched
LFS_POINTER = b"version https://git-lfs.github.com/spec"
# How long that is: two lines more, of a hash and a size
LFS_BYTES = range(100, 200)


def lfs_pointers(files: Files) -> list[str]:
    """A warning for the files that travel of which only git-lfs has the content."""
    named = [
        path
        for path, file in files.travelling.items()
        if file.size in LFS_BYTES and file.source.read_bytes().startswith(LFS_POINTER)
    ]
    if not named:
        return []
    shown = first_names(named, 5)
    return [f"{shown}: only its git-lfs pointer is here, not the file; fetch it: git lfs pull"]


def check_start(
    files: Files, program: tuple[str, ...], per_rank: bool
) -> tuple[list[str], list[str]]:
    """Why an entry cannot start, or would start other worlds than the run's; without running it.

    Args:
        per_rank: whether each rank is one of it (LAUNCH=rank), and not each node.

    Returns:
        What is wrong, and the shell scripts that are run: the entry, and those that it names.
    """
    if program[1] == "-m" and per_rank and re.fullmatch(LAUNCHER_MODULES, program[2]):
        return [
            f"entry -m {program[2]}: starts the ranks of a node itself, but every rank would run "
            "it: LAUNCH=node runs it once on each node"
        ], []
    path = program[1]
    if program[0] == "python3" and path in files.travelling:
        is_pointer = files.travelling[path].source.read_bytes().startswith(LFS_POINTER)
        return [f"{path}: is a pointer of git-lfs, not the file: git lfs pull"] * is_pointer, []
    seen: set[str] = set()
    problems = _in_script(files, path, per_rank, seen) if program[0] == "bash" else []
    return problems, sorted(seen)


def doubtful_starts(
    files: Files,
    program: tuple[str, ...],
    scripts: Sequence[str],
    per_rank: bool,
    on_cpus: bool = False,
) -> list[str]:
    """What of an entry may start other worlds than the run's, or not start, at times.

    Args:
        scripts: those that are run, see `check_start`.
        on_cpus: whether no node has GPUs.
    """
    source = source_of(files, program)
    if source is not None and not per_rank:
        text = files.travelling[source].source.read_bytes()
        return [
            f"{source}: with LAUNCH=node it is no rank, and has no RANK; LAUNCH=rank (the default) "
            "starts it as each rank, and a run.sh with exec torchrun starts ranks of it"
        ] * (bool(JOINS.search(text)) and not MAKES_RANKS.search(text))
    if program[1] == "-m" and source is None:
        path = f"src/{program[2].replace('.', '/')}"
        lies = {f"{path}.py", f"{path}/__main__.py"} & files.travelling.keys()
        return [
            f"entry -m {program[2]}: lies in src/, where Python does not look: start it by a "
            f"run.sh with PYTHONPATH=src exec python3 -m {program[2]}"
        ] * bool(lies)
    texts = {path: _joined(_commands(files, path)) for path in scripts}
    return [
        warning
        for path, text in texts.items()
        for warning in (
            *_doubts(path, text, per_rank),
            *(_lost_on_cpus(path, text) if on_cpus else ()),
            *_not_there(files, path, text),
        )
    ]


def _lost_on_cpus(path: str, code: str) -> Iterator[str]:
    """What starts no ranks where no node has GPUs."""
    for command in map(str.strip, code.splitlines()):
        if ONLY_ON_GPUS.search(command):
            yield (
                f"{path}: {command}: without GPUs accelerate launch starts one process on each "
                "node; with --cpu and LAUNCH=rank (the default) it starts as each rank"
            )


def _not_there(files: Files, path: str, code: str) -> Iterator[str]:
    """The Python files that a script starts, and that are nowhere in the project."""
    named = {each["file"]: None for each in PYTHON.finditer(code) if each["file"]}
    for name in named if not ELSEWHERE.search(code) else ():
        place = files.folder / name
        if not name.startswith("/") and _find(files, name) is None and not place.exists():
            yield f"{path}: starts {name}, and there is no such file in the project"


def _doubts(path: str, code: str, per_rank: bool) -> Iterator[str]:
    """What of a script may go wrong, by the text of its commands."""
    unset = (OF_OTHERS,) if per_rank else (OF_OTHERS, OF_RANKS)
    names = sorted({found["name"] for each in unset for found in each.finditer(code)})
    names = [name for name in names if f"{name}=" not in code]
    if names:
        yield (
            f"{path}: {', '.join(names)}: set by another launcher, not by this one, which sets "
            "NNODES, NODE_RANK, NPROC_PER_NODE, MASTER_ADDR and MASTER_PORT"
        )
    alike = ALIKE.findall(code)
    if alike:
        yield (
            f"{path}: {', '.join(alike)}: the same on every node, so each node would be a world "
            "of its own; the launch sets it for each node"
        )
    interfaces = INTERFACE.findall(code)
    if interfaces:
        yield (
            f"{path}: {', '.join(interfaces)}: a network interface that may have another name on "
            "each node; the launch sets the one of the training network"
        )
    lacking = sorted({found["name"] for found in LACKING.finditer(code)})
    if lacking:
        yield (
            f"{path}: {', '.join(lacking)}: not in the trainer image; add Python packages to "
            "requirements.txt, programs to docker/trainer/Dockerfile"
        )
    behind = BEHIND.search(code)
    if behind and not WAITS.search(code, behind.end()):
        yield (
            f"{path}: {behind[0].strip()}: runs in the background, so the script and the run end "
            "at once; take out & and nohup: a run outlives its terminal anyway"
        )
    for command in map(str.strip, code.splitlines()):
        if ALONE.search(command):
            yield (
                f"{path}: {command}: makes each node a world of its own; without such options "
                "torchrun takes the number of nodes and the address from the launch"
            )
        if HIDDEN.search(command) and not command.endswith("&"):
            yield (
                f"{path}: {command}: writes its output to a file, which the screen, STALL= and "
                "`metrics:` do not see; take that out, each rank has a log anyway"
            )
        if PIPED.search(command) and not re.search("pipefail|PIPESTATUS", code):
            yield (
                f"{path}: {command}: ends with the status of tee, so a failure counts as success; "
                "put `set -o pipefail` before it"
            )


def commands_of(files: Files, scripts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The words of each command that starts a Python program or reads a file, with its script."""
    for path in scripts:
        for command in re.split(r"[;&|\n]+", _joined(_commands(files, path))):
            if PYTHON.search(command) or re.match(r"\s*(?:source|\.)\s", command):
                with contextlib.suppress(ValueError):  # a quotation that goes on in another line
                    yield path, shlex.split(command.partition(">")[0])


def programs_of(
    files: Files, program: tuple[str, ...], scripts: Sequence[str]
) -> list[tuple[str, bool]]:
    """The Python files that an entry starts, and whether it does so by `-m`.

    Args:
        scripts: those that are run, see `check_start`.
    """
    path = source_of(files, program)
    if path is not None:
        return [(path, program[1] == "-m")]
    texts = [_joined(_commands(files, each)) for each in scripts]
    found = [each for text in texts for each in PYTHON.finditer(text)]
    named = [
        (find_module(files, each["module"]) if each["module"] else _find(files, each["file"]))
        for each in found
    ]
    pairs = zip(named, (each["module"] is not None for each in found), strict=True)
    return list(dict.fromkeys((name, by_name) for name, by_name in pairs if name is not None))


def started_in_python(files: Files, tree: ast.Module, path: str, per_rank: bool) -> list[str]:
    """What a module starts that starts ranks, and an address that is another one on each node."""
    branches = [
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test)
        for part in (*node.body, *node.orelse)
    ]
    at_times = {id(inner) for part in branches for inner in ast.walk(part)}
    values = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None)
            if name in STARTS:
                given = [*node.args, *(each.value for each in node.keywords if each.arg == "args")]
                said = "\n".join(_words(each, values) for each in given)
                problems = _started(files, path, said, per_rank, set())
                found += [(node.lineno, text.partition(": ")[2]) for text in problems]
            elif per_rank and id(node) not in at_times and SPAWNS.fullmatch(ast.unparse(node.func)):
                name = ast.unparse(node.func)
                text = f"{name} starts ranks, and each rank would do it: call its function once"
                found.append((node.lineno, f"{text}, with the RANK of the environment"))
            found += [
                (node.lineno, f"{each.arg} is another machine on each node")
                for each in node.keywords
                if each.arg == "init_method" and HERE.fullmatch(_words(each.value, values))
            ]
        elif isinstance(node, ast.Assign) and id(node) not in at_times:
            target = ast.unparse(node.targets[0])
            if target == "os.environ['MASTER_ADDR']" and HERE.fullmatch(_words(node.value, values)):
                text = "sets MASTER_ADDR to what is another machine on each node"
                found.append((node.lineno, f"{text}: the launch has set it to that of rank 0"))
            elif re.fullmatch(r"os\.environ\['\w+_SOCKET_IFNAME'\]", target):
                text = "sets a network interface that may have another name on each node"
                found.append(
                    (node.lineno, f"{text}: the launch has set that of the training network")
                )
    return [f"{path}:{line}: {text}" for line, text in dict.fromkeys(found)]


def _words(node: ast.AST | None, values: Mapping[str, ast.expr], depth: int = 5) -> str:
    """The words of a command in Python's text, as far as they stand there."""
    match node if depth else None:
        case ast.Constant(value):
            return str(value)
        case ast.List(elts) | ast.Tuple(elts):
            return " ".join(_words(each, values, depth - 1) for each in elts)
        case ast.JoinedStr(parts):
            return "".join(_words(each, values, depth - 1) for each in parts)
        case ast.BinOp(left, ast.Add(), right):
            between = "" if isinstance(left, ast.Constant | ast.JoinedStr) else " "
            return between.join(_words(each, values, depth - 1) for each in (left, right))
        case ast.Name(name):
            return _words(values.get(name), values, depth - 1)
        case ast.Attribute(attr="executable"):
            return "python3"
        case ast.Call(ast.Attribute(inner, "split"), arguments):  # of a text, or of shlex
            return _words(arguments[0] if arguments else inner, values, depth - 1)
    return "x"


def _commands(files: Files, path: str) -> str:
    """The text of a script, line by line, without what is no command of it."""
    content = files.travelling[path].source.read_bytes().decode(errors="replace")
    text = HERE_DOCUMENT.sub(lambda found: "\n" * found[0].count("\n"), content)
    return REMARK.sub("", text)


def _joined(text: str) -> str:
    """A text whose lines a backslash continued; every place stays where it is."""
    return text.replace("\\\n", "  ")


def _unreadable(files: Files, path: str, by: str) -> str | None:
    """Why a script cannot be run.

    Args:
        by: the shell that runs it; empty where it is run as a program.
    """
    content = files.travelling[path].source.read_bytes()
    if content.startswith(LFS_POINTER):
        return "is a pointer of git-lfs, not the file; fetch it: git lfs pull"
    if b"\r\n" in content:
        return (
            "has Windows line endings, which bash cannot read; convert them: "
            f"sed -i 's/\\r$//' {path}"
        )
    if content.startswith(codecs.BOM_UTF8):
        return (
            "begins with a byte order mark, which bash takes for a part of the first command; "
            f"take it out: sed -i '1s/^\\xef\\xbb\\xbf//' {path}"
        )
    asked = INTERPRETER.match(content)
    if asked and asked[1] not in ((b"zsh", b"ksh") if by else (b"perl", b"python3")):
        name = asked[1].decode()
        return f"is written for {name}, " + (
            f"and run with {by}" if by else "which the image comes without"
        )
    if not by and not files.travelling[path].source.stat().st_mode & 0o111:
        return f"is not executable: chmod +x {path}, or run it with bash"
    read = subprocess.run(
        ["bash", "-n", files.travelling[path].source],
        capture_output=True,
        encoding="utf-8",
        errors="replace",  # it repeats words of the script
        check=False,
    )
    if read.returncode:
        said = read.stderr.replace(str(files.travelling[path].source), path).strip()
        return f"bash cannot read it: {said}"
    return None


def _in_script(
    files: Files, path: str, per_rank: bool, seen: set[str], by: str = "bash"
) -> list[str]:
    """Why a shell script cannot go well, and the scripts that it names, which come to `seen`."""
    seen.add(path)
    unreadable = _unreadable(files, path, by)
    if unreadable is not None:
        return [f"{path}: {unreadable}"]
    return _started(files, path, _commands(files, path), per_rank, seen)


def _started(files: Files, path: str, text: str, per_rank: bool, seen: set[str]) -> list[str]:
    """What commands start that starts ranks, and what is wrong with the scripts that they name."""
    words: dict[str, str] = {}
    for name, _, value, word in ASSIGNED.findall(text):
        said = " ".join((value or word).split())
        if re.match(rf"\$\{{?{name}\b", said):
            continue  # it is made longer
        is_launcher = re.match(rf"(?:{LAUNCHERS}|accelerate$)", said, re.VERBOSE)
        # One that is something else at another time may be that.
        words[name] = said if is_launcher and words.get(name) != "" else ""
    words = {name: said for name, said in words.items() if said}
    text = re.sub(r'"?\$\{?(\w+)\}?"?', lambda name: words.get(name[1], name[0]), text)
    problems = []
    joined = _joined(text)
    for found in LAUNCHER.finditer(joined):
        line = text.count("\n", 0, found.end()) + 1
        if found["script"]:
            inner = _find(files, found["script"])
            if inner is not None and inner not in seen:
                problems += _in_script(files, inner, per_rank, seen, found["by"] or "")
        elif found["everywhere"]:
            problems.append(
                f"{path}:{line}: {' '.join(found['everywhere'].split())} starts ranks on all "
                "nodes, which the launch does already: name the program in ENTRY=, and its "
                "arguments in SCRIPT_ARGS="
            )
        elif (options := _of_one_process(files, found["here"], joined[found.end() :])) is not None:
            if not per_rank:
                problems.append(
                    f"{path}:{line}: accelerate launch on CPUs starts one process on each node, "
                    "outside of any world: LAUNCH=rank (the default) runs it as each rank"
                )
            elif SEVERAL.search(options) and "--main_process_ip" not in options:
                problems.append(
                    f"{path}:{line}: accelerate launch sets MASTER_ADDR to what is another machine "
                    "on each node; add --main_process_ip $MASTER_ADDR --main_process_port "
                    "$MASTER_PORT"
                )
        elif per_rank:
            problems.append(
                f"{path}:{line}: {' '.join(found['here'].split())} starts the ranks of a node "
                "itself, but every rank would run it: LAUNCH=node runs it once on each node"
            )
    return problems


def _of_one_process(files: Files, launcher: str, behind: str) -> str | None:
    """What accelerate is told, where that starts one process with the environment that it has.

    Args:
        behind: what follows the launcher in the script.
    """
    options = behind.partition("\n")[0]
    if "accelerate" not in launcher or "--mpirun" in options:
        return None
    named = CONFIG.search(options)
    path = _find(files, named[1]) if named else None
    if path is not None:
        config = files.travelling[path].source.read_text(encoding="utf-8", errors="replace")
        several = re.findall(r"^(num_(?:machines|processes)):[ ]*(\d+)", config, re.MULTILINE)
        if not CONFIG_ON_CPUS.search(config):
            return None
        return options + "".join(f" --{name}={number}" for name, number in several)
    return options if ON_CPUS.search(options) else None


def _find(files: Files, name: str) -> str | None:
    """The file that a script means, which may have changed its directory."""
    path = posixpath.normpath(name).replace("../", "").lstrip("/")
    there = [each for each in files.travelling if f"/{each}".endswith(f"/{path}")]
    if path in there:
        return path
    return there[0] if len(there) == 1 else None
