"""The `yard` command."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from yard import STARTED_AT
from yard.arguments import build_parser
from yard.commands import cluster
from yard.commands.attach import attach
from yard.commands.bench import BATCH, MODELS, bench
from yard.commands.clean_up import clean_up
from yard.commands.doctor import doctor
from yard.commands.execute import execute
from yard.commands.logs import show_logs
from yard.commands.overviews import draw_reports, list_all_runs, list_models
from yard.commands.rerun import rerun
from yard.commands.scaling import scaling
from yard.commands.status import show_status
from yard.commands.stop import stop
from yard.commands.tensorboard import tensorboard
from yard.commands.top import top
from yard.commands.train import train
from yard.commands.verify import verify
from yard.core.console import ForeignTextConsole, without_control
from yard.core.context import Context
from yard.core.errors import Exit, RequestError, YardError
from yard.core.interrupts import Interrupts, quiet_control_keys
from yard.core.project import Project
from yard.core.room import full_disk_told
from yard.operations.adoption import find_or_adopt
from yard.request.own_code import ProjectRequest, misplaced
from yard.request.recipe import read_recipe
from yard.request.training import TrainRequest
from yard.runs.measurements import find_training

# The name of no model: asks for all of them.
LIST = "list"

# What to do where a disk is full and nothing goes on without the command.
AGAIN = ("Make room there, then give the command again.",)

Command = Callable[[Context, argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, see `Exit`."""
    parsed = build_parser().parse_args(arguments)
    # Files and pipes have no width; this one is for tables, sentences are not wrapped there.
    width = None if sys.stdout.isatty() else 200
    console = ForeignTextConsole(highlight=False, width=width, soft_wrap=width is not None)
    command = COMMANDS[parsed.command]
    try:
        project = Project.find(Path.cwd())
        inventory = parsed.inventory or project.root / "inventory" / "local"
        context = Context(project, inventory, console, Interrupts())
        places = [project.root, project.runs, project.state(inventory) / "log"]
        with full_disk_told(places, lambda: AGAIN):
            if not parsed.operates:
                return command(context, parsed)
            with context.interrupts, quiet_control_keys(sys.stdin):
                return command(context, parsed)
    except YardError as error:
        for line in str(error).splitlines():
            # To stderr, and whole: scripts read it.
            text = without_control(line)
            print(f"yard: {text}" if not text.startswith(" ") else text, file=sys.stderr)
        return error.status


def _train(context: Context, options: argparse.Namespace) -> Exit:
    if options.model == LIST:
        return list_models(context)
    problems = misplaced(vars(options), options.code is not None)
    if problems:
        raise RequestError(problems)
    asked = _request(context, options) if options.code is None else _project_request(options)
    request = replace(
        asked,
        name=options.name,
        resume=options.resume,
        retries=options.retries,
    )
    return train(context, request, STARTED_AT)


def _project_request(options: argparse.Namespace) -> ProjectRequest:
    least, most = options.nodes
    return ProjectRequest(
        code=options.code,
        entry=options.entry,
        script_args=options.script_args,
        launch=options.launch,
        grace=options.grace,
        requirements=options.requirements,
        nodes=most,
        min_nodes=None if least == most else least,
        stall=options.stall,
        procs_per_node=options.procs_per_node,
        dataset=options.dataset,
        transport=options.transport,
    )


def _scaling(context: Context, options: argparse.Namespace) -> Exit:
    if options.code is not None:
        raise RequestError(
            [
                "scaling: compares what the trainer measures; of a project of your own, start a "
                "run with NODES=1 and one with more"
            ]
        )
    return scaling(context, _request(context, options), options.hold)


def _request(context: Context, options: argparse.Namespace) -> TrainRequest:
    recipe = read_recipe(context.project, options.recipe) if options.recipe else None
    least, most = options.nodes
    return TrainRequest(
        model=recipe.model if recipe else options.model,
        recipe=recipe,
        nodes=most,
        min_nodes=None if least == most else least,
        stall=options.stall,
        procs_per_node=options.procs_per_node,
        epochs=options.epochs,
        batch=options.batch,
        lr=options.lr,
        dataset=options.dataset,
        precision=options.precision,
        engine=options.engine,
        transport=options.transport,
        train_images=options.train_images,
        checkpoint_seconds=options.checkpoint_seconds,
        options=dict(options.options),
    )


def _bench(context: Context, options: argparse.Namespace) -> Exit:
    models = tuple(options.models.split(",")) if options.models else MODELS
    request = TrainRequest(
        model=models[0],
        nodes=options.nodes,
        procs_per_node=options.procs_per_node,
        batch=options.batch if options.batch is not None else BATCH,
        transport=options.transport,
    )
    return bench(context, request, models, options.rounds, options.seconds)


def _logs(context: Context, options: argparse.Namespace) -> Exit:
    run = find_training(context.project, options.run)
    return show_logs(context, run, options.rank, options.follow)


def _names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name for part in text.split(",") if (name := part.strip())]


COMMANDS: Mapping[str, Command] = {
    "attach": lambda context, options: attach(context, find_or_adopt(context, options.run)),
    "bench": _bench,
    "clean-up": lambda context, options: clean_up(context, options.days, options.yes),
    "data": lambda context, options: cluster.data(
        context, options.dataset, options.source, options.name, options.sha256
    ),
    "doctor": lambda context, options: doctor(context, _names(options.on), options.json),
    "exec": lambda context, options: execute(
        context, options.shell_command, _names(options.on), options.seconds
    ),
    "local-down": lambda context, options: cluster.local_down(context),
    "local-up": lambda context, options: cluster.local_up(context, options.nodes),
    "logs": _logs,
    "rerun": lambda context, options: rerun(
        context, find_training(context.project, options.run), STARTED_AT
    ),
    "report": lambda context, options: draw_reports(context, _names(options.runs)),
    "runs": lambda context, options: list_all_runs(context),
    "scaling": _scaling,
    "setup": lambda context, options: cluster.setup(context, options.nodes),
    "status": lambda context, options: show_status(context, options.json),
    "stop": lambda context, options: stop(context, options.run),
    "tensorboard": lambda context, options: tensorboard(context, options.port),
    "top": lambda context, options: top(context),
    "train": _train,
    "verify": lambda context, options: verify(context, _names(options.checks)),
}
