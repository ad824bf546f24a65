"""The `yard` command."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yard import STARTED_AT
from yard.arguments import build_parser
from yard.completion import is_asked
from yard.core.console import ForeignTextConsole, without_control
from yard.core.context import Context
from yard.core.errors import Exit, RequestError, YardError
from yard.core.interrupts import Interrupts, quiet_control_keys
from yard.core.locales import have_utf8
from yard.core.project import Project
from yard.core.room import check_writable, full_disk_told
from yard.core.typed import COMMANDS as TYPED
from yard.core.typed import as_typed
from yard.core.unheard import ENGINE, forget_settings, other_engine

if TYPE_CHECKING:
    from yard.request.own_code import ProjectRequest
    from yard.request.training import TrainRequest

# A command is imported where it is called: to import all of them takes longer than most of them.

# The name of no model: asks for all of them.
LIST = "list"

# What to do where a disk is full and nothing goes on without the command.
AGAIN = ("Make room there, then give the command again.",)

Command = Callable[[Context, argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, see `Exit`."""
    parser = build_parser()
    if is_asked():
        import argcomplete

        argcomplete.autocomplete(parser)
    parsed = parser.parse_args(arguments)
    engine = other_engine()
    forget_settings()
    if engine and parsed.operates:
        print(f"yard: {engine} is ignored: commands use the engine at {ENGINE}", file=sys.stderr)
    parsed.locale = have_utf8()
    # Files and pipes have no width; this one is for tables, sentences are not wrapped there.
    width = None if sys.stdout.isatty() else 200
    console = ForeignTextConsole(highlight=False, width=width, soft_wrap=width is not None)
    command = COMMANDS[parsed.command]
    project = None
    try:
        project = Project.find(Path.cwd())
        inventory = project.inventory(parsed.inventory)
        context = Context(project, inventory, console, Interrupts())
        if parsed.command not in READ_ONLY:
            check_writable(project.root)
        places = [project.root, project.runs, project.logs(inventory)]
        with full_disk_told(places, lambda: AGAIN):
            if not parsed.operates:
                return command(context, parsed)
            with context.interrupts, quiet_control_keys(sys.stdin):
                return command(context, parsed)
    except YardError as error:
        from yard.plays.remedy import reaching

        for line in str(error).splitlines():
            # To stderr, and whole: scripts read it.
            told = line if project is None else reaching(line, project, inventory)
            text = without_control(as_typed(told))
            print(f"yard: {text}" if not text.startswith(" ") else text, file=sys.stderr)
        return error.status


def _train(context: Context, options: argparse.Namespace) -> Exit:
    if options.model == LIST:
        from yard.commands.overviews import list_models

        return list_models(context)
    from yard.commands.train import train
    from yard.operations.beside import DETACHED, detach
    from yard.request.own_code import misplaced
    from yard.request.training import TrainRequest

    if (options.model, options.recipe, options.code) == (None, None, None):
        options.code = _program_here(context.project, options.entry)
    problems = misplaced(vars(options), options.code is not None)
    if problems:
        raise RequestError(*problems)
    # What this starts in turn (NOTIFY=) is not the one in the background.
    if options.detach and os.environ.pop(DETACHED, None) is None:
        return detach(context, *sys.argv[1:])
    asked = _request(context, options) if options.code is None else _project_request(options)
    request = replace(
        asked,
        name=options.name,
        resume=options.resume,
        retries=options.retries,
        on=options.on,
    )
    if isinstance(request, TrainRequest) and (options.seeds is not None or options.sweep):
        from yard.commands.series import train_series

        return train_series(context, request, options.sweep or "", options.seeds or 1, options.wait)
    return train(context, request, STARTED_AT, options.wait)


def _program_here(project: Project, entry: str | None) -> str:
    """The folder that the command is given in, where that is a program of the user's own."""
    from yard.code.program import ENTRIES
    from yard.code.settings import NAME

    here = Path.cwd()
    if here.is_relative_to(project.root) or not (
        entry or any((here / name).exists() for name in (NAME, *ENTRIES))
    ):
        raise RequestError(
            "name what to train: MODEL=vit, RECIPE=cnn_b_cifar10 or CODE=folder; MODEL=list "
            "has all models"
        )
    return str(here)


