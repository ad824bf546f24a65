"""Gradients in one buffer, which Horovod averages in place."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

# Every view begins at such an address, where vector units and GPUs load fastest.
ALIGNMENT_BYTES = 64


@dataclass
class _Bucket:
    """A piece of a buffer that is sent as a whole.

    Attributes:
        name: what Horovod knows it by; it says which piece it is, so that ranks that split their
            buffers differently never add up different pieces.
        values: the piece, one dimension.
        indices: of the parameters whose gradients lie in it.
        missing: those of them that the backward pass has not come to yet.
        handle: Horovod's, of what is on its way; None before it is sent.
        context: what the compression needs to undo it.
    """

    name: str
    values: Tensor
    indices: frozenset[int]
    missing: set[int]
    handle: int | None = None
    context: Any = None


@dataclass
class _Buffer:
    """One tensor for all gradients of one type on one device.

    Attributes:
        values: one dimension, padded.
        indices: of the parameters, in the order in which their gradients lie.
        ends: where each of these gradients ends, with its padding.
    """

    values: Tensor
    indices: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class FlatGradients:
    """The gradients of a model, as views of one buffer.

    After the backward pass `parameter.grad` is a view of the buffer with the strides of the
    parameter. A bucket is sent as soon as its last gradient is there. As it lies in one piece,
    nothing is copied for it and nothing but its name is agreed upon between the ranks.

    The last backward pass of a step may leave parameters out: their gradients are what earlier
    passes have left, else zero. Gradients must be dense.

    Args:
        parameters: of the model, in its order; those that need no gradient are left alone.
        compression: one of `horovod.torch.Compression`.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], compression: Any) -> None:
        import horovod.torch as hvd

        self._hvd, self._compression = hvd, compression
        # The backward pass comes to the last layers first.
        self._parameters = [p for p in parameters if p.requires_grad][::-1]
        self._views: list[Tensor] = [torch.empty(0)] * len(self._parameters)
        self._buffers = self._allocate()
        self._buckets: list[_Bucket] = []
        self._bucket_of: dict[int, _Bucket] = {}
        self._is_held_back = False
        self.split(1)
        for index, parameter in enumerate(self._parameters):
            parameter.register_post_accumulate_grad_hook(partial(self._on_gradient, index))

    @property
    def buckets(self) -> int:
        """Number of pieces that are sent in a step."""
        return len(self._buckets)

    @property
    def size_bytes(self) -> int:
        """What is sent in a step, before compression, in bytes."""
        return sum(buffer.values.nbytes for buffer in self._buffers)

    def split(self, count: int) -> None:
        """Send gradients in that many buckets of about the same size from the next step on.

        It moves no gradient. Parameters of several types or devices have as many buckets each.
        """
        self._buckets = [
            bucket
            for number, buffer in enumerate(self._buffers)
            for bucket in _split(buffer, f"gradients.{number}", count)
        ]
        self._bucket_of = {index: bucket for bucket in self._buckets for index in bucket.indices}

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """The context of a backward pass that others follow before the exchange."""
        self._is_held_back = True
        try:
            yield
        finally:
            self._is_held_back = False

    def synchronize(self) -> None:
        """Send what is not under way yet, and wait until every gradient is the mean over ranks.

        Raises:
            HorovodInternalError: another rank is gone.
        """
        for bucket in self._buckets:
            if bucket.handle is None:
                for index in bucket.missing:
                    self._collect(index)
                self._send(bucket)
        for bucket in self._buckets:
            received = self._hvd.synchronize(bucket.handle)
            mean = self._compression.decompress(received, bucket.context)
            if mean is not bucket.values:
                bucket.values.copy_(mean)
            bucket.handle, bucket.missing = None, set(bucket.indices)

    def _allocate(self) -> list[_Buffer]:
        by_kind: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for index, parameter in enumerate(self._parameters):
            by_kind.setdefault((parameter.device, parameter.dtype), []).append(index)
        buffers = []
        for (device, dtype), indices in by_kind.items():
            unit = ALIGNMENT_BYTES // dtype.itemsize
            ends, end = [], 0
            for index in indices:
                end += -(-self._parameters[index].numel() // unit) * unit
                ends.append(end)
            values = torch.zeros(end, dtype=dtype, device=device)
            for index, start in zip(indices, [0, *ends[:-1]], strict=True):
                parameter = self._parameters[index]
                # The strides of the parameter, or, where its values do not lie side by side, those
                # that a copy of it has.
                strides = torch.empty_like(parameter, device="meta").stride()
                self._views[index] = values.as_strided(parameter.size(), strides, start)
            buffers.append(_Buffer(values, indices, ends))
        return buffers

    def _on_gradient(self, index: int, parameter: Tensor) -> None:
        """Called when the backward pass has added to the gradient of a parameter."""
        self._collect(index)
        if self._is_held_back:
            return
        bucket = self._bucket_of[index]
        if index not in bucket.missing:
            raise RuntimeError(
                "a second backward pass before the exchange: run the first within accumulating()"
            )
        bucket.missing.remove(index)
        if not bucket.missing:
            self._send(bucket)

    def _collect(self, index: int) -> None:
        """See to it that the gradient of a parameter is the view, and zero where there is none."""
        parameter, view = self._parameters[index], self._views[index]
        if parameter.grad is view:
            return
        # To copy what autograd has made costs less than to set the view to zero and add to it.
        if parameter.grad is None:
            view.zero_()
        else:
            view.copy_(parameter.grad)
        parameter.grad = view

    def _send(self, bucket: _Bucket) -> None:
        sent, bucket.context = self._compression.compress(bucket.values)
        bucket.handle = self._hvd.allreduce_async_(sent, name=bucket.name, op=self._hvd.Average)


def _split(buffer: _Buffer, name: str, count: int) -> Iterator[_Bucket]:
    """Cut a buffer where gradients end, into about that many buckets of about the same size."""
    total, start, first = len(buffer.values), 0, 0
    for number, end in enumerate(buffer.ends, start=1):
        # The share that is complete, in buckets; a bucket ends where the next whole number is met.
        if end * count // total > start * count // total or number == len(buffer.ends):
            indices = frozenset(buffer.indices[first:number])
            values = buffer.values[start:end]
            yield _Bucket(f"{name}.{start}.{end}", values, indices, set(indices))
            start, first = end, number
