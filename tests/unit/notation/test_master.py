"""What a step or a job that is started from a task of ours takes along of its variables: nothing that is not its own."""

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


def test_what_another_step_was_told_does_not_go_along() -> None:
    assert exported("ALL", OURS) == {"HOME": "/home/a"}
    assert not has_own_master(OURS)


def test_what_the_user_sets_over_it_stays() -> None:
    own = {**OURS, "MASTER_PORT": "29500"}
    assert has_own_master(own)
    kept = without_training(own)
    assert (kept["MASTER_ADDR"], kept["MASTER_PORT"], "RANK" in kept) == ("10.0.0.1", "29500", False)


def test_an_environment_that_is_none_of_ours_stays_as_it_is() -> None:
    theirs = {"RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    assert without_training(theirs) == theirs and has_own_master(theirs)
