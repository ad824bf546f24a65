"""The collection that the checkout builds: its roles and modules work under their full names.

molecule/collection applies roles of the built archive to a machine.
"""

import os
import re
import runpy
import subprocess
import sysconfig
import tarfile
from pathlib import Path

import pytest
import yaml

import yard

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]
GALAXY = yaml.safe_load((CHECKOUT / "collection/galaxy.yml").read_text())
INSTALLED = "collections/ansible_collections/trainyard/cluster"
BUILDER = runpy.run_path(str(CHECKOUT / "collection/build.py"))

# Imports every module, module_util and action plugin, as Ansible's own loader finds them.
IMPORT_ALL = """
import importlib, pathlib
from ansible.plugins.loader import init_plugin_loader
collections = pathlib.Path("collections").resolve()
init_plugin_loader([str(collections)])
files = sorted(collections.glob("ansible_collections/trainyard/cluster/plugins/*/*.py"))
for file in files:
    importlib.import_module(".".join(file.relative_to(collections).with_suffix("").parts))
print(len(files))
"""
# The name that a role gives the image; its tag is a hash of docker/trainer and trainer.
NAME_THE_IMAGE = """
    - ansible.builtin.include_role: {{name: {role}, tasks_from: identify}}
    - ansible.builtin.debug: {{msg: "named {{{{ trainer_image_reference }}}}"}}
"""


