"""What a run is started with: the arguments of mpirun, and the container.

The whole lists are those of real launches, word for word.
"""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from role_files import ROLES

from node.runs import container as training_run_container
from node.runs import directory as training_node_directory
from node.runs import disk_space as training_run_room
from node.runs import mpirun as training_run_mpirun

TRAIN = training_run_mpirun.Launch(
    command="train",
    nodes=["node1", "node2", "node10"],
    addresses={"node1": "10.0.0.1", "node2": "10.0.0.2", "node10": "10.0.0.10"},
    ports={"node1": 2222, "node2": 2222, "node10": 2223},
    host_keys={},
    client_key="",
    slots=[1, 1],
    cores=[2, 2],
    gpus=0,
    network="10.0.0.0/24",
    start_seconds=180,
    stall_seconds=50,
    silence_seconds=600,
    dataset="cifar10",
    batch_per_rank=64,
    copy_megabytes=100.0,
    bench=training_run_mpirun.Bench(["vit", "resnet18"], rounds=5, seconds=5),
    bf16=False,
    profile={"backend": "gloo", "mca": {"pml": "ob1", "btl": "self,sm,tcp"}, "needs_gpu": False},
    without_spare_core={
        "mca": {"mpi_yield_when_idle": 1},
        "environment": {"TRAINYARD_EXCHANGE_NICE": 10, "HOROVOD_CYCLE_TIME": 2},
    },
    mca={"btl": "self,tcp"},
    environment={"FLAG": True},
)
START = training_run_container.Start(
    run_id="r",
    home="/home/runs/r",
    root="/srv/trainyard/runs",
    uid=2000,
    gid=2001,
    files={},
    facts={},
    container=training_run_container.ContainerForm(
        "trainyard/trainer:1", "node1", "trainer", "/srv/trainyard/data", shm_gigabytes=2
    ),
    launch=TRAIN,
    address="10.0.0.1",
    port=2222,
)
CONTAINER = training_run_container.Container(
    START,
    training_node_directory.RunDirectory("/srv/trainyard/runs", "r"),
    folder="",
    gpus={},
    rdma=(),
    cores=0,
    memory_bytes=0,
)
# How mpirun's own daemons watch their connections, and who starts them; in every launch.
DAEMONS = (
    "--prtemca oob_tcp_keepalive_time 10 --prtemca oob_tcp_keepalive_intvl 5 "
    "--prtemca oob_tcp_keepalive_probes 3 --prtemca plm_ssh_no_tree_spawn 1"
)
# Of glibc's allocator, in every launch.
ALLOCATOR = "-x MALLOC_MMAP_THRESHOLD_=1073741824 -x MALLOC_TRIM_THRESHOLD_=4294967296"


def line(**changes: Any) -> str:
    return " ".join(TRAIN._replace(**changes).arguments())


def bare(**changes: Any) -> str:
    """Without a network, a transport's settings and further ones."""
    none = dict.fromkeys(("profile", "without_spare_core", "mca", "environment"))
    return line(network="", **none, **changes)


def test_a_training_with_every_setting() -> None:
    assert line() == (
        "--hostfile /etc/trainyard/hostfile -n 2 --map-by slot --bind-to none "
        f"{DAEMONS} --prtemca prte_if_include 10.0.0.0/24 "
        "--mca btl_tcp_if_include 10.0.0.0/24 --mca mpi_yield_when_idle 1 "
        "--mca pml ob1 --mca btl self,tcp "
        f"-x OMP_NUM_THREADS=2 {ALLOCATOR} -x TRAINYARD_NETWORK=10.0.0.0/24 "
        "-x HOROVOD_STALL_CHECK_TIME_SECONDS=25 -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=50 "
        "-x TRAINYARD_EXCHANGE_NICE=10 -x HOROVOD_CYCLE_TIME=2 -x FLAG=True "
        "/opt/trainyard/bin/rank"
    )


def test_a_network_goes_by_the_name_of_its_interface_where_nodes_have_the_same() -> None:
    alike = line(interfaces=["eth0"])
    assert "--prtemca prte_if_include eth0 --mca btl_tcp_if_include eth0 " in alike
    unlike = line(interfaces=["eth0", "ens5"])
    assert "--prtemca prte_if_include eth0,ens5 --mca btl_tcp_if_include 10.0.0.0/24 " in unlike
    unknown = line(interfaces=["eth0", ""])
    assert "--prtemca prte_if_include 10.0.0.0/24 --mca btl_tcp_if_include 10.0.0.0/24 " in unknown
    assert "if_include" not in bare(interfaces=["eth0"])


