"""The command line of `yard`: its commands and their options."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from yard import __version__, completion
from yard.code.settings import PER
from yard.core.command_line import CommandLine
from yard.plays.contract import CHECK_PARTS, RELEASES
from yard.request.job import AS_EACH_HAS
from yard.request.notebook_defaults import IDLE_MINUTES, NOTEBOOKS
from yard.request.parse import as_number, number_or, parse_nodes, parse_option
from yard.request.training import ALL_IMAGES, AUTO, HOLD, OPTIONS, RANK_BATCH

# Where TensorBoard listens, as its own documents have it.
TENSORBOARD_PORT = 6006
WEB_PORT = 8642
EPILOG = """exit status: 0 done, 1 the run failed (with a diagnosis), 2 the request is
invalid, 3 the cluster is not fit, 130 interrupted (run stopped, logs collected)"""


def build_parser() -> argparse.ArgumentParser:
    parser = CommandLine(
        prog="yard",
        description="Run distributed training on the machines of an inventory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"yard {__version__}")
    text = "default: inventory/local of the checkout"
    parser.add_argument("--inventory", type=Path, metavar="PATH", help=text)
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", dest="command"
    )
    _add_train(commands)
    _add_scaling(commands)
    _add_notebook(commands)

    command = _add(commands, "setup", "prepare the machines (site.yml)", operates=True)
    command.add_argument("--nodes", type=int, metavar="N", help="size of a local cluster")

    command = _add(commands, "data", "put a data set on the nodes", operates=True)
    text = "one of training_datasets"
    dataset = command.add_argument("dataset", nargs="?", metavar="DATASET", help=text)
    _completed(dataset, completion.datasets)
    text = (
        "an archive to take it from, for imagenet a folder; for data of your own, a folder, an "
        "archive, another file or an HTTP address"
    )
    command.add_argument("--source", metavar="PATH|URL", help=text)
    command.add_argument("--name", help="the name of data of your own, in place of DATASET")
    command.add_argument(
        "--sha256", metavar="DIGITS", help="checksum that the archive or file must have"
    )

    text = "write all that a site without a network needs to one file"
    command = _add(commands, "bundle", text, operates=True)
    command.add_argument(
        "--releases",
        type=_names,
        default=",".join(RELEASES),
        metavar="NAME,...",
        help="Debian releases of the machines there (default: %(default)s)",
    )
    command.add_argument(
        "--datasets",
        type=_names,
        default="cifar10",
        metavar="NAME,...",
        help="of training_datasets, or none (default: %(default)s)",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("trainyard-bundle.tar"),
        metavar="FILE",
        help="default: %(default)s",
    )

    command = _add(commands, "verify", "a verdict on the cluster", operates=True)
    text = f"only these, of {', '.join(CHECK_PARTS)}"
    command.add_argument("--checks", type=_names, default="", metavar="NAME,...", help=text)
    _add_on(command, "only these nodes or groups")
    text = "look at this machine and every host before set-up"
    command = _add(commands, "doctor", text, operates=True)
    _add_on(command, "only these hosts")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(locale="")  # what `main` finds
    text = "take from the machines what set-up put there, after a question"
    command = _add(commands, "remove", text, operates=True)
    _add_on(command, "only from these nodes")
    command.add_argument("--data", action="store_true", help="data sets too")
    command.add_argument("--yes", action="store_true", help="the answer to the question")
    _add(commands, "rotate-keys", "give the nodes new keys for each other", operates=True)
    command = _add(commands, "exec", "run a command on the nodes", operates=True)
    command.add_argument("shell_command", metavar="COMMAND", help="given to /bin/sh -c unchanged")
    _add_on(command, "only these nodes or groups")
    command.add_argument("--seconds", type=int, default=60, metavar="S", help="time limit")
    command.epilog = (
        "exit status: the largest of all nodes; 124 for a node where the time was up, "
        "255 for one that cannot be reached"
    )

    command = _add(
        commands,
        "bench",
        "measure matrix products, allreduce, and every way to train",
        operates=True,
    )
    models = command.add_argument("--models", metavar="NAME,...", help="some of training_models")
    _completed(models, completion.several(completion.models))
    command.add_argument("--nodes", type=int, default=2, metavar="N", help="machines")
    command.add_argument("--procs-per-node", type=int, metavar="N", help="ranks on each machine")
    command.add_argument("--batch", type=int, metavar="N", help="images per rank and step")
    command.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="turns of each measurement"
    )
    text = "approximate length of a turn of training"
    command.add_argument("--seconds", type=float, default=5.0, metavar="S", help=text)
    command.add_argument("--transport", help="how the ranks talk to each other")

    command = _add(commands, "runs", "the table of runs")
    form = command.add_mutually_exclusive_group()
    for name in ("json", "csv"):
        text = f"print them as {name.upper()}, with all that a run was asked for"
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    text = "only runs that have all these words: in id, name, result, tags, owner, cause, arguments"
    command.add_argument("--find", default="", metavar="'WORD ...'", help=text)
    command.add_argument("--last", type=int, metavar="N", help="only the newest N of these")
    command = _add(commands, "tag", "give a run tags to find it by, and a note")
    _add_run(command)
    command.add_argument("--tags", metavar="TAG,...", help="in place of those it has; '' for none")
    command.add_argument("--note", metavar="TEXT", help="in place of what it has; '' for none")
    command = _add(commands, "status", "what runs on which node, and how busy it is", operates=True)
    command.add_argument("--json", action="store_true", help="print one JSON document")
    _add(commands, "top", "nodes and runs on the whole screen, every two seconds", operates=True)
    command = _add(commands, "logs", "the logs of a run, tagged by rank and host", operates=True)
    _add_run(command)
    command.add_argument("--rank", type=int, metavar="R", help="of this rank alone")
    command.add_argument("--follow", action="store_true", help="go on until the run ends")
    command = _add(commands, "attach", "reconnect to a running job", operates=True)
    _add_run(command)
    text = "launch a run again, from its own copy of the code"
    command = _add(commands, "rerun", text, operates=True)
    _add_run(command)
    command = _add(commands, "report", "draw the report of a run, or compare several")
    text = "names, ids, unique parts of ids, or `latest` (default)"
    compared = command.add_argument(
        "runs", nargs="?", type=_names, default="latest", metavar="RUN[,RUN...]", help=text
    )
    _completed(compared, completion.several(completion.runs))
    text = "write the weights of a run as a file for plain PyTorch"
    command = _add_checkpoint(commands, "export", text)
    text = ".pt, .pth or .safetensors"
    command.add_argument("--to", type=Path, required=True, metavar="FILE", help=text)
    command = _add_checkpoint(commands, "evaluate", "test the model of a run, on this machine")
    command.add_argument("--dataset", help="one of training_datasets (default: the run's)")
    text = "share the images of the test set among so many machines (default: this one alone)"
    command.add_argument("--nodes", type=int, metavar="N", help=text)
    command = _add_checkpoint(commands, "predict", "classify images with a run's model")
    text = "with image files, here"
    command.add_argument("--source", type=Path, required=True, metavar="FOLDER", help=text)
    command = _add(commands, "tensorboard", "serve the runs' events to a browser here")
    command.add_argument("--port", type=int, default=TENSORBOARD_PORT, metavar="N")
    command = _add(commands, "web", "serve a page for everybody, on this machine's loopback")
    text = "default: %(default)s"
    command.add_argument("--port", type=int, default=WEB_PORT, metavar="N", help=text)
    text = "a UNIX socket in place of the port, for a proxy that authenticates users"
    command.add_argument("--socket", type=Path, metavar="FILE", help=text)
    text = "host names of the server beside localhost, such as the proxy's"
    command.add_argument("--names", type=_names, default="", metavar="HOST,...", help=text)
    command.add_argument(
        "--read-only", action="store_true", help="view only: no stop, rerun, delete or tags"
    )
    text = "nodes, GPUs and runs as metrics for Prometheus"
    command = _add(commands, "metrics", text, operates=True)
    text = "for node_exporter's textfile collector (default: print it)"
    command.add_argument("--out", type=Path, metavar="FILE.prom", help=text)
    command = _add(commands, "stop", "end a run and collect its logs", operates=True)
    _add_run(command)

    _add_rent(commands)

    command = _add(commands, "local-up", "make the local cluster", operates=True)
    command.add_argument("--nodes", type=int, metavar="N", help="how many")
    _add(commands, "local-down", "remove the local cluster", operates=True)
    text = "list what nothing needs any more, on the nodes and here, and remove it with --yes"
    command = _add(commands, "clean-up", text, operates=True)
    text = "delete this run alone, after a question"
    _completed(command.add_argument("run", metavar="RUN", nargs="?", help=text), completion.runs)
    text = "remove runs too that ended more than N days ago"
    command.add_argument("--days", type=int, metavar="N", help=text)
    command.add_argument("--yes", action="store_true", help="remove it without a question")
    return parser


def _add_rent(commands: Any) -> None:
    command = _add(commands, "provision", "rent machines, after a question", operates=True)
    command.add_argument("site", type=Path, metavar="SITE", help="a site file")
    text = "how many machines the site has in the end"
    command.add_argument("--count", type=int, required=True, metavar="N", help=text)
    text = "until the deadline of all of them, from now on"
    command.add_argument("--hours", type=float, metavar="H", help=text)
    command.add_argument("--yes", action="store_true", help="answer the question")
    command = _add(commands, "destroy", "give rented machines back", operates=True)
    command.add_argument("site", type=Path, metavar="SITE", help="a site file")
    command.add_argument("--yes", action="store_true", help="answer the question")
    text = "name rented machines that are past their deadline"
    command = _add(commands, "provision-check", text, operates=True)
    text = "a site file (default: all of sites/)"
    command.add_argument("site", type=Path, nargs="?", metavar="SITE", help=text)
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _add(commands: Any, name: str, text: str, operates: bool = False) -> argparse.ArgumentParser:
    """Add a command; one that operates on machines ends its work before it obeys a Ctrl-C."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    parser.set_defaults(operates=operates)
    return parser


