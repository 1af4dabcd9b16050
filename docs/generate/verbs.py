"""The page about the verbs of `warpdeck`, written from their rows."""

from __future__ import annotations

from warpdeck.cli.arguments import Argument, flat
from warpdeck.cli.index import SUMMARIES, load
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import Verb

from .markdown import block, cell, code, escaped, page, prose, sentence, table


def _name_of(argument: Argument) -> str:
    """Return an argument as a user writes it: "-u, --user USER,..."."""
    names = ", ".join(argument.names) if argument.is_option else ""
    return f"{names} {argument.value}".strip()


def _synopsis(verb: Verb, command: str) -> str:
    """Return one line of usage. argparse's own differs between the versions of Python."""
    words = [command]
    arguments = list(flat(verb.arguments))
    if any(each.is_option for each in arguments):
        words.append("[OPTIONS]")
    for each in arguments:
        if not each.is_option:
            name = each.value
            many = {"*": f"[{name} ...]", "+": f"{name} [{name} ...]", "?": f"[{name}]"}
            words.append(many.get(each.nargs, name))
    return " ".join([*words, "VERB ..."] if verb.subverbs else words)


def _section(verb: Verb, command: str, *, level: int) -> str:
    parts = [
        f"{'#' * level} {command}\n",
        prose(verb.about),
        block(_synopsis(verb, command)),
        table(
            ["Argument or option", "Meaning"],
            [[code(_name_of(each)), cell(sentence(each.help))] for each in flat(verb.arguments)],
        ),
        "Examples:\n\n" + block("\n".join(verb.examples)),
        block(verb.notes) if verb.notes else "",
        *(_section(each, f"{command} {each.name}", level=level + 1) for each in verb.subverbs),
    ]
    return "\n".join(part for part in parts if part)


def commands_page() -> str:
    """Return the page of the verbs of `warpdeck`."""
    sections = []
    for name, summary in SUMMARIES.items():
        verb, command = load(name), f"warpdeck {name}"
        if not isinstance(verb, SlurmVerb):
            sections.append(_section(verb, command, level=2))
        else:
            parts = [f"## {command}\n", escaped(sentence(summary)) + "\n", block(verb.help_text())]
            sections.append("\n".join(parts))
    overview = table(
        ["Command", "What it does"],
        [
            [f"[`warpdeck {name}`](#warpdeck-{name})", cell(sentence(summary))]
            for name, summary in SUMMARIES.items()
        ],
    )
    return page(
        "Commands",
        "`warpdeck` without a command opens the full-screen app. `warpdeck COMMAND --help` prints the text below in a terminal. "
        "The commands `submit`, `run`, `srun`, `salloc`, `jupyter` and `code` also take the options of "
        "[sbatch, salloc and srun](job-options.md). Slurm's commands have [their own page](slurm-commands.md).\n",
        overview,
        *sections,
    )
