"""The `yard` command."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from yard import STARTED_AT, __version__
from yard.attach import attach
from yard.bench import BATCH, MODELS, bench
from yard.context import Context
from yard.errors import Exit, YardError
from yard.execute import execute
from yard.interrupt import Interrupts, quiet_control_keys
from yard.inventory import read_inventory
from yard.job import find_job, find_training, stop_job
from yard.listing import show_models, show_runs
from yard.logs import show_logs
from yard.project import Project
from yard.recipe import read_recipe
from yard.request import (
    TrainRequest,
    check_dataset,
    check_nodes,
    parse_nodes,
    parse_option,
    parse_train_images,
)
from yard.run import list_runs
from yard.scaling import HOLD, RANK_BATCH, scaling
from yard.setup import forget_setup, put_dataset, run_operation, run_setup
from yard.status import show_status
from yard.tensorboard import PORT, tensorboard
from yard.train import stop, train
from yard.verify import PARTS, verify

EPILOG = """exit status: 0 done, 1 the run failed (with a diagnosis), 2 the request makes no sense,
3 the cluster is not fit, 130 interrupted (run stopped, logs collected)"""

# The name of no model: asks for all of them.
LIST = "list"

Command = Callable[[Context, argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, see `Exit`."""
    parsed = build_parser().parse_args(arguments)
    # Files and pipes have no width; this one is for tables, sentences are not wrapped there.
    width = None if sys.stdout.isatty() else 200
    console = Console(highlight=False, width=width, soft_wrap=width is not None)
    command: Command = parsed.command
    try:
        project = Project.find(Path.cwd())
        inventory = parsed.inventory or project.root / "inventory" / "local"
        context = Context(project, inventory, console, Interrupts())
        if not parsed.operates:
            return command(context, parsed)
        with context.interrupts, quiet_control_keys(sys.stdin):
            return command(context, parsed)
    except YardError as error:
        for line in str(error).splitlines():
            # To stderr, and whole: scripts read it.
            print(f"yard: {line}" if not line.startswith(" ") else line, file=sys.stderr)
        return error.status


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="yard",
        description="Run distributed training on the machines of an inventory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"yard {__version__}")
    parser.add_argument(
        "--inventory", type=Path, metavar="PATH", help="default: inventory/local of the checkout"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_train(commands)
    _add_scaling(commands)

    command = _add(commands, "setup", _setup, "prepare the machines (site.yml)", operates=True)
    command.add_argument("--nodes", type=int, metavar="N", help="size of a local cluster")

    command = _add(commands, "data", _data, "put a data set on the nodes", operates=True)
    command.add_argument("dataset", metavar="DATASET")
    command.add_argument("--source", metavar="PATH|URL", help="take it from here")

    command = _add(commands, "verify", _verify, "a verdict on the cluster", operates=True)
    command.add_argument(
        "--checks",
        default="",
        metavar="NAME,...",
        help=f"only these, of {', '.join(PARTS)}",
    )
    command = _add(commands, "exec", _exec, "run a command on the nodes", operates=True)
    command.add_argument("shell_command", metavar="COMMAND", help="for /bin/sh -c, as it is")
    command.add_argument("--on", default="", metavar="HOST,...", help="only there")
    command.add_argument("--seconds", type=int, default=60, metavar="S", help="time limit")
    command.epilog = (
        "exit status: the largest of all nodes; 124 for a node where the time was up, "
        "255 for one that cannot be reached"
    )

    command = _add(
        commands, "bench", _bench, "matrix products, allreduce, ways to train", operates=True
    )
    command.add_argument("--models", metavar="NAME,...", help="some of training_models")
    command.add_argument("--nodes", type=int, default=2, metavar="N", help="machines")
    command.add_argument("--procs-per-node", type=int, metavar="N", help="ranks on each machine")
    command.add_argument("--batch", type=int, metavar="N", help="images of one rank in one step")
    command.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of everything")
    command.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="of a turn of training, about"
    )
    command.add_argument("--transport", help="how the ranks talk to each other")

    _add(commands, "runs", _runs, "the table of runs")
    _add(commands, "status", _status, "what runs on which node", operates=True)
    command = _add(
        commands, "logs", _logs, "the logs of a run, tagged by rank and host", operates=True
    )
    _add_run(command)
    command.add_argument("--rank", type=int, metavar="R", help="of this rank alone")
    command.add_argument("--follow", action="store_true", help="go on until the run ends")
    command = _add(
        commands, "attach", _attach, "go on with a run whose yard is gone", operates=True
    )
    _add_run(command)
    command = _add(commands, "report", _report, "draw the report of a run, or compare several")
    command.add_argument(
        "runs", metavar="RUN[,RUN...]", help="ids, or beginnings that fit one run each, or `latest`"
    )
    command = _add(
        commands, "tensorboard", _tensorboard, "serve the runs' events to a browser here"
    )
    command.add_argument("--port", type=int, default=PORT, metavar="N")
    command = _add(commands, "stop", _stop, "end a run and collect its logs", operates=True)
    _add_run(command)

    command = _add(commands, "local-up", _local_up, "make the local cluster", operates=True)
    command.add_argument("--nodes", type=int, metavar="N", help="how many")
    _add(commands, "local-down", _local_down, "remove the local cluster", operates=True)
    return parser


