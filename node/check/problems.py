"""What keeps a run off a node: code and values for programs, a sentence for people.

Decisions depend on code and values alone. The sentences stand in this table and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine.containers import is_native
from ..engine.docker import EngineError
from .check import Check


@dataclass(frozen=True)
class Wording:
    """How a problem is said; both are filled in with its values by `str.format`."""

    sentence: str
    remedy: str = ""


WAIT = "wait for it, or make stop RUN={run}"
AGREE = (
    "give it the same value here, or ask them; to force yours and have theirs refused: "
    "training_node_take_over: true in this inventory for one make setup"
)
PROBLEMS = {
    "no_engine": Wording(
        "{message}",
        "sudo systemctl restart docker on this node (without live-restore, which make setup turns "
        "on, its containers end); if it does not start, see journalctl -u docker; if it never had "
        "one, run make setup",
    ),
    "no_namespaces": Wording("{message}", "ask who administers the machine"),
    "gpus_not_native": Wording(
        "runs without containers cannot use AMD GPUs",
        "have it train in containers (trainyard_runtime), or take it out of amd_nodes",
    ),
    "image_missing": Wording("it does not hold the image {image}", "run make setup"),
    "transport_missing": Wording(
        "the image {image} lacks transport {transport}; it has {transports}",
        "choose another TRANSPORT",
    ),
    "held": Wording("it is held by run {run} of {owner} since {since}", WAIT),
    "drained": Wording("it is drained: {reason}", "when that is over: sudo rm {path} on this node"),
    # A container of a run without the lock of that run.
    "held_by_container": Wording(
        "it is held by run {run}",
        WAIT + "; if nobody knows that run, docker rm --force trainyard-{run} on this node",
    ),
    # The lock went to somebody else between the look at the node and the start.
    "taken": Wording("it was taken by run {run} of {owner} since {since}", WAIT),
    # Of a run that wants some GPUs of each node and not the whole node.
    "gpus_lacking": Wording(
        "GPUs that it gives to runs: {count}; asked for: {wanted}",
        "take fewer with GPUS_PER_NODE=, or correct training_node_gpus of this host",
    ),
    "gpus_too_few": Wording(
        "free GPUs: {free} of {count}; asked for: {wanted}",
        "wait for the runs on it, or take fewer with GPUS_PER_NODE=",
    ),
    "gpus_held": Wording("its GPUs {gpus} are held by run {run} of {owner} since {since}", WAIT),
    "ports_taken": Wording(
        "it can listen on none of the ports {first} to {last} of {address}, one for each run",
        "wait for the runs on it, or raise training_node_ssh_ports",
    ),
    "gpu_absent": Wording(
        "it should have NVIDIA GPUs, but there is none on its PCI bus",
        "see whether the card is seated (lspci -d 10de:), or take this host out of group gpu_nodes",
    ),
    "gpu_driver_missing": Wording(
        "it has NVIDIA GPUs ({cards}), but no driver for them answers: {message}",
        "run make setup, whose role nvidia_driver installs one and says where a reboot is needed",
    ),
    "gpu_driver_mismatch": Wording(
        "the NVIDIA driver in its kernel is of another release than its libraries",
        "reboot it once nothing else runs there; role nvidia_driver does it in make setup with "
        "nvidia_driver_reboot set",
    ),
    "gpu_silent": Wording(
        "its NVIDIA GPUs cannot be asked: {message}",
        "dmesg | grep -i -e nvrm -e xid on this node tells more",
    ),
    "gpu_not_there": Wording(
        "training_node_gpus gives GPU {gpu} to runs, but it has only GPU {present}",
        "correct training_node_gpus of this host, or see whether a card fell off the bus: dmesg | "
        "grep -i xid",
    ),
    "gpu_lost": Wording(
        "its GPU {gpu}, {model}, does not answer: {message}",
        "reboot it once nothing else runs there; dmesg | grep -i xid tells what the card did "
        "before. To do without it until then, name the others in training_node_gpus",
    ),
    "gpu_in_mig_mode": Wording(
        "its GPU {gpu}, {model}, is in MIG mode, and a run takes whole GPUs",
        "if nobody needs its parts, turn MIG off with nvidia-smi -i {gpu} -mig 0 on this node; "
        "otherwise name the other GPUs in training_node_gpus",
    ),
    "gpu_driver_old": Wording(
        "its NVIDIA driver {driver} is too old for the image {image}, whose CUDA {cuda} needs "
        "{needed} or newer",
        "run make setup, which chooses the image by the drivers, or install a newer driver: "
        "nvidia_driver_branch",
    ),
    "gpu_not_built_for": Wording(
        "its GPU {gpu}, {model}, has compute capability {capability}, and the image {image} is "
        "built for {capabilities}",
        "run make setup, which chooses the image by the GPUs, or leave this one out: "
        "training_node_gpus",
    ),
    "gpu_busy": Wording(
        "its GPU {gpu} is in use by {program} (pid {pid})",
        "wait until it ends, or kill {pid} on this node, if nobody needs it",
    ),
    "gpu_runtime_missing": Wording(
        "its Docker engine cannot give GPUs to containers: it reads no CDI specification of "
        "NVIDIA's (features.cdi of Docker 25), and knows no runtime of NVIDIA's",
        "run make setup for role nvidia_container_toolkit",
    ),
    "gpu_specification_missing": Wording(
        "no CDI specification tells what containers get of its GPUs: {message}",
        "run make setup for role nvidia_container_toolkit; on a machine without that role: "
        "nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json",
    ),
    "gpu_specification_old": Wording(
        "the CDI specification {path}, by which containers get GPUs, is of driver {release}, but "
        "the kernel has {driver} loaded",
        "write it anew: systemctl restart nvidia-cdi-refresh.service, if the machine has it, or "
        "nvidia-ctk cdi generate --output={path}",
    ),
    "image_without_cuda": Wording(
        "it should compute on NVIDIA GPUs, but the image {image} is for processors only",
        "run make setup, which chooses the image by the GPUs unless trainer_image_target is set, "
        "or empty training_node_gpus",
    ),
    "image_without_rocm": Wording(
        "it should compute on AMD GPUs, but the image {image} is for processors only",
        "run make setup, which takes the image for them unless trainer_image_target is set, or "
        "empty training_node_gpus",
    ),
    "image_of_other_gpus": Wording(
        "it has {wanted} GPUs, and the image {image} is for those of {has}: a run has one image",
        "keep nodes with GPUs of NVIDIA and of AMD in an inventory each, and name one with "
        "INVENTORY=",
    ),
    "gpu_not_given": Wording(
        "transport {transport} needs GPUs, but the inventory gives this node none",
        "choose another TRANSPORT, or put this host into group gpu_nodes or amd_nodes",
    ),
    "site_differs": Wording(
        "{setting} is {there}, as set by {operator} ({who}, {when}), and here it is {here}", AGREE
    ),
    "site_nodes_missing": Wording(
        "the same site has {nodes}, as set by {operator} ({who}, {when}), but this inventory "
        "lacks it",
        "add it, or ask them; to leave it out all the same: training_node_take_over: true in "
        "this inventory for one make setup",
    ),
    "site_unreadable": Wording("{message}"),
    "no_directory": Wording("there is no {path}", "run make setup"),
    "dataset_missing": Wording("there is no data set in {path}", "run make data DATASET={dataset}"),
    "own_data_missing": Wording(
        "there is no data in {path}",
        "run make data SOURCE=<folder, archive or URL of it> NAME={dataset}",
    ),
    "dataset_unreadable": Wording(
        "the data set in {path} cannot be read: {message}",
        "give the training user the right to read it; if it is a share, see whether it is mounted "
        "and its server answers",
    ),
    "folder_not_plain": Wording(
        "the path {path} is not a plain one",
        "write its absolute path without ., .. and doubled slashes",
    ),
    "folder_missing": Wording(
        "there is no folder {path}, or nothing is in it",
        "put the data there, or see whether its share is mounted (cifs_mount_shares)",
    ),
    "folder_unreadable": Wording(
        "the training user cannot read the folder {path}: {message}",
        "give that user the right to read it; if it is a share, see whether its server answers",
    ),
    "folder_is_link": Wording(
        "the path {path} has a link in it", "name the folder that it leads to: {target}"
    ),
    "folder_private": Wording(
        "ranks cannot have {path}: {mount} would be mounted, and no rank may see {place}",
        "name a folder that neither holds {place} nor lies in it, and that only root can replace: "
        "all above it belong to root, and nobody else may write there",
    ),
    "folder_has_mounts": Wording(
        "ranks cannot have {path}: {mount} would be mounted, and {place} in it is another file "
        "system",
        "name a folder below {place}, or one without further file systems in it",
    ),
    "port_taken": Wording(
        "cannot listen on {address} port {port}: {message}",
        "set training_node_ssh_port, or end what listens there, if nobody needs it: ss -ltnp tells",
    ),
    "low_disk": Wording(
        "disk {path}: {value} GB free, should be at least {threshold} GB free",
        "make room on the disk of {path}: du -x tells what takes it",
    ),
    # While a run is brought here: the check of the disk was passed.
    "no_room": Wording(
        "no space is left in {path} for {what}: {needed:,} bytes are needed, {free:,} are free",
        "make room on the disk of {path}: du -x tells what takes it",
    ),
    "no_inode": Wording(
        "no inode is left in {path} for {what}: its disk has too many files",
        "remove files from the disk of {path}: du -x --inodes tells where they are",
    ),
    "quota_used_up": Wording(
        "the quota is used up in {path} for {what}: {needed:,} bytes are needed",
        "raise the quota of root or of the training user there, or make room: quota -v tells",
    ),
    "low_memory": Wording(
        "memory: {value} GB available, should be at least {threshold} GB available",
        "end what nobody needs there: ps --sort=-rss -eo rss,user,args | head",
    ),
    "low_shared_memory": Wording(
        "shared memory {path}: {value} GB free, should be at least {threshold} GB free",
        "remove files that ended programs left in {path} (grep -s {path} /proc/[0-9]*/maps shows "
        "who uses one), or remount it larger",
    ),
    "few_open_files": Wording(
        "open files: {value} files, should be at least {threshold} files",
        "raise LimitNOFILE= of docker.service (systemctl edit docker, systemctl restart docker), "
        "or fs.file-max",
    ),
    "unreadable": Wording(
        "the training user cannot read {path}: {value}",
        "make {path} readable for the training user; is it mounted?",
    ),
    "unwritable": Wording(
        "the training user cannot write in {path}: {value}",
        "make {path} writable for the training user; is the disk full?",
    ),
    "stray_process": Wording(
        "{command} (pid {pid}) belongs to the training user and to no run",
        "kill {pid} on this node, if nobody needs it",
    ),
    "stray_container": Wording(
        "container {name} of {image} belongs to no run",
        "docker rm --force {name} on this node, if nobody needs it",
    ),
}
# What the same problems are called where the GPUs are AMD's (`vendor` among their values).
OF_AMD = {
    "gpu_absent": Wording(
        "it should have AMD GPUs, but there is none on its PCI bus",
        "see whether the card is seated (lspci -d 1002:), or take this host out of group amd_nodes",
    ),
    "gpu_driver_missing": Wording(
        "it has AMD GPUs ({cards}), but no driver for them answers: {message}",
        "load it on this node with modprobe amdgpu; it needs the card's firmware, in Debian's "
        "package firmware-amd-graphics (non-free-firmware), or AMD's own amdgpu-dkms. dmesg | grep "
        "-i -e amdgpu -e kfd tells what it lacks",
    ),
    "gpu_silent": Wording(
        "its AMD GPUs cannot be asked: {message}",
        "run make setup, which installs rocm-smi; dmesg | grep -i amdgpu on this node tells more",
    ),
    "gpu_not_there": Wording(
        "training_node_gpus gives GPU {gpu} to runs, but it has only GPU {present}",
        "correct training_node_gpus of this host (the numbers are rocm-smi's), or see whether a "
        "card fell off the bus: dmesg | grep -i amdgpu",
    ),
    "gpu_lost": Wording(
        "its GPU {gpu}, {model}, does not answer: {message}",
        "reboot it once nothing else runs there; dmesg | grep -i amdgpu tells what the card did "
        "before. To do without it until then, name the others in training_node_gpus",
    ),
    "gpu_not_built_for": Wording(
        "its GPU {gpu}, {model}, is a {capability}, and the image {image} is built for "
        "{capabilities}",
        "leave this one out: training_node_gpus",
    ),
}


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        code: a key of `PROBLEMS`.
        values: scalars by name: what sentence and remedy are filled in with.
    """

    code: str
    values: dict[str, Any]

    @property
    def wording(self) -> Wording:
        """How it is said."""
        of_amd = OF_AMD.get(self.code) if self.values.get("vendor") == "amd" else None
        return of_amd or PROBLEMS[self.code]

    @property
    def remedy(self) -> str:
        """What to do about it; may be empty."""
        return self.wording.remedy.format(**self.values)

    @property
    def sentence(self) -> str:
        """What is so."""
        return self.wording.sentence.format(**self.values)

    @property
    def text(self) -> str:
        """Sentence and remedy for people."""
        return f"{self.sentence}: {self.remedy}" if self.remedy else self.sentence

    def asdict(self) -> dict[str, Any]:
        return {"code": self.code, "values": self.values, "text": self.text}


def problem(code: str, **values: Any) -> Problem:
    return Problem(code, values)


def no_engine(error: EngineError) -> Problem:
    """Return what keeps a run from this node where there is no engine, or none is allowed."""
    if is_native():
        return problem("no_namespaces", message=str(error))
    return problem("no_engine", message=str(error))


def failed_check(check: Check) -> Problem:
    """Return the problem that a check which is not passed stands for."""
    return problem(check.code, path=check.subject, value=check.value, threshold=check.threshold)