def _project_request(options: argparse.Namespace) -> "ProjectRequest":
    from yard.request.own_code import ProjectRequest

    names = ("code", "entry", "script_args", "launch", "grace", "requirements")
    return ProjectRequest(**_taken(options, *names))


def _taken(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that every request takes, and those of these names."""
    least, most = options.nodes
    common = ("stall", "gpus_per_node", "procs_per_node", "dataset", "transport")
    taken = {name: getattr(options, name) for name in (*common, *names)}
    return {**taken, "nodes": most, "min_nodes": None if least == most else least}


def _scaling(context: Context, options: argparse.Namespace) -> Exit:
    from yard.commands.scaling import scaling

    if options.model is None and options.recipe is None:
        raise RequestError(
            "scaling: name what to train: MODEL=vit or RECIPE=cnn_b_cifar10; of a program of your "
            "own, start a run with NODES=1 and one with more"
        )
    request = replace(_request(context, options), on=options.on)
    return scaling(context, request, options.hold, options.rounds)


def _request(context: Context, options: argparse.Namespace) -> "TrainRequest":
    from yard.request.recipe import read_recipe
    from yard.request.training import TrainRequest

    recipe = read_recipe(context.project, options.recipe) if options.recipe else None
    names = ("epochs", "batch", "lr", "precision", "engine", "train_images", "weights")
    return TrainRequest(
        model=recipe.model if recipe else options.model,
        recipe=recipe,
        options=dict(options.options),
        **_taken(options, *names, "checkpoint_seconds"),
    )


def _bench(context: Context, options: argparse.Namespace) -> Exit:
    from yard.commands.bench import BATCH, MODELS, bench
    from yard.request.training import TrainRequest

    models = tuple(options.models.split(",")) if options.models else MODELS
    request = TrainRequest(
        model=models[0],
        nodes=options.nodes,
        procs_per_node=options.procs_per_node,
        batch=options.batch if options.batch is not None else BATCH,
        transport=options.transport,
    )
    return bench(context, request, models, options.rounds, options.seconds)


def _attach(context: Context, options: argparse.Namespace) -> Exit:
    from yard.commands.attach import attach
    from yard.operations.adoption import find_or_adopt

    return attach(context, find_or_adopt(context, options.run))


# Commands that have something to tell where nothing can be written.
READ_ONLY = ("logs", "runs")
# Commands that take their options as they are: the function in yard/commands/, and the options.
PLAIN = {
    "bundle": "bundle.bundle releases datasets out",
    "clean-up": "clean_up.clean_up run days yes",
    "data": "cluster.data dataset source name sha256",
    "destroy": "rent.destroy site yes",
    "doctor": "doctor.doctor locale on json",
    "evaluate": "predict.evaluate run dataset which nodes",
    "exec": "execute.execute shell_command on seconds",
    "export": "export.export run to which",
    "local-down": "cluster.local_down",
    "local-up": "cluster.local_up nodes",
    "logs": "logs.show_logs run rank follow",
    "metrics": "web.write_metrics out",
    "notebook": "notebook.notebook node code dataset gpus_per_node requirements idle",
    "predict": "predict.predict run source which",
    "provision": "rent.provision site count hours yes",
    "provision-check": "rent.provision_check site json",
    "remove": "remove.remove data yes on",
    "report": "overviews.draw_reports runs",
    "rerun": "rerun.rerun run",
    "rotate-keys": "cluster.rotate_keys",
    "runs": "overviews.list_all_runs form find last",
    "setup": "cluster.setup nodes",
    "status": "top.show_status json",
    "stop": "stop.stop run",
    "tag": "overviews.tag_run run tags note",
    "tensorboard": "tensorboard.tensorboard port",
    "top": "top.top",
    "verify": "verify.verify checks on",
    "web": "web.web port socket names read_only",
}


def _plain(context: Context, options: argparse.Namespace) -> int:
    place, *names = PLAIN[options.command].split()
    module, function = place.split(".")
    called: Callable[..., int] = getattr(import_module(f"yard.commands.{module}"), function)
    return called(context, *(getattr(options, name) for name in names))


COMMANDS: Mapping[str, Command] = {
    **dict.fromkeys(PLAIN, _plain),
    "attach": _attach,
    "bench": _bench,
    "scaling": _scaling,
    "train": _train,
}
TYPED.update(COMMANDS)