def _completed(action: argparse.Action, names: Callable[..., list[str]]) -> None:
    action.completer = names  # type: ignore[attr-defined]


def _add_checkpoint(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command = _add(commands, name, text, operates=True)
    _add_run(command)
    text = "default: %(default)s"
    command.add_argument("--which", choices=("best", "last"), default="best", help=text)
    return command


def _add_on(parser: argparse.ArgumentParser, text: str) -> None:
    on = parser.add_argument("--on", type=_names, default="", metavar="HOST,...", help=text)
    _completed(on, completion.several(completion.hosts))


def _add_run(parser: argparse.ArgumentParser) -> None:
    text = "its name, its id, a unique part of that, or `latest` (default)"
    run = parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help=text)
    _completed(run, completion.runs)


def _add_train(commands: Any) -> None:
    parser = _add(commands, "train", "train a model on several nodes", operates=True)
    _add_request(parser)
    text = "go on from the checkpoints of this run"
    _completed(parser.add_argument("--resume", metavar="RUN", help=text), completion.runs)
    text = "start a failed run again up to N times, from its newest checkpoint"
    parser.add_argument("--retries", type=int, default=0, metavar="N", help=text)
    parser.add_argument("--name", help="a name for the run, by which commands find it")
    _add_on(parser, "only on these nodes or groups (default of --nodes: all of them)")
    text = "wait for nodes that other runs have"
    parser.add_argument("--wait", action="store_true", help=text)
    text = "leave the run to the background once it has its nodes"
    parser.add_argument("--detach", action="store_true", help=text)
    text = "train with N seeds: mean and standard deviation"
    parser.add_argument("--seeds", type=int, metavar="N", help=text)
    text = "train every combination, one after the other, like 'lr=1e-3,3e-4 batch=32,64'"
    parser.add_argument("--sweep", metavar="'KEY=VALUE,VALUE ...'", help=text)
    project = parser.add_argument_group("of a project of your own, with --code")
    text = "what to run: a .py or .sh file of the project, or a module"
    project.add_argument("--entry", metavar="FILE|'-m MODULE'", help=text)
    text = "arguments of the program, as in a shell's line"
    project.add_argument("--script-args", metavar="TEXT", help=text)
    text = "start the program once per rank (default), or once per node, as for torchrun"
    project.add_argument("--launch", choices=PER, help=text)
    text = (
        "the file of the project that says which packages it requires (default: its "
        "requirements.txt, or the dependencies of its pyproject.toml)"
    )
    project.add_argument("--requirements", metavar="FILE|none", help=text)
    text = "from SIGTERM to SIGKILL when a run is ended"
    project.add_argument("--grace", type=int, metavar="SECONDS", help=text)