def run(site: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a directory without what points Ansible or Python to the checkout."""
    checkout = ("ANSIBLE_CONFIG", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in checkout}
    return subprocess.run(
        command, cwd=site, env=environment, capture_output=True, text=True, timeout=300
    )


def succeed(site: Path, *command: str | Path) -> str:
    """Run a command as `run` does, and return what it printed."""
    done = run(site, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory outside of the checkout, with the collection installed from its archive."""
    directory = tmp_path_factory.mktemp("site")
    archive = succeed(directory, CHECKOUT / "collection/build.py", directory).strip()
    (directory / "ansible.cfg").write_text("[defaults]\ncollections_path = collections\n")
    install = ("ansible-galaxy", "collection", "install", archive, "--offline")
    succeed(directory, *install, "--collections-path", "collections")
    return directory


def load_task_files(site: Path) -> subprocess.CompletedProcess[str]:
    """Have Ansible load roles by their full names, and every task file as one of the collection."""
    folders = sorted((site / INSTALLED / "roles").iterdir())
    plays = [{"hosts": "localhost", "roles": [f"trainyard.cluster.{f.name}"]} for f in folders]
    # As a role each, with what it depends on, they would take five times as long.
    files = [str(file) for folder in folders for file in sorted(folder.glob("tasks/*.yml"))]
    tasks = [{"ansible.builtin.import_tasks": file} for file in files]
    within = {"hosts": "localhost", "collections": ["trainyard.cluster"], "tasks": tasks}
    (site / "load.yml").write_text(yaml.safe_dump([*plays, within]))
    return run(site, "ansible-playbook", "--syntax-check", "load.yml")


@pytest.mark.promise("make collection")
def test_every_role_is_in_the_archive(site: Path) -> None:
    roles = {path.name for path in (CHECKOUT / "roles").iterdir()}
    assert {path.name for path in (site / INSTALLED / "roles").iterdir()} == roles


def test_every_task_file_finds_its_modules_and_roles(site: Path) -> None:
    loaded = load_task_files(site)
    assert loaded.returncode == 0, loaded.stderr


def test_modules_find_what_they_import(site: Path) -> None:
    imported = succeed(site, "python3", "-c", IMPORT_ALL)
    code = [*CHECKOUT.glob("roles/*/library/*.py"), *CHECKOUT.glob("roles/*/module_utils/*.py")]
    assert int(imported) >= len(code)


def test_roles_have_no_code_of_their_own_in_the_collection(site: Path) -> None:
    roles = site / INSTALLED / "roles"
    assert not [path for directory in BUILDER["PLUGINS"] for path in roles.glob(f"*/{directory}")]


def test_roles_work_under_their_full_names(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image has the name that the checkout gives it, and a site checks its inventory."""
    roles = ("trainyard.cluster.trainer_image", "trainer_image")
    tasks = "".join(NAME_THE_IMAGE.format(role=role) for role in roles)
    (site / "hosts.yml").write_text(
        "trainers:\n"
        "  hosts: {gpu01: {ansible_host: 10.0.0.11}}\n"
        "  vars:\n"
        "    cluster_network: 10.0.0.0/24\n"
        "    hosts_file_gruops: [trainers]\n"
    )
    (site / "site.yml").write_text(
        f"- hosts: localhost\n  gather_facts: false\n  tasks:{tasks}"
        "- hosts: all\n"
        "  gather_facts: false\n"
        "  tasks:\n"
        "    - ansible.builtin.import_role: {name: trainyard.cluster.inventory_check}\n"
        "      run_once: true\n"
        "  vars:\n"
        '    inventory_check_playbook: "{{ playbook_dir }}/site.yml"\n'
    )
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(CHECKOUT / "roles"))
    command = ("ansible-playbook", "--inventory", "hosts.yml", "site.yml")
    checked = run(site, *command, "-e", "trainer_image_directory=/nowhere")
    one, other = re.findall(r"named (\S+)", checked.stdout)
    assert one == other
    assert checked.returncode == 2
    assert re.search(r"hosts\.yml:5: .*Is hosts_file_groups meant\?", checked.stdout), (
        checked.stdout
    )


def test_its_version_is_that_of_the_package() -> None:
    assert GALAXY["version"] == yard.__version__


def test_it_names_the_collections_that_its_roles_use(site: Path) -> None:
    text = "".join(
        file.read_text()
        for file in (site / INSTALLED / "roles").glob("*/*/*")
        if file.suffix in (".yml", ".j2")
    )
    installed = Path(sysconfig.get_path("purelib"), "ansible_collections")
    names = set(re.findall(r"\b([a-z]+\.[a-z]+)\.[a-z_]+\b", text))
    used = {name for name in names if Path(installed, *name.split(".")).is_dir()}
    assert used <= set(GALAXY["dependencies"])
    assert used


def test_the_archive_has_nothing_of_the_tests(site: Path) -> None:
    (archive,) = site.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        top = {name.split("/")[0] for name in members.getnames()}
    assert top == {
        *("CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md"),
        *("docker", "group_vars", "meta", "plugins", "roles", "trainer"),
    }


@pytest.mark.parametrize(
    ("source", "renamed"),
    [
        ("from ansible.module_utils.disks import (\n    free,\n)\n", True),
        ("import ansible.module_utils.disks\n", True),
        ("def f():\n    from ansible.module_utils.disks import free\n", True),
        ("from ansible.module_utils.basic import AnsibleModule\n", False),
        ("from ansible.module_utils.disks_of_others import free\n", False),
        ('"""Not an import: ansible.module_utils.disks"""\n', False),
    ],
)
def test_imports_of_the_roles_own_code_are_renamed(source: str, renamed: bool) -> None:
    name = "ansible_collections.a.b.plugins.module_utils.disks"
    expected = source.replace("ansible.module_utils.disks", name) if renamed else source
    arguments = (source, "x.py", "ansible_collections.a.b", frozenset({"disks"}))
    assert BUILDER["rename_imports"](*arguments) == expected


def test_an_import_that_cannot_be_renamed_is_an_error() -> None:
    source = "from ansible.module_utils import disks\n"
    with pytest.raises(BUILDER["BuildError"], match=r"x\.py:1: .*ansible\.module_utils\.disks"):
        BUILDER["rename_imports"](source, "x.py", "a.b", frozenset({"disks"}))


def test_two_files_for_one_place_are_an_error() -> None:
    with pytest.raises(BUILDER["BuildError"], match="rename one"):
        BUILDER["arrange"](["roles/a/library/look.py", "roles/b/library/look.py"])


def test_a_filter_of_a_role_is_an_error() -> None:
    with pytest.raises(BUILDER["BuildError"], match="by its full name"):
        BUILDER["destination"]("roles/a/filter_plugins/names.py")
