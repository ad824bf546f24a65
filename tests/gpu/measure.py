#!/usr/bin/env python3
"""What a GPU day runs where torch is: in the trainer image, or in a Python that has it.

    measure.py look                     versions, and the GPUs that torch sees
    measure.py products                 a matrix product on each GPU, checked on the processor
    measure.py sums --backend nccl      sums over all ranks; mpirun or torchrun starts it
    measure.py config KEY=JSON ...      a training's configuration

The measurements are those of `make verify` (trainer/verify), here without Horovod. The result is
the last line of the output, a JSON object; of `sums`, rank 0 prints it.
"""

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
# In an image the trainer is elsewhere, and there already.
sys.path.append(str(CHECKOUT))

# Smaller where a processor stands in for the GPU, which would take minutes.
STAND_IN_EDGE = 256
STAND_IN_SIZES = (4**6, 4**8)


def look() -> dict[str, Any]:
    """What torch is there and what it sees; "trouble" says why it computes on no GPU."""
    import torch

    from trainer.device import find_device

    device, trouble = find_device(0)
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": device.type,
        "trouble": trouble,
        "horovod": find_spec("horovod") is not None,
        "gpus": [],
    }
    if find_spec("torchvision"):
        found["torchvision"] = metadata.version("torchvision")
    if device.type == "cuda":
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        found["cudnn"] = str(torch.backends.cudnn.version())
        found["gpus"] = [
            {
                "model": torch.cuda.get_device_name(index),
                "capability": ".".join(map(str, torch.cuda.get_device_capability(index))),
                "memory_bytes": torch.cuda.get_device_properties(index).total_memory,
            }
            for index in range(torch.cuda.device_count())
        ]
    return found


def products() -> dict[str, Any]:
    """Products of `trainer.verify.products` on every GPU, or on the processor that stands in."""
    from trainer.device import pick_device
    from trainer.verify.products import EDGE, measure_products, own_gpus

    edge = EDGE if pick_device(0).type == "cuda" else STAND_IN_EDGE
    measured = measure_products(own_gpus(0, 1) or [pick_device(0)], edge)
    return {"edge": edge, "products": [asdict(product) for product in measured]}


def sums(backend: str) -> dict[str, Any] | None:
    """Sums of `trainer.verify.sums` over all ranks, and their bandwidth where there are several.

    Returns:
        On rank 0, how many sums were checked, wrong elements of all ranks, and the bandwidths.
    """
    import torch

    from trainer.device import pick_device
    from trainer.engines import start_engine
    from trainer.verify.bandwidth import SIZES, measure_bandwidth
    from trainer.verify.sums import check_sums

    engine = start_engine("ddp", backend)
    device = pick_device(engine.local_rank)
    checks = check_sums(
        lambda values, _: engine.sum(values), engine.rank, engine.world_size, device
    )
    wrong = engine.sum(torch.tensor([float(sum(check.wrong for check in checks))]))
    bandwidths = []
    if engine.world_size > 1:
        bandwidths = measure_bandwidth(
            lambda values, _: engine.sum(values),
            lambda seconds: max(engine.gather(seconds)),
            engine.world_size,
            device,
            SIZES if device.type == "cuda" else STAND_IN_SIZES,
        )
    result = {
        "device": device.type,
        "world_size": engine.world_size,
        "checks": len(checks),
        "wrong": int(wrong.item()),
        "bandwidths": [asdict(bandwidth) for bandwidth in bandwidths],
    }
    rank = engine.rank
    engine.close()
    return result if rank == 0 else None


def config(settings: dict[str, Any]) -> dict[str, Any]:
    """A training's configuration, from the recipe or from the defaults that the site has.

    Args:
        settings: keys of the configuration, which win; "recipe" or "model" must be among them.
    """
    import yaml

    def read(path: str) -> Any:
        return yaml.safe_load((CHECKOUT / path).read_text(encoding="utf-8"))

    recipe = settings.pop("recipe", None)
    if recipe:
        training = read(f"trainer/recipes/{recipe}.yml")
    else:
        site = read("group_vars/all/training.yml")
        common = site["training_model_defaults"]
        if settings["model"] in read("group_vars/all/models.yml")["training_adamw_models"]:
            common = {**common, **site["training_adamw_defaults"]}
        chosen = site["training_models"].get(settings["model"], common)
        training = {**chosen, "model": settings["model"]}
    options = training.pop("options", {})
    if training.get("train_images") == "all":
        training["train_images"] = None
    return {
        **read("roles/training_run/defaults/main.yml")["training_run_recipe"],
        **{key: value for key, value in training.items() if key not in ("description", "measured")},
        **options,
        "hosts": [os.uname().nodename],
        **settings,
    }


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description="Measures what a GPU day wants to know.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("look")
    commands.add_parser("products")
    commands.add_parser("sums").add_argument("--backend", required=True)
    commands.add_parser("config").add_argument("settings", nargs="+", metavar="KEY=JSON")
    options = parser.parse_args()
    result: dict[str, Any] | None
    if options.command == "sums":
        result = sums(options.backend)
    elif options.command == "config":
        pairs = (setting.partition("=") for setting in options.settings)
        result = config({key: json.loads(value) for key, _, value in pairs})
    else:
        result = look() if options.command == "look" else products()
    if result is not None:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
