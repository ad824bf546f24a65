"""Which driver fits which of NVIDIA's GPUs, and what is taken from NVIDIA's own package source."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import nvidia_driver_cards
from ansible.module_utils.training_node.machine import gpus as gpu_queries
from ansible.template import trust_as_template
from ansible_here import Host, tasks_of
from gpu_machines import have_smi_hang
from role_files import ROLES

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
    assert nvidia_driver_cards.count_switches(str(tmp_path)) == 0


def test_nvswitches_are_counted(tmp_path: Path) -> None:
    found = machine(
        tmp_path,
        (0x10DE, H200, 0x030200),
        (0x10DE, 0x22A3, 0x068000),  # GH100 [H100 NVSwitch]
        (0x10DE, 0x22A3, 0x068000),
        (0x8086, 0x7A04, 0x068000),
    )
    assert len(found) == 1
    assert nvidia_driver_cards.count_switches(str(tmp_path)) == 2


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


# A key made for this test (gpg 2.2, ed25519), the fingerprint that gpg tells, and the head of a
# package source without packages, signed with it.
KEY_PRINT = "7D73B0C5F9FC9909A560A95B2AEFB3C903694E8D"
NVIDIAS_PRINT = "EB693B3035CD5710E231E123A4B469963BF863CC"
KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZ3SFgRYJKwYBBAHaRw8BAQdAYLLQyhsNh3xrQdZ3enwQhBKzEeZuB8GTWXp1
OKLoH2i0CHN0YW5kLWluiJAEExYIADgWIQR9c7DF+fyZCaVgqVsq77PJA2lOjQUC
Z3SFgQIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRAq77PJA2lOjdvIAP9A
ubqBurjPcDdaunj9wYAU/vnbTDu5gLlvwqnE/r3+nQD+KTLu+irqk8yegj0fT9S2
dQRu9nDab3yGf3AGkR0T/Qc=
=RH4J
-----END PGP PUBLIC KEY BLOCK-----
"""
RELEASE = """-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

Date: Wed, 01 Jan 2025 00:00:00 UTC
SHA256:
 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 Packages
-----BEGIN PGP SIGNATURE-----

iHUEARYIAB0WIQR9c7DF+fyZCaVgqVsq77PJA2lOjQUCZ3XXAAAKCRAq77PJA2lO
jRIPAP0S/KRwradUzAG3Fv1cWvxhciJeYCZXVl435gr2JCzBgwD/T9g0/FuMKXvF
Dd1j4tPcetfgZTGXLvFHenDGD+MHlgs=
=CUD6
-----END PGP SIGNATURE-----
"""


def looker() -> dict[str, Any]:
    """The names of the module that looks at a machine."""
    names: dict[str, Any] = {"__name__": "nvidia_driver_look"}
    path = ROLES / "nvidia_driver/library/nvidia_driver_look.py"
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


def test_the_library_has_a_version_while_its_file_is_there(tmp_path: Path) -> None:
    names, link = looker(), tmp_path / "libnvidia-ml.so.1"
    library = tmp_path / "libnvidia-ml.so.550.163.01"
    link.symlink_to(library)
    listed = f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {link}\n"
    packages: set[str] = set()
    names["ask"] = lambda *command, seconds: (
        (int(command[-1] not in packages), "") if command[0] == "dpkg-query" else (0, listed)
    )
    assert names["library"]() == ("", False)
    library.touch()
    # As NVIDIA's installer leaves one, which packages would overwrite.
    assert names["library"]() == ("550.163.01", True)
    packages.add(str(library))
    assert names["library"]() == ("550.163.01", False)