def _add(
    commands: Any,
    name: str,
    command: Command,
    text: str,
    operates: bool = False,
) -> argparse.ArgumentParser:
    """Add a command; one that operates on machines ends its work before it obeys a Ctrl-C."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    parser.set_defaults(command=command, operates=operates)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or `latest`")


def _add_train(commands: Any) -> None:
    parser = _add(commands, "train", _train, "train a model on several nodes", operates=True)
    _add_request(parser)
    parser.add_argument("--resume", metavar="RUN", help="go on from the checkpoints of this run")
    parser.add_argument(
        "--retries",
        type=int,
        default=0,
        metavar="N",
        help="start a failed run again up to N times, from its newest checkpoint",
    )
    parser.add_argument("--name", help="a name for people; it stands in the table of runs")


def _add_scaling(commands: Any) -> None:
    text = "the same job on one node and on several: speed-up and efficiency"
    parser = _add(commands, "scaling", _scaling, text, operates=True)
    _add_request(parser)
    parser.add_argument(
        "--hold",
        choices=HOLD,
        default=RANK_BATCH,
        help="what is the same: the images of a rank in a step (the global batch grows with the "
        "nodes), or those of all ranks; default: rank-batch",
    )


def _add_request(parser: argparse.ArgumentParser) -> None:
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--model", help="one of training_models, or `list` to see them")
    wanted.add_argument("--recipe", metavar="NAME", help="a whole training, from trainer/recipes")
    parser.add_argument(
        "--nodes",
        type=_argument(parse_nodes, "a number, or the least and the most like 2..4"),
        default=(None, None),
        metavar="N|N..M",
        help="machines; with 2..4 as many as are fit, and at least 2",
    )
    parser.add_argument("--procs-per-node", type=int, metavar="N", help="ranks on each machine")
    parser.epilog = (
        "What is not given here comes from the model's entry in training_models (group_vars/), "
        "else from the inventory's training_run_* variables; nodes and ranks on each are else 1."
    )
    parser.add_argument("--epochs", type=int, metavar="N")
    parser.add_argument("--batch", type=int, metavar="N", help="images of one rank in one step")
    parser.add_argument("--lr", type=float, metavar="RATE", help="peak rate of the whole job")
    parser.add_argument("--dataset", help="one of training_datasets")
    parser.add_argument("--precision", help="number format of the forward and backward pass")
    parser.add_argument("--engine", help="what exchanges the gradients")
    parser.add_argument("--transport", help="how the ranks talk to each other")
    parser.add_argument(
        "--train-images",
        type=_argument(parse_train_images, "a number, or `all`"),
        metavar="N|all",
        help="train on this many images of the training set",
    )
    parser.add_argument(
        "--stall",
        type=int,
        metavar="SECONDS",
        help="without a step for so long a run counts as hanging and is ended; 0: never",
    )
    parser.add_argument(
        "--set",
        dest="options",
        action="append",
        default=[],
        type=_argument(lambda text: parse_option(text, yaml.safe_load), "key=value"),
        metavar="KEY=VALUE",
        help="any further key of the trainer's configuration, like seed=2; may be repeated",
    )


def _argument(parse: Callable[[str], Any], wanted: str) -> Callable[[str], Any]:
    """Give argparse a type whose error says what was wanted."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from error

    return convert


def _train(context: Context, asked: argparse.Namespace) -> Exit:
    if asked.model == LIST:
        show_models(context.console, read_inventory(context.project, context.inventory).models)
        return Exit.DONE
    request = _request(context, asked, asked.name)
    again = replace(request, resume=asked.resume, retries=asked.retries)
    return train(context, again, STARTED_AT)


