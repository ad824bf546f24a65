"""Role dataset where one of several nodes lacks room: nothing is sent to the others either.

tests/node/test_dataset_transfer.py shows that a node without room fails, and says so with figures;
molecule/dataset what the role puts, mends and leaves alone.
"""

from ansible_here import tasks_of


def test_nothing_is_sent_while_one_node_has_no_room() -> None:
    tasks = tasks_of("dataset", "present")
    asked = [task.get("training_node", {}).get("verb") for task in tasks].index("stage_data")
    first_sent = min(
        number for number, task in enumerate(tasks) if "ansible.posix.synchronize" in task
    )
    assert asked < first_sent
    # Ansible goes to the next task on no host then.
    assert tasks[asked]["any_errors_fatal"] is True
    assert not tasks[asked].get("ignore_errors")
