"""Where the weights of a run may be written."""

from pathlib import Path

import pytest

from yard.commands.export import file_problems


def test_a_file_of_somebody_else_s_is_not_written_over(tmp_path: Path) -> None:
    to, about = tmp_path / "model.safetensors", tmp_path / "model.json"
    assert file_problems(to) == []
    about.write_text("{}")
    (problem,) = file_problems(to)
    assert "model.json exists and would be overwritten" in problem
    # Both are of an export before.
    to.touch()
    assert file_problems(to) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.bin", "must end in one of .pt, .pth, .safetensors"),
        ("none/model.pt", "must be a file in an existing folder"),
        ("folder.pt", "must be a file in an existing folder"),
    ],
)
def test_a_name_that_will_not_do_is_said(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder.pt").mkdir()
    (problem,) = file_problems(tmp_path / name)
    assert said in problem