def _scaling(context: Context, asked: argparse.Namespace) -> Exit:
    return scaling(context, _request(context, asked, None), asked.hold)


def _request(context: Context, asked: argparse.Namespace, name: str | None) -> TrainRequest:
    recipe = read_recipe(context.project, asked.recipe) if asked.recipe else None
    least, most = asked.nodes
    return TrainRequest(
        model=recipe.model if recipe else asked.model,
        recipe=recipe,
        nodes=most,
        min_nodes=None if least == most else least,
        stall=asked.stall,
        procs_per_node=asked.procs_per_node,
        epochs=asked.epochs,
        batch=asked.batch,
        lr=asked.lr,
        dataset=asked.dataset,
        precision=asked.precision,
        engine=asked.engine,
        transport=asked.transport,
        name=name,
        train_images=asked.train_images,
        options=dict(asked.options),
    )


def _bench(context: Context, asked: argparse.Namespace) -> Exit:
    models = tuple(asked.models.split(",")) if asked.models else MODELS
    request = TrainRequest(
        model=models[0],
        nodes=asked.nodes,
        procs_per_node=asked.procs_per_node,
        batch=asked.batch if asked.batch is not None else BATCH,
        transport=asked.transport,
    )
    return bench(context, request, models, asked.rounds, asked.seconds)


def _setup(context: Context, asked: argparse.Namespace) -> Exit:
    inventory = read_inventory(context.project, context.inventory)
    check_nodes(asked.nodes, inventory)
    run_setup(context, inventory, asked.nodes)
    return Exit.DONE


def _data(context: Context, asked: argparse.Namespace) -> Exit:
    inventory = read_inventory(context.project, context.inventory)
    check_dataset(asked.dataset, inventory)
    put_dataset(context, inventory, asked.dataset, asked.source)
    return Exit.DONE


def _verify(context: Context, asked: argparse.Namespace) -> Exit:
    return verify(context, _names(asked.checks))


def _exec(context: Context, asked: argparse.Namespace) -> int:
    return execute(context, asked.shell_command, _names(asked.on), asked.seconds)


def _names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def _runs(context: Context, asked: argparse.Namespace) -> Exit:
    from yard.index import write_index

    show_runs(context.console, list_runs(context.project.runs))
    if context.project.runs.is_dir():
        shown = context.project.shown(write_index(context.project.runs))
        context.console.print(f"\n[dim]as a page: {escape(shown)}[/]", soft_wrap=True)
    return Exit.DONE


def _logs(context: Context, asked: argparse.Namespace) -> Exit:
    run = find_training(context.project, asked.run)
    show_logs(context, run, asked.rank, asked.follow)
    return Exit.DONE


def _status(context: Context, asked: argparse.Namespace) -> Exit:
    show_status(context)
    return Exit.DONE


def _attach(context: Context, asked: argparse.Namespace) -> Exit:
    return attach(context, find_training(context.project, asked.run))


def _report(context: Context, asked: argparse.Namespace) -> Exit:
    from yard.comparison import write_comparison
    from yard.report import write_report

    runs = context.project.runs
    chosen = [find_training(context.project, name.strip()) for name in asked.runs.split(",")]
    path = write_report(chosen[0]) if len(chosen) == 1 else write_comparison(runs, chosen)
    context.console.print(escape(context.project.shown(path)), soft_wrap=True)
    return Exit.DONE


def _tensorboard(context: Context, asked: argparse.Namespace) -> Exit:
    return tensorboard(context, asked.port)


def _stop(context: Context, asked: argparse.Namespace) -> Exit:
    job = find_job(context.project, asked.run)
    if job is not None:
        return stop_job(context, *job)
    return stop(context, find_training(context.project, asked.run))


def _local_up(context: Context, asked: argparse.Namespace) -> Exit:
    inventory = read_inventory(context.project, context.inventory)
    check_nodes(asked.nodes, inventory)
    # The nodes may be new ones: what set-up has put on the old says nothing about them.
    forget_setup(context.project, inventory)
    extravars = {} if asked.nodes is None else {"local_cluster_size": asked.nodes}
    run_operation(context, context.project.playbook("local_up"), "local_up", extravars)
    return Exit.DONE


def _local_down(context: Context, asked: argparse.Namespace) -> Exit:
    forget_setup(context.project, read_inventory(context.project, context.inventory))
    run_operation(context, context.project.playbook("local_down"), "local_down", {})
    return Exit.DONE
