"""A request to run a project of the user's: what was typed, checked against what there is."""

from dataclasses import dataclass, fields
from typing import Any

from yard.code.own import OwnCode, read_code
from yard.code.settings import Settings
from yard.code.snapshot import Snapshot
from yard.core.errors import RequestError
from yard.core.project import Project
from yard.plays.inventory import GPU_GROUPS, Inventory
from yard.request.job import Job, Request
from yard.request.own_data import folder_of_nodes, is_folder, with_own_data
from yard.request.training import OF_THE_INVENTORY, Training
from yard.request.values import Values, unknown

HOW_TO_PUT = (
    "    make data SOURCE=folder-or-URL NAME=name puts data of your own on the nodes\n"
    "    DATASET=/path is a folder that they have, a mounted share perhaps"
)

# What is asked of the trainer alone: the option as it is typed with make, and as with yard.
OF_THE_TRAINER = {
    "epochs": "EPOCHS= (--epochs)",
    "batch": "BATCH= (--batch)",
    "lr": "LR= (--lr)",
    "precision": "PRECISION= (--precision)",
    "engine": "ENGINE= (--engine)",
    "train_images": "TRAIN_IMAGES= (--train-images)",
    "checkpoint_seconds": "CHECKPOINT_SECONDS= (--checkpoint-seconds)",
    "weights": "WEIGHTS= (--weights)",
    "seeds": "SEEDS= (--seeds)",
    "sweep": "SWEEP= (--sweep)",
    "options": "--set",
}
# What is asked of a project alone.
OF_A_PROJECT = {
    "entry": "ENTRY= (--entry)",
    "script_args": "SCRIPT_ARGS= (--script-args)",
    "launch": "LAUNCH= (--launch)",
    "grace": "GRACE= (--grace)",
    "requirements": "REQUIREMENTS= (--requirements)",
}


@dataclass(frozen=True)
class ProjectRequest(Request):
    """What the user typed; None where nothing was said.

    Attributes:
        entry: what is run: a file or `-m` with a module.
        script_args: arguments of the program, in a line.
        launch: `rank` or `node`: how many of the program are started.
        grace: seconds from SIGTERM to SIGKILL.
        requirements: the file that says what it requires, or `none`.
        lock: the versions that it had, of a run that is repeated.
        project: its name, where the folder is the snapshot of a run, which goes as it is.
    """

    code: str
    entry: str | None = None
    script_args: str | None = None
    launch: str | None = None
    grace: int | None = None
    requirements: str | None = None
    lock: str | None = None
    project: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProjectRun(Job):
    """A run of a project with nothing left open.

    Attributes:
        grace_seconds: from SIGTERM to SIGKILL; None leaves it to the launch role's default.
        retries: how often it is started again when it fails, which its ranks are told.
        own_data: whether the data is of the user's own: put on the nodes by name, or a folder of
            theirs, which `dataset` then is the path of.
    """

    code: OwnCode
    grace_seconds: int | None = None
    retries: int = 0
    own_data: bool = False

    @property
    def label(self) -> str:
        """`<project>_n<nodes>_p<processes>`."""
        return f"{self.model}_n{self.nodes}_p{self.procs_per_node}"

    def to_json(self) -> dict[str, Any]:
        """The keys that every manifest has; what only the trainer has is null."""
        names = [each.name for each in fields(Training) if each.name not in OF_THE_INVENTORY]
        values = {name: getattr(self, name, None) for name in names}
        return {**values, "world_size": self.world_size, "options": {}}

    def extravars(self) -> dict[str, Any]:
        """The launch role's variables but for the snapshot, which is the run's."""
        variables = super().extravars()
        # Said even where there is none: the role's default, or the site's, is for the trainer.
        variables["training_run_dataset"] = self.dataset or ""
        if self.own_data:
            variables["training_run_own_data"] = True
        variables["training_run_program"] = list(self.code.program)
        variables["training_run_program_per"] = self.code.per
        variables["training_run_retries"] = self.retries
        if self.code.settings.silence is not None:
            variables["training_run_silence_seconds"] = self.code.settings.silence
        if self.code.settings.checkpoints is not None:
            variables["training_run_checkpoint_files"] = self.code.settings.checkpoints
        if self.grace_seconds is not None:
            variables["training_run_grace_seconds"] = self.grace_seconds
        return variables

    def record(self, snapshot: Snapshot) -> dict[str, Any]:
        """What the manifest says of the project."""
        files = self.code.files
        return {
            "folder": self.code.shown,
            "program": list(self.code.program),
            "per": self.code.per,
            "files": snapshot.files,
            "bytes": snapshot.bytes,
            "sha256": snapshot.sha256,
            "left_out": [str(entry) for entry in files.left_out[:20]],
            "git": self.code.git,
            "metrics_pattern": self.code.settings.metrics,
            "resume_args": list(self.code.settings.resume_args),
            "checkpoints": self.code.settings.checkpoints,
        }


def misplaced(typed: dict[str, Any], with_code: bool) -> list[str]:
    """What of the options typed goes with the other kind of training.

    Args:
        typed: values of options by name; what is None or empty was not typed.
    """
    if with_code:
        return [
            f"{shown}: the trainer's own; a project takes it from its arguments, in SCRIPT_ARGS="
            for name, shown in OF_THE_TRAINER.items()
            if typed[name] not in (None, [], {})
        ]
    return [
        f"{shown}: goes with CODE= alone"
        for name, shown in OF_A_PROJECT.items()
        if typed[name] is not None
    ]


def resolve_project(request: ProjectRequest, inventory: Inventory, checkout: Project) -> ProjectRun:
    """Look at the project, fill the request up from its settings and the inventory, and check it.

    Raises:
        RequestError: with every problem found.
    """
    problems: list[str] = []
    code = None
    try:
        code = read_code(
            checkout,
            request.code,
            request.entry,
            request.script_args,
            request.launch,
            request.requirements,
            request.project,
            on_cpus=not any(inventory.groups.get(group) for group in GPU_GROUPS),
        )
    except RequestError as error:
        problems += error.problems
    settings = code.settings if code else Settings()
    values = Values(request, inventory, problems)
    nodes, procs_per_node = values.world()
    gpus_per_node = values.gpus_per_node()
    slots = values.slots(procs_per_node, gpus_per_node)
    stall = request.stall if request.stall is not None else settings.stall
    min_nodes = request.min_nodes if request.min_nodes is not None else nodes
    values.check_counts(min_nodes)
    values.check_gpus(gpus_per_node, min_nodes)
    grace = request.grace if request.grace is not None else settings.grace
    if grace is not None and grace < 0:
        problems.append(f"grace {grace}: must be 0 or more")
    dataset = request.dataset or settings.data
    known = with_own_data(checkout, inventory).datasets
    if dataset is not None and is_folder(dataset):
        try:
            dataset = folder_of_nodes(dataset)
        except RequestError as error:
            problems += error.problems
    elif dataset is not None and dataset not in known:
        problems.append(f"{unknown('dataset', dataset, known)}\n{HOW_TO_PUT}")
    transport = values.choice("transport", request.transport)
    if problems or code is None:
        raise RequestError(*problems)
    return ProjectRun(
        model=code.name,
        dataset=dataset,
        nodes=nodes,
        min_nodes=min_nodes,
        procs_per_node=procs_per_node,
        gpus_per_node=gpus_per_node,
        slots=slots,
        transport=transport,
        stall_seconds=stall,
        code=code,
        grace_seconds=grace,
        retries=request.retries,
        own_data=dataset is not None and (is_folder(dataset) or known[dataset].own),
    )
