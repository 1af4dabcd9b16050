"""Variables for distributed training that a job or step does not inherit from the task that starts it."""

from __future__ import annotations

from warpdeck.notation.values.exports import exported
from warpdeck.notation.values.master_address import has_own_master, without_training

OURS = {
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "20001",
    "WARPDECK_MASTER": "10.0.0.1:20001",
    "RANK": "3",
    "PET_NNODES": "2",
    "JAX_COORDINATOR_ADDRESS": "10.0.0.1:20001",
    "HOME": "/home/a",
}


def test_training_variables_of_another_step_are_removed() -> None:
    assert exported("ALL", OURS) == {"HOME": "/home/a"}
    assert not has_own_master(OURS)


def test_training_variables_that_the_user_changed_are_kept() -> None:
    own = {**OURS, "MASTER_PORT": "29500"}
    assert has_own_master(own)
    kept = without_training(own)
    assert (kept["MASTER_ADDR"], kept["MASTER_PORT"], "RANK" in kept) == ("10.0.0.1", "29500", False)


def test_an_environment_without_our_variables_is_unchanged() -> None:
    theirs = {"RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    assert without_training(theirs) == theirs and has_own_master(theirs)
