"""Completion candidates depend only on the words, the command's description, and the existing names."""

from __future__ import annotations

import pytest

from warpdeck.cli.main import VERBS
from warpdeck.cli.shared.candidates import Candidate, Grammar, candidates, grammar_of_help, value_named
from warpdeck.cli.verbs.completion import complete, rejoined

HELP = """\
usage: warpdeck stop [-h] [--me] [-u USER,...] [--step {1s,10s}] [JOB ...]

Stops.

positional arguments:
  JOB                       12, or 12_3

options:
  -h, --help                show this help message and exit
  --me                      only mine
  -u USER,..., --user USER,...  of these
  --to NODE                 there
  --step {1s,10s}           how long
  --comment TEXT

examples:
  warpdeck stop -x 12
"""
SUBVERBS = "positional arguments:\n  VERB\n    add       a host\n    rm        no more\n\noptions:\n  -h, --help  this\n"
NAMES = {
    "jobs": [Candidate("12", "train RUNNING"), Candidate("13"), Candidate("2")],
    "users": [Candidate("ann"), Candidate("bob"), Candidate("o'brien")],
    "nodes": [Candidate("gpu01")],
}


def offered(*words: str, grammar: Grammar | None = None) -> list[str]:
    found = candidates(words, grammar or grammar_of_help(HELP), lambda kind: NAMES.get(kind, []))
    return [each.word for each in found]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["1"], ["12", "13"]),
        (["12", ""], ["12", "13", "2"]),
        (["-"], ["--comment", "--help", "--me", "--step", "--to", "--user", "-h", "-u"]),
        (["--u"], ["--user"]),
        (["--user", "a"], ["ann"]),
        (["--user=a"], ["--user=ann"]),
        (["-ua"], ["-uann"]),
        (["-u", "ann,"], ["ann,bob"]),
        (["--me", "2"], ["2"]),
        (["--to", ""], ["gpu01"]),
        (["--step", "1"], ["1s", "10s"]),
        (["--comment", ""], []),
        (["--me=x"], []),
        (["--", "-"], []),
        (["--", "1"], ["12", "13"]),
        (["--nowhere", "1"], ["12", "13"]),
    ],
)
def test_candidates_cover_arguments_options_values_and_lists(words: list[str], found: list[str]) -> None:
    assert offered(*words) == found


def test_names_that_need_quoting_are_not_offered() -> None:
    assert offered("-u", "o") == []


def test_an_argument_that_does_not_repeat_is_completed_once() -> None:
    once = grammar_of_help(HELP.replace("[JOB ...]", "JOB"))
    assert (offered("", grammar=once), offered("12", "", grammar=once)) == (["12", "13", "2"], [])


def test_a_handwritten_help_is_parsed_by_its_first_usage_line() -> None:
    handwritten = grammar_of_help(
        "usage: warpdeck stop [OPTIONS] [--now] JOB\n       warpdeck start NODE\n\nStops.\n"
    )
    assert (offered("--", grammar=handwritten), offered("1", grammar=handwritten)) == (
        ["--now"],
        ["12", "13"],
    )


def test_subverbs_are_read_from_the_help_but_examples_are_not() -> None:
    assert offered("", grammar=grammar_of_help(SUBVERBS)) == ["add", "rm"]
    assert "-x" not in grammar_of_help(HELP).options
    assert grammar_of_help(HELP).about["--to"] == "there"


@pytest.mark.parametrize(
    ("name", "kind"), [("JOB,...", "jobs"), ("[NODE]", "nodes"), ("--partition", "partitions"), ("N", "")]
)
def test_the_name_of_a_value_determines_its_kind(name: str, kind: str) -> None:
    assert value_named(name).kind == kind


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["squeue", "--partition", "=", "g"], ["squeue", "--partition=g"]),
        (["squeue", "--partition", "="], ["squeue", "--partition="]),
        (["sbatch", "-d", "afterok", ":", "1"], ["sbatch", "-d", "afterok:1"]),
        (["squeue", "-j", ""], ["squeue", "-j", ""]),
        (["scancel", "--me", "1"], ["scancel", "--me", "1"]),
    ],
)
def test_words_that_bash_split_are_joined_again(pieces: list[str], words: list[str]) -> None:
    assert rejoined(pieces) == words


@pytest.fixture
def _no_controller(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("WARPDECK_HOME", f"{tmp_path}/home")


@pytest.mark.usefixtures("_no_controller")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("warpdeck can", "cancel"),
        ("warpdeck node ", "drain"),
        ("warpdeck node drain --j", "--json"),
        ("warpdeck submit --gpus-per-n", "--gpus-per-node"),
        ("warpdeck submit --dry", "--dry-run"),
        ("warpdeck run --p", "--pty"),
        ("warpdeck queue -t PEND", "PENDING"),
        ("warpdeck metrics --step ", "10s"),
        ("warpdeck completion ", "fish"),
        ("/any/where/squeue --st", "--start"),
        ("squeue -t R", "RUNNING"),
        ("sacct --state", "--state"),
        ("sbatch --mail-t", "--mail-type"),
        ("srun --multi", "--multi-prog"),
        ("scontrol sh", "show"),
        ("scontrol show par", "partition"),
    ],
)
def test_options_and_subverbs_complete_without_a_controller(line: str, expected: str) -> None:
    assert expected in [each.word for each in complete(line.split(" "))]


@pytest.mark.usefixtures("_no_controller")
def test_completion_is_empty_for_file_names_and_without_a_controller() -> None:
    for line in (
        "sbatch tr",
        "warpdeck submit tr",
        "warpdeck nowhere ",
        "squeue -j ",
        "scancel ",
        "warpdeck submit --out=x",
    ):
        assert complete(line.split(" ")) == [], line


@pytest.mark.usefixtures("_no_controller")
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_can_be_completed(verb: str) -> None:
    assert complete(["warpdeck", verb, "--"]) != []