# modinfo(8) of a machine that has modules of these names; its words are those of kmod 30.
MODINFO = """#!/bin/sh
for name; do :; done
case " {names} " in
*" $name "*) echo 550.163.01 ;;
*) echo "modinfo: ERROR: Module $name not found." >&2; exit 1 ;;
esac
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("built", "version"),
    [
        ("nvidia", "550.163.01"),
        # Debian's packages, whose modules have names of their own.
        ("nvidia-current", "550.163.01"),
        ("nvidia-current-open", "550.163.01"),
        ("nvidia-tesla-535", "550.163.01"),
        ("nvidia-tesla-535-open", "550.163.01"),
        ("nvidia-tesla-470", ""),
        ("", ""),
    ],
)
def test_a_module_is_found_by_the_names_of_debian(
    built: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "modinfo"
    program.write_text(MODINFO.format(names=built))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert looker()["built_version"]("6.12.41+deb13-amd64", 535) == version


@pytest.mark.process
def test_an_nvidia_smi_that_hangs_in_the_driver_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_smi_hang(tmp_path, monkeypatch)
    names = looker()
    names["PATIENCE"] = 0.2
    assert names["look_at_gpus"]() == ([], "nvidia-smi gave no answer within 0.2 s")


def test_a_gpu_with_an_error_in_place_of_its_memory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        "0, GPU-0, A100, 00000000:07:00.0, 550.163.01, 40960, 33, 0",
        "1, GPU-1, A100, 00000000:0F:00.0, 550.163.01, [GPU requires reset], 33, 0",
        "2, GPU-2, A100, 00000000:47:00.0, 550.163.01, [GPU is lost], [GPU is lost], 0",
        "3, GPU-3, NVIDIA GB10, 0000000F:01:00.0, 580.65.06, [N/A], 33, 0",  # it has no own memory
    )
    names = looker()
    monkeypatch.setattr(gpu_queries, "_query", lambda *_: (0, "\n".join(rows)))
    told, trouble = names["look_at_gpus"]()
    assert ([gpu["index"] for gpu in told], trouble) == (["0", "3"], "")
    # Without a handle it has a sentence in place of its line, and the status may be that of all.
    lost = "Unable to determine the device handle for GPU1: 0000:0F:00.0: Unknown Error"
    monkeypatch.setattr(gpu_queries, "_query", lambda *_: (255, f"{rows[0]}\n{lost}"))
    told, trouble = names["look_at_gpus"]()
    assert ([gpu["index"] for gpu in told], trouble) == (["0"], "")
    monkeypatch.setattr(gpu_queries, "_query", lambda *_: (255, lost))
    assert names["look_at_gpus"]() == ([], lost)


def on(facts: dict[str, str], **given: Any) -> Host:
    """A machine of these facts."""
    given = {f"nvidia_driver_{name}": value for name, value in given.items()}
    return Host("nvidia_driver", {"ansible_facts": facts, **given})


def played(root: Path, facts: dict[str, str], variables: dict[str, Any], *tasks: Any) -> str:
    """What Ansible says of tasks of the role on a machine of these facts."""
    playbook = root / "play.yml"
    machine = {"ansible.builtin.set_fact": {**facts, "cacheable": True}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [machine, *tasks]}
    playbook.write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("ansible-playbook")), str(playbook)),
            *("--inventory", "localhost,", "--connection", "local"),
            *("--extra-vars", json.dumps(variables)),
            *("--extra-vars", f"ansible_python_interpreter={sys.executable}"),
        ],
        env=os.environ
        | {"ANSIBLE_ROLES_PATH": str(ROLES), "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def debian(version: str, architecture: str = "x86_64") -> dict[str, str]:
    return {
        "distribution": "Debian",
        "distribution_major_version": version,
        "architecture": architecture,
    }


# The check ends with it where nothing before is wrong.
PASSED = {"misfit": "passed until here", "unpackaged": False}


@pytest.mark.parametrize(
    ("facts", "branch", "said"),
    [
        (debian("12"), 580, "passed until here"),
        (debian("13"), 590, "passed until here"),
        (debian("13"), 580, "for Debian 13 is taken from branch 590 on, and 580 is wanted"),
        (debian("12"), 550, "for Debian 12 is taken from branch 580 on, and 550 is wanted"),
        (debian("12"), 0, "has several branches: name one in nvidia_driver_branch"),
        (debian("12", "aarch64"), 580, "and this is Debian 12 on aarch64"),
        (
            {**debian("24"), "distribution": "Ubuntu"},
            590,
            "is taken here for Debian 12 and Debian 13 on x86_64",
        ),
    ],
)
def test_what_nvidias_source_does_not_have_is_refused(
    facts: dict[str, str], branch: int, said: str
) -> None:
    assert said in on(facts, source="nvidia", branch=branch, found=PASSED).refused("check")


def test_a_driver_of_nvidias_installer_is_mixed_with_no_packages() -> None:
    found = {"unpackaged": True, "library": "575.57.08"}
    said = on(debian("12"), found=found).refused("check")
    assert "has driver 575.57.08, which came with no package" in said


def test_the_distributions_branch_needs_no_source_of_nvidia() -> None:
    assert "passed until here" in on(debian("13"), found=PASSED).refused("check")


@pytest.mark.process
def test_packages_are_taken_that_are_signed_with_the_pinned_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apt.conf").write_text(
        f'Dir::State "{tmp_path}/state"; Dir::Cache "{tmp_path}/cache"; APT::Sandbox::User "";'
    )
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (tmp_path / "published.asc").write_text(KEY)
    (tmp_path / "InRelease").write_text(RELEASE)
    (tmp_path / "Packages").touch()
    source = tmp_path / "vendor.sources"
    asked = {
        "nvidia_driver_source": "nvidia",
        "nvidia_driver_branch": 580,
        "nvidia_driver_repository": f"file://{tmp_path}",
        "nvidia_driver_repository_key": f"file://{tmp_path}/published.asc",
        "nvidia_driver_vendor_keyring": str(tmp_path / "keyrings/key.asc"),
        "nvidia_driver_vendor_source": str(source),
    }
    take = {"ansible.builtin.include_role": {"name": "nvidia_driver", "tasks_from": "vendor"}}
    # NVIDIA's own is pinned where nothing else is said.
    assert "is not signed" in played(tmp_path, debian("12"), asked, take)
    lines = [
        "Types: deb",
        f"URIs: file://{tmp_path}",
        "Suites: /",
        f"Signed-By: {tmp_path}/keyrings/key.asc {NVIDIAS_PRINT}",
    ]
    assert source.read_text().splitlines()[1:] == lines
    # In groups, as gpg prints it
    asked["nvidia_driver_repository_fingerprint"] = f"{KEY_PRINT[:20]}  {KEY_PRINT[20:]}"
    host = Host("nvidia_driver", {**asked, "ansible_managed": "made"})
    template = ROLES / "nvidia_driver/templates/vendor.sources.j2"
    source.write_text(host.template(trust_as_template(template.read_text())))
    assert KEY_PRINT in source.read_text()
    [update] = filter(
        None, (t.get("ansible.builtin.command") for t in tasks_of(host.role, "vendor"))
    )
    subprocess.run(host.template(update["argv"]), check=True, capture_output=True)


@pytest.mark.parametrize(
    ("source", "release", "packages"),
    [
        ("nvidia", "12", "nvidia-driver-cuda nvidia-modprobe nvidia-persistenced {module}"),
        (
            "distribution",
            "13",
            "nvidia-smi libcuda1 libnvidia-cfg1 nvidia-modprobe nvidia-persistenced {module}",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["open", "proprietary"])
def test_packages_are_those_of_the_source(
    source: str, release: str, packages: str, kind: str
) -> None:
    module = "nvidia-kernel-open-dkms" if kind == "open" else "nvidia-kernel-dkms"
    if source == "distribution" and kind == "open":
        module = "nvidia-open-kernel-dkms"
    host = on(debian(release), source=source, branch=550, found={"modules": kind})
    assert host.value(PACKAGES) == packages.format(module=module)


PACKAGES = "nvidia_driver_driver_packages | join(' ')"


def test_another_branch_of_debian_brings_all_its_own_libraries() -> None:
    """The daemon depends on `libnvidia-cfg1 | libnvidia-tesla-535-cfg1 | …` on Debian 13."""
    host = on(debian("13"), branch=535, source="distribution", found={"modules": "proprietary"})
    assert host.value(PACKAGES) == (
        "nvidia-tesla-535-smi libnvidia-tesla-535-cuda1 libnvidia-tesla-535-cfg1 nvidia-modprobe "
        "nvidia-persistenced nvidia-tesla-535-kernel-dkms"
    )


NEEDS_FABRIC = "joins its GPUs over NVSwitches (4)"


@pytest.mark.parametrize(
    ("switches", "state", "said"),
    [
        (4, "inactive", f"{NEEDS_FABRIC}, and nvidia-fabricmanager.service is inactive"),
        (4, "", f"{NEEDS_FABRIC}, and nvidia-fabricmanager.service is not there"),
        (4, "active", ""),
        (0, "inactive", ""),
    ],
)
def test_gpus_behind_nvswitches_need_what_joins_them(switches: int, state: str, said: str) -> None:
    gpu = {"name": "NVIDIA H100 80GB HBM3", "driver": "550.163.01"}
    now = {"trouble": "", "gpus": [gpu], "cards": [{"slot": "0000:19:00.0"}], "switches": switches}
    told = on(debian("12"), now=now, fabric={"stdout": state}).refused("prove")
    assert said in told
    assert bool(told) is bool(said)
    assert not said or "of the very version of the driver, 550.163.01 (of Ubuntu" in told
