"""`yard data`: what is handed to the playbook, and what is refused before it runs."""

from pathlib import Path

import pytest
from yard_command import Yard


@pytest.mark.parametrize("source", ["not-there.tar.gz", "https://example.com/cifar10.tar.gz"])
def test_a_source_that_is_not_there_is_refused(fresh: Yard, source: str) -> None:
    done = fresh("data", "cifar10", "--source", source)
    assert done.returncode == 2
    assert source in done.stderr
    assert not (fresh.root / ".trainyard").exists()


def test_a_source_is_found_from_where_the_command_was_given(ready: Yard) -> None:
    (ready.root / "archive.tar.gz").touch()
    done = ready("data", "cifar10", "--source", "archive.tar.gz")
    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.read_text() for path in ready.root.glob("**/cifar10") if path.is_file()}
    assert written == {f"from {Path(ready.root) / 'archive.tar.gz'}\n"}
