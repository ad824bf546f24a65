"""The engines by name: what exchanges gradients, and how."""

from trainer.engines.base import (
    DEFAULT_OPTIONS,
    Engine,
    ExchangeOptions,
    GradientExchange,
    NoExchange,
)
from trainer.engines.ddp import BACKENDS, DdpEngine
from trainer.engines.horovod import HorovodEngine
from trainer.engines.independent import IndependentEngine
from trainer.network import use_cluster_network

__all__ = [
    "BACKENDS",
    "DEFAULT_OPTIONS",
    "ENGINES",
    "DdpEngine",
    "Engine",
    "ExchangeOptions",
    "GradientExchange",
    "HorovodEngine",
    "IndependentEngine",
    "NoExchange",
    "start_engine",
]

ENGINES = ("horovod", "ddp", "independent")


def start_engine(name: str, backend: str = "gloo") -> Engine:
    """Join the world.

    Args:
        name: one of `ENGINES`.
        backend: one of `BACKENDS`; only `ddp` has a choice.

    Raises:
        ConfigError: the backend does not work here.
    """
    use_cluster_network()
    if name == "horovod":
        return HorovodEngine()
    if name == "ddp":
        return DdpEngine(backend)
    return IndependentEngine()