def test_a_network_of_ipv6_goes_by_the_names_of_its_interfaces() -> None:
    alike = line(network="fd00:1::/64", interfaces=["eth0"])
    assert "--prtemca prte_if_include eth0 --mca btl_tcp_if_include eth0 " in alike
    assert "-x TRAINYARD_NETWORK=fd00:1::/64" in alike
    # A rank whose machine lacks one of the names would be left without any.
    unlike = line(network="fd00:1::/64", interfaces=["eth0", "ens5"])
    assert "--prtemca prte_if_include eth0,ens5 --mca btl_tcp_disable_family 4 " in unlike
    assert "btl_tcp_if_include" not in unlike


def test_verify_runs_mpi_alone_first() -> None:
    common = (
        f"--bind-to none --timeout 90 {DAEMONS} -x OMP_NUM_THREADS=1 {ALLOCATOR} "
        "-x HOROVOD_STALL_CHECK_TIME_SECONDS=10 -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=20"
    )
    assert bare(command="verify", slots=[2, 2], job_seconds=90, stall_seconds=20) == (
        f"--hostfile /etc/trainyard/hostfile -n 2 --map-by ppr:1:node {common} "
        "/opt/trainyard/bin/hello_mpi --then "
        f"--hostfile /etc/trainyard/hostfile -n 4 --map-by slot {common} "
        "/opt/trainyard/bin/rank verify --out /run/trainyard/verify"
    )


@pytest.mark.parametrize(("bf16", "flag"), [(False, ""), (True, " --bf16")])
def test_bench(bf16: bool, flag: str) -> None:
    # Nothing ends a benchmark for standing still: its parts are no steps.
    assert bare(command="bench", slots=[1], cores=[2], threads=1, bf16=bf16) == (
        "--hostfile /etc/trainyard/hostfile -n 1 --map-by slot --bind-to none "
        f"{DAEMONS} -x OMP_NUM_THREADS=1 {ALLOCATOR} /opt/trainyard/bin/rank "
        "bench suite --batch 64 --dataset /data/cifar10 --rounds 5 --seconds 5 "
        "--json /run/trainyard/bench.json "
        f"--model vit --model resnet18{flag}"
    )


@pytest.mark.parametrize(
    ("cores", "ranks", "threads", "expected"),
    [(2, 1, 0, 2), (8, 4, 0, 2), (7, 4, 0, 1), (1, 4, 0, 1), (8, 4, 3, 3)],
)
def test_the_cores_of_a_node_are_shared_out_among_its_ranks(
    cores: int, ranks: int, threads: int, expected: int
) -> None:
    launch = TRAIN._replace(cores=[cores, 64], slots=[ranks, ranks], threads=threads)
    assert launch.environment_of_ranks()["OMP_NUM_THREADS"] == expected


def test_nodes_with_different_numbers_of_ranks() -> None:
    launch = TRAIN._replace(slots=[4, 1], cores=[16, 2])
    # The rank with the fewest cores sets the pace; more threads elsewhere would wait for it.
    assert launch.environment_of_ranks()["OMP_NUM_THREADS"] == 2
    arguments = launch.arguments()
    assert arguments[2:6] == ["-n", "5", "--map-by", "slot"]
    # One node has a core left, the other has none.
    assert not launch.has_spare_core


@pytest.mark.parametrize(
    ("changes", "spare"),
    [
        ({}, False),
        ({"threads": 1}, True),
        ({"threads": 1, "slots": [2, 2]}, False),
        ({"cores": [7, 7], "slots": [4, 4]}, True),
        ({"gpus": 1}, True),
    ],
)
def test_settings_without_a_spare_core_are_those_of_nodes_without_one(
    changes: dict[str, Any], spare: bool
) -> None:
    assert ("mpi_yield_when_idle" not in TRAIN._replace(**changes).all_mca()) is spare


def test_of_one_name_the_more_particular_setting_wins() -> None:
    launch = TRAIN._replace(
        profile={"mca": {"pml": "ucx"}, "environment": {"HOROVOD_CYCLE_TIME": 3, "A": 1}},
        mca=None,
        environment={"A": 2, "OMP_NUM_THREADS": 7, "MALLOC_TRIM_THRESHOLD_": 0},
    )
    assert launch.all_mca()["pml"] == "ucx"
    assert launch.environment_of_ranks()["HOROVOD_CYCLE_TIME"] == 3
    assert launch.environment_of_ranks()["A"] == 2
    assert launch.environment_of_ranks()["OMP_NUM_THREADS"] == 7
    assert launch.environment_of_ranks()["MALLOC_TRIM_THRESHOLD_"] == 0


# Takes 80 MB in ten blocks and gives them back, as a training step does, and prints in how many
# pages a turn the system had to put memory.
STEPS = """
import resource

def step():
    blocks = [b"x" * 8_000_000 for _ in range(10)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

step()
before = faults()
for _ in range(10):
    step()
print((faults() - before) // 10)
"""