def _add_notebook(commands: Any) -> None:
    parser = _add(
        commands, "notebook", "Jupyter Lab on a node, and a connection to it", operates=True
    )
    text = "the machine, by its name in the inventory"
    _completed(parser.add_argument("node", metavar="NODE", help=text), completion.hosts)
    text = f"whose files the notebook works on (default: {NOTEBOOKS}/NODE)"
    parser.add_argument("--code", default="", metavar="FOLDER", help=text)
    text = "one of training_datasets or of `yard data`, or a folder of the node"
    parser.add_argument("--dataset", help=text)
    text = "take N free GPUs of the machine, beside other runs (default: the whole machine)"
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help=text)
    text = "the file of the folder that says which packages it requires beside Jupyter Lab"
    parser.add_argument("--requirements", metavar="FILE|none", help=text)
    text = f"without use until it ends by itself; 0: never (default: {IDLE_MINUTES})"
    parser.add_argument("--idle", type=int, default=IDLE_MINUTES, metavar="MINUTES", help=text)
    parser.epilog = (
        "Prints an address of this machine and keeps the connection to the node open. Ctrl-C "
        "closes the connection, and the notebook keeps running: the same command comes back to "
        "it. `yard stop` ends it and brings its files home; so does this command when the "
        "notebook has ended."
    )


