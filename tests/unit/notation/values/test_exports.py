"""The variables that --export sends, compared with sbatch 22.05."""

from __future__ import annotations

import pytest

from warpdeck.notation.values.exports import exported, invalid_names

ENVIRON = {"A": "1", "B": "2", "SLURM_JOB_ID": "9", "SLURM_MPI_TYPE": "pmi2", "WARPDECK_HOME": "/x"}
OWN = {"A": "1", "B": "2", "SLURM_MPI_TYPE": "pmi2"}


@pytest.mark.parametrize(
    ("export", "sent"),
    [
        ("ALL", OWN),
        ("all", OWN),
        ("ALL,", OWN),
        ("NONE", {}),
        ("none", {}),
        ("NIL", {}),
        ("", {}),
        ("A", {"A": "1"}),
        ("A=5", {"A": "5"}),
        ("A=", {"A": ""}),
        ("A,,B", {"A": "1", "B": "2"}),
        ("ALL,A=7", OWN | {"A": "7"}),
        ("A,B=x,ALL", OWN),
        ("NONE,A", {"A": "1"}),
        ("A=1,A=2", {"A": "2"}),
        ("C=a=b", {"C": "a=b"}),
        ("C='a,b'", {"C": "'a,b'"}),
        ('C="x,y",D=z', {"C": '"x,y"', "D": "z"}),
        ("C='a'b,D=1", {"C": "'a'b", "D": "1"}),
        ("C='a b", {"C": "'a b"}),
        ("C=it's,D=1", {"C": "it's", "D": "1"}),
        ("C=a\\,b", {"C": "a\\"}),
        ("C=$HOME", {"C": "$HOME"}),
        ("X", {}),
        ("A=\udcff,B=x", {"B": "x"}),
        ("A ,B", {"B": "2"}),
        ("-", {}),
        ("1A=2,B", {"B": "2"}),
        ("SLURM_JOB_ID", {}),
    ],
)
def test_export_sends_the_same_variables_as_sbatch(export: str, sent: dict[str, str]) -> None:
    assert exported(export, ENVIRON) == sent


def test_invalid_variable_names_are_reported() -> None:
    assert invalid_names("ALL,1A=2,C=3,T.C=x,-") == ["1A", "T.C"]


def test_a_value_with_very_many_quotes_is_read_quickly() -> None:
    assert len(exported("A=" + "'" * 100_001 + ",B=" + '"' * 100_001, {})) == 2
