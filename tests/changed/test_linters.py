"""Which linters come for which files."""

from pathlib import Path

from linters import commands

CHECKOUT = Path(__file__).parents[2]


def programs(*files: str) -> list[str]:
    """The linters, by name, in turn."""
    return [command[0] for command in commands(CHECKOUT, files)]


def test_each_kind_of_file_has_its_own() -> None:
    assert programs("yard/cli.py") == ["ruff", "ruff", "mypy", "lint-imports"]
    assert programs("roles/accounts/library/accounts_keys.py") == ["ruff", "ruff", "mypy"]
    assert programs("roles/accounts/tasks/main.yml") == ["yamllint", "ansible-lint"]
    assert programs("yard/runs/signatures.yml") == ["yamllint"]
    assert programs("bootstrap.sh", ".ci/run") == ["shellcheck"]
    assert programs("docker/node/Dockerfile") == ["hadolint"]
    assert programs("docs/roles.md", "no/such/file.py") == []


def test_arguments_of_a_role_bring_its_readme_and_defaults() -> None:
    made = ["roles/accounts/README.md", "roles/accounts/defaults"]
    assert commands(CHECKOUT, ["roles/accounts/meta/argument_specs.yml"])[-3:] == [
        ["aar-doc", "roles/accounts", "markdown"],
        ["aar-doc", "roles/accounts", "defaults"],
        ["git", "diff", "--exit-code", "--stat", "--", *made],
    ]


def test_tests_are_checked_from_their_own_folder() -> None:
    assert commands(CHECKOUT, ["tests/roles/test_accounts.py"])[-1] == [
        "env",
        "--chdir=tests/roles",
        "mypy",
        "--cache-dir",
        "../../.mypy_cache",
        "--config-file",
        "../../pyproject.toml",
        ".",
    ]
