"""Which image for NVIDIA GPUs fits the drivers and the GPUs of all nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.training_node.machine.gpus import runs_on

FIXED = "or say in the inventory which image it shall be: trainer_image_target"


@dataclass(frozen=True)
class Image:
    """An image for NVIDIA GPUs, an entry of docker/trainer/cuda.yml.

    Attributes:
        name: what `trainer_image_target` calls it.
        torch: version of PyTorch.
        cuda: version of CUDA, as `12.8`.
        driver: lowest branch of the driver it runs with.
        capabilities: compute capabilities it has code for, as `8.6`.
    """

    name: str
    torch: str
    cuda: str
    driver: int
    capabilities: tuple[str, ...]


@dataclass(frozen=True)
class Gpu:
    """A GPU: what people know it by, and its compute capability; empty where it is not known."""

    label: str
    capability: str


@dataclass(frozen=True)
class Node:
    """A node with GPUs.

    Attributes:
        name: in the inventory.
        driver: the driver as people know it, `550.163.01` or `550, to be installed`.
        branch: of the driver that runs will meet; 0 where there is none and none will come.
        gpus: all of the node.
    """

    name: str
    driver: str
    branch: int
    gpus: tuple[Gpu, ...]


class MisfitError(Exception):
    """No image serves all nodes; says why, and what to do."""


def read_images(table: Mapping[str, Mapping[str, Any]]) -> tuple[Image, ...]:
    """The images of docker/trainer/cuda.yml, newest first, as they stand there."""
    return tuple(
        Image(
            name,
            str(entry["torch"]),
            str(entry["cuda"]),
            int(entry["driver"]),
            tuple(map(str, entry["capabilities"])),
        )
        for name, entry in table.items()
    )


def read_node(name: str, answer: Mapping[str, Any]) -> Node:
    """A node from what it told.

    Args:
        answer: `loaded`, version of the kernel module (empty: none); `installs`, the branch that
            set-up installs (0: none); `gpus`, each with `label` and `capability`.

    The older branch counts where set-up is about to change the driver: an image runs with every
    branch from its lowest on, and the other driver comes with the next reboot.
    """
    loaded, installs = str(answer["loaded"]), int(answer["installs"])
    branches = [int(loaded.partition(".")[0])] if loaded else []
    branches += [installs] if installs else []
    branch = min(branches, default=0)
    if loaded and branch == branches[0]:
        driver = f"driver {loaded}"
    else:
        driver = f"driver {branch}, which set-up installs" if branch else "no driver"
    gpus = tuple(Gpu(gpu["label"], gpu["capability"]) for gpu in answer["gpus"])
    return Node(name, driver, branch, gpus)


def has_code_for(image: Image, gpu: Gpu) -> bool:
    """Whether a GPU runs code of the image; one that is not known does not."""
    return bool(gpu.capability) and runs_on(list(image.capabilities), gpu.capability)


def choose_image(images: Sequence[Image], nodes: Sequence[Node]) -> Image:
    """The newest image that serves all nodes.

    Args:
        images: newest first.
        nodes: those without a GPU are served by all.

    Raises:
        MisfitError: there is none, or no node has a GPU.
    """
    if not any(node.gpus for node in nodes):
        raise MisfitError(without_gpu(nodes))
    for image in images:
        if not any(_obstacles(image, node) for node in nodes):
            return image
    raise MisfitError(_refusal(images, nodes))


def without_gpu(nodes: Sequence[Node]) -> str:
    """Say which nodes have no GPU, and what to do; nothing where all have one."""
    names = [node.name for node in nodes if not node.gpus]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{', '.join(names)} {verb} in gpu_nodes, and no NVIDIA GPU is on the PCI bus there: see "
        "`lspci -d 10de:` on the machine, or take it out of the group."
    )


def _obstacles(image: Image, node: Node) -> list[str]:
    """Why a node cannot run an image; empty where it can."""
    if not node.gpus:
        return []
    obstacles = [] if node.branch >= image.driver else [f"has {node.driver}"]
    without_code = [gpu for gpu in node.gpus if not has_code_for(image, gpu)]
    return obstacles + [f"has GPU {_described(gpu)}" for gpu in without_code]


def _refusal(images: Sequence[Image], nodes: Sequence[Node]) -> str:
    """Why no image serves all nodes, and what to do."""
    lines = ["no image for NVIDIA GPUs serves all nodes:"]
    for image in images:
        needs = f"needs driver {image.driver} or newer, GPUs of {', '.join(image.capabilities)}"
        lines.append(f"  {image.name} {needs}:")
        lines += [
            f"    {node.name} {' and '.join(obstacles)}"
            for node in nodes
            if (obstacles := _obstacles(image, node))
        ]
    return "\n".join([*lines, *_ways_out(images, nodes)])


def _ways_out(images: Sequence[Image], nodes: Sequence[Node]) -> list[str]:
    """What to do where no image serves all nodes."""
    strange = [
        f"{node.name} ({_described(gpu)})"
        for node in nodes
        for gpu in node.gpus
        if not any(has_code_for(image, gpu) for image in images)
    ]
    if strange:
        return [f"No image has code for: {', '.join(strange)}.", f"Take these hosts out, {FIXED}."]
    for image in images:
        if all(has_code_for(image, gpu) for node in nodes for gpu in node.gpus):
            old = [node.name for node in nodes if node.gpus and node.branch < image.driver]
            return [
                f"With a driver of branch {image.driver} or newer on {', '.join(old)}, "
                f"{image.name} serves all: nvidia_driver_branch, {FIXED}."
            ]
    return [
        "One image cannot have code for all of these GPUs. Make two inventories, for two groups "
        "of nodes that each train by themselves:",
        *_groups(images, nodes),
    ]


def _groups(images: Sequence[Image], nodes: Sequence[Node]) -> list[str]:
    """The nodes by the newest image that has code for their GPUs, with the driver they need."""
    lines = []
    left = [node for node in nodes if node.gpus]
    for image in images:
        served = [node for node in left if all(has_code_for(image, gpu) for gpu in node.gpus)]
        left = [node for node in left if node not in served]
        if served:
            names = ", ".join(node.name for node in served)
            lines.append(f"  {image.name}, driver {image.driver} or newer: {names}")
    lines += [f"  {node.name} has GPUs that no image serves together" for node in left]
    return lines


def _described(gpu: Gpu) -> str:
    known = f"compute capability {gpu.capability}" if gpu.capability else "unknown to Trainyard"
    return f"{gpu.label}, {known}"
