"""`yard bundle`: what is handed to the playbook, and what is refused before it runs."""

import pytest
from yard_command import Yard, made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--releases", "trixie,potato"), "RELEASES=potato: not one of bookworm, trixie"),
        (("--releases", ","), "RELEASES=: names none of bookworm, trixie"),
        (("--datasets", "cifra10"), "cifra10"),
        (("--out", "not/there/bundle.tar"), "is to be a file in a folder that is there"),
        (("--out", "."), "is to be a file in a folder that is there"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_touched(
    fresh: Yard, arguments: tuple[str, ...], said: str
) -> None:
    done = fresh("bundle", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (fresh.root / ".trainyard").exists()


def test_the_playbook_is_told_what_was_asked_for(fresh: Yard) -> None:
    playbook = fresh.root / "playbooks/bundle.yml"
    playbook.write_text(
        """\
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ bundle_releases | join(' ') }}, {{ bundle_datasets | join(' ') }}\\n"
        dest: "{{ bundle_archive }}"
        mode: "0644"
"""
    )
    arguments = ("--releases", "trixie", "--datasets", "none", "--out", "here.tar")
    done = fresh("bundle", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (fresh.root / "here.tar").read_text() == "trixie, \n"
    assert "here.tar is written, 9 bytes" in done.stdout
    assert "BUNDLE=here.tar" in done.stdout


def test_make_hands_on_what_is_typed() -> None:
    asked = made("bundle", "RELEASES=trixie", "DATASETS=cifar10,synthetic", "OUT=a b.tar")
    assert "bundle --releases 'trixie' --datasets 'cifar10,synthetic' --out 'a b.tar'" in asked
    used = made("setup", "BUNDLE=/media/stick/a b.tar")
    assert "./unbundle.sh '/media/stick/a b.tar'" in used
    assert "unbundle.sh" not in made("setup")
