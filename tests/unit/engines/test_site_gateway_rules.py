"""Which answers the site gateway shares, whom a user's gateway believes, and how often a user may ask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from warpdeck.engines.slurm.cluster.questions import COMMANDS, Question, form_of
from warpdeck.engines.slurm.site_gateway.privacy import withheld
from warpdeck.engines.slurm.site_gateway.server import MAX_QUESTIONS, MAX_USERS, QUESTIONS_A_SECOND, Budgets
from warpdeck.engines.slurm.site_gateway.trust import trusted_uids
from warpdeck.engines.slurm.site_gateway.wire import cluster_of

OPEN = {"ClusterName": "atlas", "PrivateData": "none", "MCSParameters": "(null)"}
GPU = "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL Hidden=NO State=UP\n"
CLOSED = "PartitionName=closed AllowGroups=physics,bio Hidden=NO State=UP\n"
HIDDEN = "PartitionName=secret AllowGroups=ALL Hidden=YES State=UP\n"
Q = Question


def test_an_open_site_shares_everything() -> None:
    assert withheld(OPEN, GPU) == {}


def test_nothing_is_shared_before_the_configuration_is_known() -> None:
    assert withheld({}, GPU).keys() == set(Question)


@pytest.mark.parametrize(
    ("private", "questions"),
    [
        ("jobs", {Q.QUEUE, Q.ALLOCATIONS}),
        ("nodes", {Q.NODES}),
        ("partitions", {Q.NODES, Q.PARTITIONS}),
        ("reservations", {Q.RESERVATIONS}),
        ("accounts,usage,users", set()),
        ("Accounts, Jobs", {Q.QUEUE, Q.ALLOCATIONS}),
        ("all", {Q.QUEUE, Q.ALLOCATIONS, Q.NODES, Q.PARTITIONS, Q.RESERVATIONS}),
    ],
)
def test_a_private_subject_is_withheld_with_its_setting(private: str, questions: set[Question]) -> None:
    found = withheld(OPEN | {"PrivateData": private}, GPU)
    assert found.keys() == questions
    assert all(reason.startswith("PrivateData=") for reason in found.values())


def test_the_security_categories_of_slurm_withhold_jobs_and_nodes() -> None:
    found = withheld(OPEN | {"MCSParameters": "enforced,select,privatedata:a|b"}, GPU)
    assert found == dict.fromkeys((Q.QUEUE, Q.NODES, Q.ALLOCATIONS), "MCSParameters=privatedata")


@pytest.mark.parametrize(
    ("partition", "reason"),
    [(CLOSED, "partition closed has AllowGroups"), (HIDDEN, "partition secret is hidden")],
)
def test_a_partition_that_some_users_do_not_see_withholds_nodes_and_partitions(
    partition: str, reason: str
) -> None:
    found = withheld(OPEN, GPU + partition)
    assert found == dict.fromkeys((Q.NODES, Q.ALLOCATIONS, Q.PARTITIONS), reason)


def test_no_question_has_a_word_of_a_user_and_each_has_its_own_form() -> None:
    assert COMMANDS.keys() == set(Question)
    assert {command.argv[0] for command in COMMANDS.values()} == {"squeue", "scontrol", "sdiag"}
    assert len({form_of(question) for question in Question}) == len(Question)


def test_two_clusters_of_the_same_name_are_told_apart() -> None:
    first = OPEN | {"SlurmctldHost[0]": "a(10.0.0.1)", "SlurmctldPort": "6817"}
    assert cluster_of(first) == "atlas on a(10.0.0.1) port 6817"
    assert cluster_of(first) != cluster_of(first | {"SlurmctldHost[0]": "b(10.0.0.2)"})
    assert cluster_of({}) == ""


@pytest.fixture
def roots_folder() -> Iterator[Path]:
    """A folder that only root can create and change. Tests that use it have the mark `root`."""
    with TemporaryDirectory(prefix="warpdeck-test", dir="/var/lib") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.root
def test_the_owner_of_a_folder_that_only_root_can_create_is_believed(roots_folder: Path) -> None:
    home = roots_folder / "slurm"
    home.mkdir()
    os.chown(home, 4711, 4711)
    assert trusted_uids(str(home), owner="", uid=1000) == {0, 1000, 4711}
    link = roots_folder / "link"
    link.symlink_to(home)
    assert trusted_uids(str(link), owner="", uid=1000) == {0, 1000}
    os.chmod(roots_folder, 0o777)
    assert trusted_uids(str(home), owner="", uid=1000) == {0, 1000}


def test_a_folder_that_anybody_can_create_proves_nothing(short_tmp: Path) -> None:
    assert trusted_uids(str(short_tmp), owner="", uid=1000) == {0, 1000}
    assert trusted_uids(str(short_tmp / "missing"), owner="", uid=1000) == {0, 1000}


def test_the_settings_name_one_account_and_no_other_is_believed(short_tmp: Path) -> None:
    assert trusted_uids(str(short_tmp), owner="nobody", uid=1000) == {0, 1000, 65534}
    assert trusted_uids(str(short_tmp), owner="no-such-account", uid=1000) == {0, 1000}


def test_a_user_who_asks_too_often_waits_and_delays_no_other() -> None:
    budgets = Budgets()
    assert sum(budgets.take(1, 0.0) for _ in range(10 * MAX_QUESTIONS)) == MAX_QUESTIONS
    assert budgets.take(2, 0.0)
    assert sum(budgets.take(1, 10.0) for _ in range(10 * MAX_QUESTIONS)) == 10 * QUESTIONS_A_SECOND
    for uid in range(MAX_USERS + 10):
        budgets.take(uid, 20.0)
    assert len(budgets._left) <= MAX_USERS
