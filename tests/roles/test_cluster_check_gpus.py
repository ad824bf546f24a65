"""What is read out of `nvidia-smi -q -x`. No GPU is needed, and none is tried."""

from typing import Any

import pytest
from ansible.module_utils import cluster_check_gpus as module

# Elements and values as drivers 535 and 590 print them, cut down to what is read; the second card
# has bad memory and runs hot, the third tells neither.
DOCUMENT = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>535.54.03</driver_version>
  <cuda_version>12.2</cuda_version>
  <attached_gpus>3</attached_gpus>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA A100-SXM4-80GB</product_name>
    <fb_memory_usage><total>81920 MiB</total><used>50 MiB</used></fb_memory_usage>
    <ecc_errors>
      <volatile><sram_correctable>3</sram_correctable><sram_uncorrectable>0</sram_uncorrectable>
        <dram_correctable>0</dram_correctable><dram_uncorrectable>0</dram_uncorrectable></volatile>
      <aggregate><dram_uncorrectable>7</dram_uncorrectable></aggregate>
    </ecc_errors>
    <temperature><gpu_temp>27 C</gpu_temp><memory_temp>44 C</memory_temp></temperature>
  </gpu>
  <gpu id="00000000:3B:00.0">
    <product_name>NVIDIA A100-SXM4-80GB</product_name>
    <fb_memory_usage><total>81920 MiB</total></fb_memory_usage>
    <ecc_errors><volatile><sram_uncorrectable_parity>1</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
      <dram_uncorrectable>2</dram_uncorrectable></volatile></ecc_errors>
    <temperature><gpu_temp>91 C</gpu_temp></temperature>
  </gpu>
  <gpu id="00000000:81:00.0">
    <product_name>NVIDIA RTX A5000</product_name>
    <fb_memory_usage><total>24564 MiB</total></fb_memory_usage>
    <ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>
    <temperature><gpu_temp>N/A</gpu_temp></temperature>
  </gpu>
</nvidia_smi_log>"""
LOG = """[ 100.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
[ 200.2] NVRM: Xid (PCI:0000:01:00): 31, pid=77, name=python3, Ch 0000000a, MMU Fault
[ 300.3] NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', Double Bit ECC Error
"""


@pytest.fixture
def gpus() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = module.parse_gpus(DOCUMENT, LOG)
    return found


def test_cards_are_read(gpus: list[dict[str, Any]]) -> None:
    assert [gpu["model"] for gpu in gpus] == ["NVIDIA A100-SXM4-80GB"] * 2 + ["NVIDIA RTX A5000"]
    assert gpus[0]["memory_bytes"] == 80 * 2**30
    assert {(gpu["driver"], gpu["cuda"]) for gpu in gpus} == {("535.54.03", "12.2")}
    assert [gpu["celsius"] for gpu in gpus] == [27, 91, None]
    assert [gpu["uncorrected_errors"] for gpu in gpus] == [0, 3, 0]
    # A program's own fault (31) says nothing about the card.
    assert [gpu["xids"] for gpu in gpus] == [[], [48, 79], []]


def test_the_bad_card_is_named(gpus: list[dict[str, Any]]) -> None:
    checks = module.gpu_checks(gpus, "", 4, "NVIDIA A100-SXM4-80GB", 85)
    bad = {
        (coded.check.name, coded.check.subject): coded.check.value for coded in checks if coded.code
    }
    assert bad == {
        ("GPUs", ""): 3,
        ("GPU temperature", "GPU 1"): 91,
        ("GPU ECC errors", "GPU 1"): 3,
        ("GPU Xid errors", "GPU 1"): "48, 79",
        ("GPU model", "GPU 2"): "NVIDIA RTX A5000",
    }


def test_a_driver_that_does_not_answer_is_a_finding() -> None:
    (found,) = module.gpu_checks([], "NVIDIA-SMI has failed", 8, "", 85)
    assert found.code == "gpus_silent"
    assert "NVIDIA-SMI has failed" in found.check.reason()


def test_cards_before_volta_count_double_bit_errors() -> None:
    document = """<nvidia_smi_log><gpu id="0000:04:00.0"><ecc_errors><volatile><double_bit>
      <device_memory>2</device_memory><total>2</total></double_bit></volatile></ecc_errors></gpu>
      </nvidia_smi_log>"""
    assert module.parse_gpus(document, "")[0]["uncorrected_errors"] == 2
