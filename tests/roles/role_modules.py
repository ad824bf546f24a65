"""What the roles' modules share, importable here as it is on a node."""

from pathlib import Path

import ansible.module_utils

ROLES = Path(__file__).parents[2] / "roles"
# Ansible packs these folders into what it sends to a node, under this very name.
ansible.module_utils.__path__.extend(
    str(ROLES / role / "module_utils")
    for role in ("cifs_mount", "cluster_check", "docker_engine", "nvidia_driver", "training_run")
)

from ansible.module_utils import (  # noqa: E402  # found through the line above
    attribution,
    cifs_cause,
    cifs_share,
    engine_settings,
    gpus,
    judgement,
    nvidia_cards,
    ports,
    programs,
    schedule,
    tournament,
)

__all__ = [
    "attribution",
    "cifs_cause",
    "cifs_share",
    "engine_settings",
    "gpus",
    "judgement",
    "nvidia_cards",
    "ports",
    "programs",
    "schedule",
    "tournament",
]