@pytest.mark.process
def test_a_rank_keeps_the_memory_that_a_step_gives_back() -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    launched = {name: str(value) for name, value in TRAIN.environment_of_ranks().items()}

    def pages(environment: dict[str, str]) -> int:
        command = [sys.executable, "-c", STEPS]
        return int(subprocess.check_output(command, env=environment))

    assert pages(bare) > 1000  # else this shows nothing
    assert pages({**bare, **launched}) < 10


@pytest.mark.parametrize("file", ["mpi_ranks.py", "image_check.sh"])
def test_ranks_of_the_trainers_tests_are_started_as_those_of_runs(file: str) -> None:
    """They run in the image, where no role is; so they repeat what a launch gives its ranks."""
    text = Path(__file__).parents[1].joinpath("trainer", file).read_text()
    settings = yaml.safe_load((ROLES.parent / "group_vars/all/transport.yml").read_text())
    without_spare_core = settings["training_run_without_spare_core"]["environment"]
    expected = {**training_run_mpirun.ALLOCATOR, **without_spare_core}
    repeated = re.findall(rf"\b({'|'.join(expected)})=(\d+)", text)
    assert dict(repeated) == {name: str(value) for name, value in expected.items()}


@pytest.mark.parametrize(("stall", "check"), [(1, 1), (2, 1), (50, 25)])
def test_horovod_names_the_rank_that_is_missing_before_it_ends_the_others(
    stall: int, check: int
) -> None:
    environment = TRAIN._replace(stall_seconds=stall).environment_of_ranks()
    assert environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == check
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == stall


def test_a_run_that_may_hang_for_ever_is_not_ended_by_horovod() -> None:
    assert not any(
        "STALL" in name for name in TRAIN._replace(stall_seconds=0).environment_of_ranks()
    )


@pytest.mark.parametrize(
    ("per", "count", "place"), [("rank", "6", "slot"), ("node", "2", "ppr:1:node")]
)
def test_the_program_of_a_project(per: str, count: str, place: str) -> None:
    project = TRAIN._replace(project=True, program_per=per, slots=[3, 3])
    arguments = project.arguments()
    assert arguments[:6] == [
        "--hostfile",
        "/etc/trainyard/hostfile",
        "-n",
        count,
        "--map-by",
        place,
    ]
    assert arguments[-5:] == ["-x", "MASTER_ADDR", "-x", "MASTER_PORT", "/opt/trainyard/bin/rank"]


def test_a_container_without_gpus() -> None:
    assert CONTAINER.configuration() == {
        "Image": "trainyard/trainer:1",
        "Hostname": "node1",
        "User": "trainer",
        "Labels": {"trainyard.run": "r"},
        "Env": [
            "TRAINYARD_START_SECONDS=180",
            "TRAINYARD_STALL_SECONDS=50",
            "TRAINYARD_SILENCE_SECONDS=0",
            "TRAINYARD_GRACE_SECONDS=0",
            "TRAINYARD_ADDRESS=10.0.0.1",
            "TRAINYARD_PEERS=node2=10.0.0.2:2222 node10=10.0.0.10:2223",
            "TRAINYARD_COPY_MEGABYTES=100.0",
            "TRAINYARD_LAUNCHES=1",
            f"TRAINYARD_FULL_BYTES={training_run_room.FULL_BYTES}",
        ],
        "HostConfig": {
            "NetworkMode": "host",
            "Init": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "Tmpfs": {
                "/tmp": "rw,exec,nosuid,nodev,size=10%,mode=1777",
                "/home/trainer": "rw,exec,nosuid,nodev,size=10%,mode=700,uid=2000,gid=2001",
            },
            "PidsLimit": 8192,
            # The memory of a process that falls is not written to the working directory.
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": -1}],
            "OomScoreAdj": 500,
            "LogConfig": {"Type": "local", "Config": {"max-size": "5m", "max-file": "2"}},
            "ShmSize": 2147483648,
            "Memory": 0,
            "MemorySwap": 0,
            "ExtraHosts": ["node1:10.0.0.1", "node10:10.0.0.10", "node2:10.0.0.2"],
            "Binds": [
                "/srv/trainyard/runs/r/work:/run/trainyard",
                "/srv/trainyard/runs/r/config:/etc/trainyard:ro",
                "/srv/trainyard/runs/r/config/ssh:/home/trainer/.ssh:ro",
                "/srv/trainyard/runs/r/code/trainer:/opt/trainyard/lib/trainer:ro",
                "/srv/trainyard/data:/data:ro",
            ],
        },
    }


