"""TensorBoard event files, written without TensorBoard.

The format is TFRecord: for every record its length, the length's checksum, the data, the data's
checksum. The data is a protocol buffer `tensorflow.Event`, of which few fields are needed here.
"""

import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from trainer.metrics import MetricsLine, class_accuracies

# The lines of metrics.jsonl and where their values go.
TAGS = {
    "step": {
        "loss": "train/loss",
        "accuracy": "train/accuracy",
        "lr": "train/learning_rate",
        "images_per_second": "speed/images_per_second",
        "data_seconds": "speed/data_seconds",
        "compute_seconds": "speed/compute_seconds",
        "communication_seconds": "speed/communication_seconds",
    },
    "epoch": {
        "validation_loss": "validation/loss",
        "validation_accuracy": "validation/accuracy",
        "validation_top5": "validation/top5",
    },
    "end": {"test_loss": "test/loss", "test_accuracy": "test/accuracy", "test_top5": "test/top5"},
}

# CRC-32C (Castagnoli), reflected polynomial, as TFRecord wants it.
CRC_POLYNOMIAL = 0x82F63B78
MASK_DELTA = 0xA282EAD8


class EventWriter:
    """Writes metrics lines into an event file: scalars, and the confusion matrix as a table.

    Args:
        folder: where event files go; TensorBoard joins several of a run.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
        self._stream = (folder / name).open("ab")
        self._record(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def close(self) -> None:
        self._stream.close()

    def __call__(self, line: MetricsLine) -> None:
        """Write what one line has."""
        values_by_key = line.to_json()
        scalars = {tag: values_by_key.get(key) for key, tag in TAGS.get(line.event, {}).items()}
        accuracies = class_accuracies(line.results)
        scalars |= {f"test_accuracy/{name}": value for name, value in accuracies.items()}
        values = b"".join(
            # Summary.value = 1; of it tag = 1, simple_value = 2.
            _bytes(1, _bytes(1, tag.encode()) + _float(2, value))
            for tag, value in scalars.items()
            if value is not None
        )
        if accuracies:
            values += _text("test/confusion", _table(**line.results))
        if values:
            # Event: wall_time = 1, step = 2, summary = 5.
            step = _key(2, 0) + _varint(line.position.step)
            self._record(_double(1, line.time) + step + _bytes(5, values))

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        checksums = (struct.pack("<I", masked_crc(part)) for part in (length, data))
        self._stream.write(length + next(checksums) + data + next(checksums))
        self._stream.flush()


def _table(
    classes: Sequence[str], test_confusion: Sequence[Sequence[int]], **others: object
) -> str:
    """A confusion matrix in Markdown: the classes of the images down, the answers across."""
    rows = [["", *classes], ["---"] * (len(classes) + 1)]
    rows += [[name, *map(str, row)] for name, row in zip(classes, test_confusion, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _text(tag: str, text: str) -> bytes:
    # Of Summary.value: tag = 1, tensor = 8 (type = 1 with 7 for strings, value = 8), and
    # metadata = 9, which names the plugin that shows it.
    tensor = _key(1, 0) + _varint(7) + _bytes(8, text.encode())
    metadata = _bytes(1, _bytes(1, b"text"))
    return _bytes(1, _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, metadata))


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted, because a CRC of data that contains CRCs is weak."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def _crc_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (CRC_POLYNOMIAL if byte & 1 else 0)
    return byte


_CRC_TABLE = tuple(_crc_entry(byte) for byte in range(256))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _key(field, 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, 2) + _varint(len(value)) + value
