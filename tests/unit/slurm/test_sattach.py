import pytest

from warpdeck.slurm.viewers.sattach import layout

PARTS = [{"node": "n1", "tasks": 2}, {"node": "n2", "tasks": 1}]


@pytest.mark.parametrize(("cyclic", "first", "second"), [(False, "0 1", "2"), (True, "0 2", "1")])
def test_tasks_are_told_node_by_node(cyclic: bool, first: str, second: str) -> None:
    assert layout(PARTS, cyclic=cyclic) == (
        "Job step layout:\n\t3 tasks, 2 nodes (n[1-2])\n\n"
        f"\tNode 0 (n1), 2 task(s): {first} \n\tNode 1 (n2), 1 task(s): {second} "
    )