def test_a_container_that_reads_a_folder_of_the_node_has_no_other_data() -> None:
    configuration = replace(CONTAINER, folder="/mnt/nas/faces").host_configuration()
    assert configuration["Mounts"] == [
        {
            "Type": "bind",
            "Source": "/mnt/nas/faces",
            "Target": "/data/mnt/nas/faces",
            "ReadOnly": True,
        }
    ]
    assert not [bind for bind in configuration["Binds"] if ":/data" in bind]


def test_the_gpus_of_a_container() -> None:
    given = {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}
    configuration = replace(CONTAINER, gpus=given).host_configuration()
    assert configuration["DeviceRequests"] == given["DeviceRequests"]
    assert "DeviceRequests" not in CONTAINER.host_configuration()


def test_a_container_with_a_part_of_the_node() -> None:
    run = START._replace(container=START.container._replace(part=0.25))
    part = replace(CONTAINER, run=run, cores=1.5).host_configuration()
    assert (part["ShmSize"], part["NanoCpus"]) == (2**29, 1_500_000_000)


def test_the_devices_for_rdma_of_a_container(tmp_path: Path) -> None:
    there = tmp_path / "infiniband"
    assert training_run_container.rdma_devices(str(there)) == ()
    there.mkdir()
    for name in ("uverbs1", "rdma_cm", "uverbs0", "umad0", "issm0"):
        (there / name).touch()
    # As udev of rdma-core has it.
    (there / "by-ibdev").mkdir()
    (there / "by-ibdev/uverbs-mlx5_0").symlink_to("../uverbs0")
    devices = training_run_container.rdma_devices(str(there))
    assert devices == tuple(f"{there}/{name}" for name in ("rdma_cm", "uverbs0", "uverbs1"))
    asked = replace(CONTAINER, rdma=devices).host_configuration()
    assert asked["Devices"][0] == {
        "PathOnHost": f"{there}/rdma_cm",
        "PathInContainer": f"{there}/rdma_cm",
        "CgroupPermissions": "rw",
    }
    assert asked["Ulimits"] == [
        {"Name": "core", "Soft": 0, "Hard": -1},
        {"Name": "memlock", "Soft": -1, "Hard": -1},
    ]


def test_a_container_without_rdma_may_lock_no_more_memory_than_others() -> None:
    assert "Devices" not in CONTAINER.host_configuration()
    core = {"Name": "core", "Soft": 0, "Hard": -1}
    assert CONTAINER.host_configuration()["Ulimits"] == [core]


def test_a_container_that_goes_on_reads_the_checkpoints(tmp_path: Path) -> None:
    directory = training_node_directory.RunDirectory(str(tmp_path), "r")
    Path(directory.resume).mkdir(parents=True)
    binds = replace(CONTAINER, directory=directory).host_configuration()["Binds"]
    assert binds[-1] == f"{directory.resume}:/resume:ro"


def test_a_container_with_a_limit_of_memory() -> None:
    limited = replace(CONTAINER, memory_bytes=1610612736).host_configuration()
    # Both: with more for the second, the difference would be swapped.
    assert (limited["Memory"], limited["MemorySwap"]) == (1610612736, 1610612736)


@pytest.mark.parametrize(
    ("gigabytes", "share", "node", "limit"),
    [
        # What the site says, or nothing
        (1.5, 1, 64, 1.5),
        (0, 1, 64, 0),
        # Less a twentieth, a GiB at least, and half of a node that has next to nothing
        (None, 1, 64, 60.8),
        (None, 1, 8, 7),
        (None, 1, 1, 0.5),
        # Two nodes of one machine
        (None, 0.5, 16, 7),
    ],
)
def test_a_node_keeps_memory_for_itself(
    gigabytes: float | None, share: float, node: int, limit: float
) -> None:
    found = training_run_container.memory_limit(gigabytes, share, node * 2**30)
    assert found == pytest.approx(limit * 2**30, abs=1)


@pytest.mark.parametrize(("command", "launches"), [("verify", 2), ("bench", 1)])
def test_only_a_training_is_ended_for_standing_still(command: str, launches: int) -> None:
    run = START._replace(launch=TRAIN._replace(command=command))
    environment = replace(CONTAINER, run=run).environment()
    assert environment["TRAINYARD_START_SECONDS"] == 0
    assert environment["TRAINYARD_STALL_SECONDS"] == 0
    assert environment["TRAINYARD_SILENCE_SECONDS"] == 0
    assert environment["TRAINYARD_LAUNCHES"] == launches


def test_a_run_on_one_node_has_no_peers() -> None:
    run = START._replace(launch=TRAIN._replace(nodes=["node1"]))
    alone = replace(CONTAINER, run=run)
    assert alone.environment()["TRAINYARD_PEERS"] == ""
    assert alone.host_configuration()["ExtraHosts"] == ["node1:10.0.0.1"]
