"""What the roles' modules share is importable here as it is on a node."""

import ansible.module_utils
from role_files import ROLES

# Ansible packs these folders into what it sends to a node, under this very name.
ansible.module_utils.__path__.extend(map(str, sorted(ROLES.glob("*/module_utils"))))
