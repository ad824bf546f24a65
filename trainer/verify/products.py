"""How long a GPU takes for a matrix product: among equal ones, a slow card shows."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from trainer.device import wait_for

# Some 10^12 multiplications and additions in float32: from 10 ms to 0.3 s on the GPUs of ten years.
EDGE = 8192
WARM_UP, REPEATS = 3, 7


@dataclass(frozen=True)
class Product:
    """The matrix product of a device.

    Attributes:
        seconds: median of one product.
        wrong: number of wrong elements in the first row of the product.
    """

    gpu: int
    model: str
    seconds: float
    wrong: int


def measure_products(
    devices: Sequence[torch.device], edge: int = EDGE, repeats: int = REPEATS
) -> list[Product]:
    """Multiply two square float32 matrices on every device, one device after the other.

    A card that is hot, or held back in its clock or its bus, is slower than others of its model;
    the first products bring the clock up and are not counted. The numbers are whole, so that the
    product is exact in float32 and can be checked, and random: equal ones need less power.
    """
    products = []
    for device in devices:
        left, right = (_random(edge, device) for _ in range(2))
        product = torch.empty(edge, edge, device=device)
        times = []
        for _ in range(WARM_UP + repeats):
            wait_for(device)
            start = perf_counter()
            torch.mm(left, right, out=product)
            wait_for(device)
            times.append(perf_counter() - start)
        # On the processor, which the card's faults do not reach.
        wrong = product[0].cpu().double() != left[0].cpu().double() @ right.cpu().double()
        model = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        seconds = statistics.median(times[WARM_UP:])
        products.append(Product(device.index or 0, model, seconds, int(wrong.sum())))
    return products


def own_gpus(local_rank: int, local_size: int) -> list[torch.device]:
    """The GPUs that a rank measures: every GPU of a host is measured by one of its ranks."""
    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.device("cuda", index) for index in range(local_rank, number, local_size)]


def _random(edge: int, device: torch.device) -> torch.Tensor:
    """Whole numbers from -8 to 8: a sum of 8192 products of theirs is below 2^24."""
    return torch.randint(-8, 9, (edge, edge), device=device).float()
