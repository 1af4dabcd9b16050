"""Umask and niceness of a submission: they are sent with every value of --export. An invalid umask has no effect."""

from __future__ import annotations

import os

import pytest

from warpdeck.notation.values.exports import exported
from warpdeck.notation.values.umask import DEFAULT, umask_of
from warpdeck_agent.client.process import with_process

NICE = str(os.getpriority(os.PRIO_PROCESS, 0))


def test_umask_and_niceness_of_the_caller_are_sent() -> None:
    before = os.umask(0o027)
    try:
        assert with_process({"A": "1"}) == {"A": "1", "SLURM_UMASK": "0027", "SLURM_PRIO_PROCESS": NICE}
        assert os.umask(0o027) == 0o027, "asking changes nothing"
    finally:
        os.umask(before)


def test_a_given_umask_is_kept_as_in_slurm() -> None:
    said = {"SLURM_UMASK": "0002", "SLURM_PRIO_PROCESS": "17"}
    assert with_process(said) == {"SLURM_UMASK": "0002", "SLURM_PRIO_PROCESS": NICE}


@pytest.mark.parametrize("export", ["ALL", "NONE", "A", "B=2"])
def test_no_value_of_export_removes_the_umask(export: str) -> None:
    sent = exported(export, {"A": "1", "SLURM_UMASK": "0077", "SLURM_PRIO_PROCESS": "5"})
    assert (sent["SLURM_UMASK"], sent["SLURM_PRIO_PROCESS"]) == ("0077", "5")


@pytest.mark.parametrize(
    ("text", "umask"),
    [
        ("0027", 0o027),
        ("77", 0o077),
        ("7777", 0o777),
        ("", DEFAULT),
        ("08", DEFAULT),
        ("-1", DEFAULT),
        ("00000", DEFAULT),
    ],
)
def test_an_invalid_umask_counts_as_none(text: str, umask: int) -> None:
    assert umask_of({"SLURM_UMASK": text}) == umask