def _add_scaling(commands: Any) -> None:
    text = "the same job on one node and on several: speed-up and efficiency"
    parser = _add(commands, "scaling", text, operates=True)
    _add_request(parser)
    _add_on(parser, "only on these nodes or groups")
    text = (
        "what is the same: the images of a rank in a step (the global batch grows with the "
        "nodes), or those of all ranks; default: rank-batch"
    )
    parser.add_argument("--hold", choices=HOLD, default=RANK_BATCH, help=text)
    text = "how often each is trained, in turns; default: 2"
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help=text)


def _add_request(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    text = "one of training_models, or `list` to see them"
    _completed(what.add_argument("--model", help=text), completion.models)
    text = "a whole training, from trainer/recipes"
    _completed(what.add_argument("--recipe", metavar="NAME", help=text), completion.recipes)
    text = "a project of your own, with a program (default: this folder, if it has one)"
    what.add_argument("--code", metavar="FOLDER", help=text)
    parser.add_argument(
        "--nodes",
        type=_argument(parse_nodes, "a number, or the least and the most like 2..4"),
        default=(None, None),
        metavar="N|N..M",
        help="machines; with 2..4 as many as are fit, and at least 2",
    )
    text = "take N free GPUs of each machine, beside other runs (default: whole machines)"
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help=text)
    parser.add_argument(
        "--procs-per-node",
        type=_argument(partial(number_or, AS_EACH_HAS), "a number, or `node`"),
        metavar="N|node",
        help="ranks on each machine; node: as many as the machine has GPUs, or its "
        "training_node_slots",
    )
    parser.epilog = (
        "Defaults are those of the model's entry in training_models (group_vars/), then the "
        "inventory's training_run_* variables, then one node with one rank."
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the training images")
    parser.add_argument("--batch", type=int, metavar="N", help="images per rank and step")
    parser.add_argument(
        "--lr", type=float, metavar="RATE", help="peak learning rate of the whole job"
    )
    text = "one of training_datasets; with --code also of `yard data`, or a folder of the nodes"
    dataset = parser.add_argument("--dataset", help=text)
    _completed(dataset, completion.datasets)
    parser.add_argument("--precision", help="number format of the forward and backward pass")
    parser.add_argument("--engine", help="what exchanges the gradients")
    parser.add_argument("--transport", help="how the ranks talk to each other")
    parser.add_argument(
        "--train-images",
        type=_argument(partial(number_or, ALL_IMAGES), "a number, or `all`"),
        metavar="N|all",
        help="train on this many images of the training set",
    )
    parser.add_argument(
        "--checkpoint-seconds",
        type=_argument(partial(number_or, AUTO), "a number, or `auto`"),
        metavar="SECONDS|auto",
        help="time between checkpoints within an epoch; 0: only after epochs; auto: the interval "
        "that loses the least time",
    )
    text = (
        "begin from the best parameters of a run, or from a file of this machine: a "
        "state_dict or safetensors"
    )
    parser.add_argument("--weights", metavar="RUN|FILE", help=text)
    text = "end a run that makes no step for so long; 0: never"
    parser.add_argument("--stall", type=int, metavar="SECONDS", help=text)
    parser.add_argument(
        "--set",
        dest="options",
        action="append",
        default=[],
        type=_argument(partial(parse_option, load=_value), "key=value"),
        metavar="KEY=VALUE",
        help="any further key of the trainer's configuration, like ema=0.999; may be repeated",
    )
    for flag, name in OPTIONS.items():
        # As if it had been given with --set.
        parser.add_argument(
            flag,
            dest="options",
            action="append",
            type=_argument(partial(_named_option, name), "a value"),
            metavar="VALUE",
            help=f"the same as --set {name}=",
        )


def _named_option(name: str, text: str) -> tuple[str, Any]:
    return parse_option(f"{name}={text}", _value)


def _value(text: str) -> Any:
    try:
        return as_number(yaml.safe_load(text))
    except yaml.YAMLError:
        return text


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _argument(parse: Callable[[str], Any], form: str) -> Callable[[str], Any]:
    """Give argparse a type whose error says what it should be."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not {form}") from error

    return convert
