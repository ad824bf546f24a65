"""Which driver fits which of NVIDIA's GPUs."""

from pathlib import Path

import pytest
from ansible.module_utils import nvidia_driver_cards

H200, GTX_1080_TI, B200, K80 = 0x2335, 0x1B06, 0x2901, 0x102D


def machine(root: Path, *devices: tuple[int, int, int]) -> list[nvidia_driver_cards.Card]:
    for number, parts in enumerate(devices):
        place = root / f"bus/pci/devices/0000:{number:02x}:00.0"
        place.mkdir(parents=True)
        for name, value in zip(("vendor", "device", "class"), parts, strict=True):
            (place / name).write_text(f"0x{value:04x}\n")
    found: list[nvidia_driver_cards.Card] = nvidia_driver_cards.find_cards(str(root))
    return found


def gpus(root: Path, *devices: int) -> list[nvidia_driver_cards.Card]:
    return machine(root, *((0x10DE, device, 0x030200) for device in devices))


def test_gpus_alone_are_found(tmp_path: Path) -> None:
    found = machine(
        tmp_path,
        (0x8086, 0x7A04, 0x060100),  # a bridge
        (0x1A03, 0x2000, 0x030000),  # a screen of another vendor
        (0x10DE, 0x228B, 0x040300),  # NVIDIA's sound
        (0x10DE, 0x1AD7, 0x0C8000),  # NVIDIA's USB port
        (0x10DE, GTX_1080_TI, 0x030000),
        (0x10DE, H200, 0x030200),
    )
    assert [(card.slot, card.device) for card in found] == [
        ("0000:04:00.0", "1b06"),
        ("0000:05:00.0", "2335"),
    ]


def test_a_machine_without_the_bus_has_none(tmp_path: Path) -> None:
    assert nvidia_driver_cards.find_cards(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("devices", "branch", "asked", "wanted"),
    [
        ([H200], 550, "auto", "proprietary"),
        ([H200], 580, "auto", "open"),
        ([H200], 550, "open", "open"),
        ([GTX_1080_TI], 580, "auto", "proprietary"),
        # One module drives both.
        ([H200, GTX_1080_TI], 570, "auto", "proprietary"),
        ([B200], 570, "auto", "open"),
        ([K80], 550, "site", "site"),
    ],
)
def test_modules_fit_the_cards(
    tmp_path: Path, devices: list[int], branch: int, asked: str, wanted: str
) -> None:
    found = nvidia_driver_cards.settle_modules(gpus(tmp_path, *devices), branch, asked)
    assert found == (wanted, "")


@pytest.mark.parametrize(
    ("devices", "branch", "asked", "said"),
    [
        (
            [B200],
            550,
            "auto",
            "slot 0000:00:00.0 (device 2901, Blackwell or newer) needs branch",
        ),
        ([H200, K80], 535, "auto", "slot 0000:01:00.0 (device 102d, Kepler or older) is known to"),
        ([GTX_1080_TI], 590, "auto", "branch 580 at the latest"),
        ([GTX_1080_TI], 580, "open", "need the proprietary modules, not the open ones"),
        ([B200, GTX_1080_TI], 570, "auto", "no kind of kernel modules drives all GPUs"),
    ],
)
def test_what_fits_no_card_is_named(
    tmp_path: Path, devices: list[int], branch: int, asked: str, said: str
) -> None:
    _, misfit = nvidia_driver_cards.settle_modules(gpus(tmp_path, *devices), branch, asked)
    assert said in misfit
