"""Completion candidates depend only on the words, the command's description, and the existing names."""

from __future__ import annotations

import pytest

from warpdeck.cli.arguments import Argument
from warpdeck.cli.index import SUMMARIES
from warpdeck.cli.shared.candidates import (
    Candidate,
    Grammar,
    candidates,
    descriptions,
    grammar_of,
    value_of_option,
)
from warpdeck.cli.verbs.completion import complete, rejoined

STOP = (
    Argument("[JOB ...]", "12, or 12_3"),
    Argument("--me", "only mine"),
    Argument("-u, --user USER,...", "of these"),
    Argument("--to NODE", "there"),
    Argument("--step {1s,10s}", "how long\n(roughly)"),
    Argument("--comment TEXT"),
)
SUBVERBS = (Candidate("add", "a host"), Candidate("rm", "no more"))
HELP = """\
usage: stop [OPTIONS] JOB

  -q, --quiet               print nothing
  -u USER, --user USER      of these
  -N NODES  -n TASKS  -c CPUS_PER_TASK
  --hold[=SIGNAL]           wait
  --comment TEXT

examples:
  stop -x 12
"""
NAMES = {
    "jobs": [Candidate("12", "train RUNNING"), Candidate("13"), Candidate("2")],
    "users": [Candidate("ann"), Candidate("bob"), Candidate("o'brien")],
    "nodes": [Candidate("gpu01")],
}


def offered(*words: str, grammar: Grammar | None = None) -> list[str]:
    found = candidates(words, grammar or grammar_of(STOP), lambda kind: NAMES.get(kind, []))
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
def test_words_options_values_and_lists_are_offered(words: list[str], found: list[str]) -> None:
    assert offered(*words) == found


def test_a_name_that_a_shell_would_take_apart_is_not_offered() -> None:
    assert offered("-u", "o") == []


def test_a_place_that_does_not_repeat_is_filled_once() -> None:
    once = grammar_of([Argument("JOB")])
    assert (offered("", grammar=once), offered("12", "", grammar=once)) == (["12", "13", "2"], [])


def test_sub_verbs_are_offered_with_their_summaries() -> None:
    grammar = grammar_of([], SUBVERBS)
    assert offered("", grammar=grammar) == ["add", "rm"]
    assert candidates(["r"], grammar, lambda kind: []) == [Candidate("rm", "no more")]


def test_options_have_the_first_line_of_their_help() -> None:
    about = grammar_of(STOP).about
    assert (about["--to"], about["-u"], about["--step"]) == ("there", "of these", "how long")


def test_descriptions_are_read_from_a_help_that_is_a_text() -> None:
    found = descriptions(HELP)
    assert (found["--quiet"], found["-q"], found["--user"]) == ("print nothing", "print nothing", "of these")
    assert (found["-N"], found["--hold"], found["--comment"]) == ("", "wait", "")
    assert "-x" not in found


@pytest.mark.parametrize(
    ("name", "kind"), [("jobs", "jobs"), ("nodelist", "nodes"), ("partition", "partitions"), ("ntasks", "")]
)
def test_what_a_value_is_follows_from_the_name_of_slurm_s_option(name: str, kind: str) -> None:
    assert value_of_option(name).kind == kind


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
def test_bash_s_pieces_are_put_together_again(pieces: list[str], words: list[str]) -> None:
    assert rejoined(pieces) == words


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("WARPDECK_HOME", f"{tmp_path}/home")


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("warpdeck can", "cancel"),
        ("warpdeck node ", "drain"),
        ("warpdeck node drain --j", "--json"),
        ("warpdeck snapshot ", "diff"),
        ("warpdeck jupyter --gpus-per-n", "--gpus-per-node"),
        ("warpdeck jupyter --det", "--detach"),
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
def test_verbs_and_commands_tell_their_options_without_a_controller(line: str, among: str) -> None:
    assert among in [each.word for each in complete(line.split(" "))]


@pytest.mark.usefixtures("_alone")
def test_nothing_is_offered_where_files_are_meant_or_nobody_answers() -> None:
    for line in (
        "sbatch tr",
        "warpdeck submit tr",
        "warpdeck nowhere ",
        "squeue -j ",
        "scancel ",
        "warpdeck submit --out=x",
        "warpdeck snapshot show ",
    ):
        assert complete(line.split(" ")) == [], line


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("verb", sorted(SUMMARIES))
def test_every_verb_can_be_completed(verb: str) -> None:
    assert complete(["warpdeck", verb, "--"]) != []
