"""The table of verbs: each row keeps the house rules of the command line."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator

import pytest

from warpdeck.cli.arguments import flat
from warpdeck.cli.index import GROUPS, MODULES, SUMMARIES, load
from warpdeck.cli.main import main
from warpdeck.cli.parser import parse
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import Verb
from warpdeck.notation.options.option_table import SALLOC, SBATCH, SRUN


def rows() -> Iterator[tuple[str, Verb]]:
    """Yield each verb and sub-verb with its command."""
    for name in SUMMARIES:
        row = load(name)
        yield f"warpdeck {name}", row
        for each in row.subverbs:
            yield f"warpdeck {name} {each.name}", each


ROWS = dict(rows())
OWN = {command: row for command, row in ROWS.items() if not isinstance(row, SlurmVerb)}


def shown_help(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    try:
        code = main([*command.split()[1:], "--help"])
    except SystemExit as end:  # argparse ends --help with it
        code = int(end.code or 0)
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    return said.out


@pytest.mark.parametrize("command", ROWS)
def test_help_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown_help(command, capsys)
    assert "\n\nexamples:\n" in out and f"\n  {command}" in out


@pytest.mark.parametrize("command", [command for command, row in OWN.items() if row.reads])
def test_a_verb_that_reads_has_json(command: str) -> None:
    assert "--json" in {name for each in flat(OWN[command].arguments) for name in each.names}


@pytest.mark.parametrize("command", OWN)
def test_a_verb_has_one_function_or_sub_verbs(command: str) -> None:
    row = OWN[command]
    assert [bool(row.run), bool(row.ask), bool(row.subverbs)].count(True) == 1


@pytest.mark.parametrize("command", OWN)
def test_each_argument_of_a_verb_is_explained(command: str) -> None:
    unexplained = [each.names for each in flat(OWN[command].arguments) if not each.help]
    assert unexplained == []


@pytest.mark.parametrize("command", ROWS)
def test_the_examples_of_a_verb_are_valid(command: str) -> None:
    row = ROWS[command]
    for line in row.examples:
        text = re.split(r" {2,}| \| ", line)[0].removesuffix(" ...")
        if not text.startswith(command + " "):
            continue  # an example of a shell, or of another verb
        words = shlex.split(text)[len(command.split()) :]
        if isinstance(row, SlurmVerb):
            row.split(words, {"sbatch": SBATCH, "srun": SRUN, "salloc": SALLOC}[row.takes])
        else:
            parse(row, words)


def test_the_index_names_the_verbs_of_all_modules() -> None:
    for module in set(MODULES.values()):
        found = importlib.import_module(f"warpdeck.cli.verbs.{module}").VERBS
        assert {row.name for row in found} == {name for name, where in MODULES.items() if where == module}
    assert sum(map(len, GROUPS.values())) == len(SUMMARIES)
