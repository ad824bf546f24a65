"""The trainer's command line: `python3 -m trainer --help`."""

import argparse
import atexit
import dataclasses
import faulthandler
import functools
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from trainer.errors import TrainerError
from trainer.failure import note_failure
from trainer.openmpi import leave_mpi


def main() -> int:
    """Run a subcommand and return the exit status: 0 done, 2 bad request, 1 anything else.

    A rank that ends with an error writes it down; see `trainer.failure`.
    """
    arguments = _parser().parse_args()
    commands = {
        "train": _train,
        "models": _models,
        "data": _data,
        "images": _images,
        "export": _export,
        "predict": _predict,
        "bench": _bench,
        "verify": _verify,
    }
    try:
        commands[arguments.command](arguments)
    except TrainerError as error:
        print(f"trainer: {error}", file=sys.stderr)
        note_failure(error)
        return error.exit_status
    except Exception as error:
        traceback.print_exc()
        note_failure(error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m trainer", description="Data-parallel training of image classifiers."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    train = commands.add_parser("train", help="train a model; every rank runs this")
    train.add_argument("--config", type=Path, required=True, help="the run's config.json")

    models = commands.add_parser("models", help="list the models")
    models.add_argument("--json", action="store_true", help="as JSON")

    data = commands.add_parser("data", help="prepare a data set")
    data.add_argument("dataset", help="a key of trainer.data.datasets.DATASETS")
    data.add_argument(
        "--source", type=Path, help="the archive it is published as; a folder for imagenet"
    )
    data.add_argument("--out", type=Path, required=True, help="directory to write")
    data.add_argument("--counts", help="imagenet: other counts, as CLASSES,TRAINING,VALIDATION")
    data.add_argument(
        "--validation-classes", type=Path, help="imagenet: class of each validation image"
    )

    images = commands.add_parser("images", help="decode the images of a folder, to find bad ones")
    images.add_argument(
        "folder", type=Path, help="with a folder for each class, or train/ and val/"
    )

    export = commands.add_parser("export", help="write the weights of a checkpoint")
    export.add_argument("--checkpoint", type=Path, required=True, help="checkpoint of a run")
    export.add_argument("--to", type=Path, required=True, help=".pt, .pth or .safetensors")

    predict = commands.add_parser("predict", help="classify images with a checkpoint")
    predict.add_argument("--checkpoint", type=Path, required=True, help="checkpoint of a run")
    predict.add_argument("--data", type=Path, required=True, help="where prepared data sets lie")
    predict.add_argument(
        "--dataset", help="data set whose test set is classified; default: that of the run"
    )
    predict.add_argument("--source", type=Path, help="folder of image files to classify instead")
    predict.add_argument("--out", type=Path, required=True, help="folder to write to")

    bench = commands.add_parser("bench", help="measure; every rank runs this")
    benchmarks = bench.add_subparsers(dest="benchmark", required=True)
    suite = benchmarks.add_parser("suite", help="everything; under mpirun")
    suite.add_argument(
        "--model", action="append", required=True, help="model to measure; may be repeated"
    )
    suite.add_argument(
        "--rounds", type=int, default=5, help="rounds; each variant has one turn in each"
    )
    suite.add_argument(
        "--seconds", type=float, default=5.0, help="approximate length of a turn of training"
    )
    suite.add_argument(
        "--bf16", action="store_true", help="measure bf16 too; all processors support it"
    )
    turn = benchmarks.add_parser("turn", help="one turn of the suite; under torchrun")
    turn.add_argument("--model", required=True)
    turn.add_argument("--number", type=int, required=True, help="of the round")
    turn.add_argument("--steps", type=int, required=True)
    turn.add_argument("--precision", required=True)
    for benchmark in (suite, turn):
        benchmark.add_argument("--batch", type=int, default=64, help="images per rank and step")
        benchmark.add_argument(
            "--dataset", type=Path, default=Path("/data/cifar10"), help="a prepared data set"
        )
        benchmark.add_argument("--json", type=Path, required=True, help="file for the result")

    verify = commands.add_parser("verify", help="check the cluster; every rank runs this")
    verify.add_argument(
        "--out", type=Path, required=True, help="directory for the results of every rank"
    )
    return parser


def _train(arguments: argparse.Namespace) -> None:
    from trainer.config import TrainConfig

    config = TrainConfig.from_file(arguments.config)
    from trainer.run import train

    train(config)


def _models(arguments: argparse.Namespace) -> None:
    from trainer.models import describe_models

    models = describe_models()
    if arguments.json:
        print(json.dumps([dataclasses.asdict(model) for model in models], indent=2))
        return
    for model in models:
        print(f"{model.name:18} {model.parameters:>12,}  {model.description}")


def _data(arguments: argparse.Namespace) -> None:
    from trainer.data.datasets import PreparationRequest, prepare_dataset

    request = PreparationRequest(
        arguments.source, arguments.out, arguments.counts, arguments.validation_classes
    )
    written = prepare_dataset(arguments.dataset, request)
    print(f"{arguments.dataset} {'written to' if written else 'is up to date in'} {arguments.out}")


def _images(arguments: argparse.Namespace) -> None:
    from trainer.data.decoding import check_folder

    check_folder(arguments.folder, functools.partial(print, flush=True))


def _export(arguments: argparse.Namespace) -> None:
    from trainer.export import export

    export(arguments.checkpoint, arguments.to)


def _predict(arguments: argparse.Namespace) -> None:
    from trainer.predict import predict

    predict(
        arguments.checkpoint, arguments.data, arguments.dataset, arguments.source, arguments.out
    )


def _bench(arguments: argparse.Namespace) -> None:
    if arguments.benchmark == "turn":
        from trainer.bench.arms import torchrun_turn
        from trainer.bench.workload import Workload

        workload = Workload(
            arguments.model, arguments.batch, arguments.precision, arguments.dataset
        )
        torchrun_turn(workload, arguments.number, arguments.steps, arguments.json)
        return
    from trainer.bench.suite import Suite, measure

    suite = Suite(
        models=tuple(arguments.model),
        batch_per_rank=arguments.batch,
        dataset=arguments.dataset,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        bf16=arguments.bf16,
    )
    measure(suite, arguments.json)


def _verify(arguments: argparse.Namespace) -> None:
    from trainer.verify.ranks import verify

    verify(arguments.out)


def _leave(status: int) -> NoReturn:
    """End this process without the teardown of the interpreter and PyTorch.

    The teardown costs each rank 0.8 s of a slow processor for nothing: files, engine and threads
    were closed before. After an error this rank does not leave MPI either, which would wait for
    ranks that wait for this one: mpirun sees the status and ends the others.
    """
    if status == 0:
        # What libraries have registered for the end of a process, W&B among them.
        atexit._run_exitfuncs()
        leave_mpi()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    faulthandler.enable()
    # Where a rank hangs: kill -USR1 writes what each of its threads is doing to the rank's log.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    _leave(main())
