"""`warpdeck completion bash|zsh|fish`: print a script for the shell's Tab key.

It completes verbs, options, and the present jobs, nodes and partitions. The script calls `warpdeck completion
--words SHELL -- WORD...`. `candidates` chooses the words, and `live_names` asks the controller for names.
"""

from __future__ import annotations

import importlib
import os

from warpdeck.base.engine_choice import use_engine
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean
from warpdeck.base.paths import ENGINE_TITLES, ENGINES
from warpdeck.cli.arguments import ANY_JOBS, JOBS, NODES, PARTITIONS, RESERVATIONS, Argument, flat
from warpdeck.cli.index import SUMMARIES, load
from warpdeck.cli.shared.candidates import (
    Candidate,
    Grammar,
    ValueChoices,
    candidates,
    descriptions,
    grammar_of,
    value_of_option,
)
from warpdeck.cli.shared.engine_option import OPTION
from warpdeck.cli.shared.live_names import live_names
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import Verb
from warpdeck.notation.options.option_table import NONE, REFUSED, SALLOC, SBATCH, SRUN, OptionTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

BASH = """\
_warpdeck_complete() {
    local IFS=$'\\n'
    COMPREPLY=($(warpdeck completion --words bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _warpdeck_complete COMMANDS
"""
ZSH = """\
#compdef COMMANDS
_warpdeck() {
    local -a found
    found=(${(f)"$(warpdeck completion --words zsh -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then _describe -V warpdeck found; else _files; fi
}
if [ "$funcstack[1]" = _warpdeck ]; then _warpdeck "$@"; else compdef _warpdeck COMMANDS; fi
"""
FISH = """\
function __warpdeck_complete
    set -l found (warpdeck completion --words fish -- (commandline -opc) (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
for name in COMMANDS
    complete -c $name -f -a '(__warpdeck_complete)'
end
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
_TABLES = {"sbatch": SBATCH, "srun": SRUN, "salloc": SALLOC}
_SHOWN = {
    "job": JOBS, "step": JOBS, "node": NODES, "partition": PARTITIONS, "reservation": RESERVATIONS,
    "config": "", "hostnames": "", "hostlist": "", "assoc_mgr": "", "daemons": "", "licenses": "",
}  # fmt: skip
"""Maps the words after `scontrol show` to the kind of the names that follow them."""
_KEYS = {"jobid": JOBS, "nodename": NODES, "partitionname": PARTITIONS, "reservationname": RESERVATIONS}
"""Kinds of the values in scontrol's KEY=NAME."""
_ABOUT_JOBS = frozenset(
    {"hold", "uhold", "holdu", "release", "requeue", "requeuehold", "suspend", "resume", "top", "wait_job"}
)


def _print_script(args: Namespace) -> int:
    print(SHELLS[args.shell].replace("COMMANDS", " ".join(_commands())), end="")
    return 0


def _commands() -> list[str]:
    """Return the completed commands: warpdeck, and the commands that `warpdeck shims` puts on the PATH."""
    from warpdeck.slurm.command_table import COMMANDS, FRONTED

    return ["warpdeck", *sorted({*COMMANDS, *FRONTED})]


def _answer(words: list[str]) -> int:
    """Print the candidates for the last word, one per line, in the shell's format. An error leaves the user's
    line alone.
    """
    shell, line = words[0] if words else "", words[2:] if words[1:2] == ["--"] else words[1:]
    if shell not in SHELLS or len(line) < 2:
        raise UserError(
            "usage: warpdeck completion --words SHELL -- COMMAND WORD...", "see `warpdeck completion --help`"
        )
    if shell == "bash":
        line = rejoined(line)
    for each in complete(line):
        print(_shown(each, shell, line[-1]))
    return 0


def rejoined(pieces: list[str]) -> list[str]:
    """Join bash's words again, because bash also splits words at = and :."""
    words: list[str] = []
    glue = False
    for piece in pieces:
        cut = piece != "" and not piece.strip("=:")
        if words[1:] and (cut or glue) and (words[-1] or cut):
            words[-1] += piece
        else:
            words.append(piece)
        glue = cut
    return words


def _shown(candidate: Candidate, shell: str, current: str) -> str:
    word, about = clean(candidate.word), clean(candidate.about)  # a job's name is never a candidate
    if shell == "bash":  # bash replaces only its own last word
        return word[max(current.rfind("="), current.rfind(":")) + 1 :]
    if shell == "zsh":
        return word.replace(":", "\\:") + (f":{about}" if about else "")
    return f"{word}\t{about}"


def complete(line: list[str]) -> list[Candidate]:
    """Return the candidates for the last word of a command line."""
    command, *words = line
    command = os.path.basename(command)
    if command == "scontrol":
        return _of_scontrol(words)
    if command != "warpdeck":
        return candidates(words, _of_slurm(command), live_names)
    if words[0] == OPTION:
        if len(words) == 2:
            return [Candidate(name, ENGINE_TITLES[name]) for name in ENGINES if name.startswith(words[1])]
        if words[1] in ENGINES:
            use_engine(words[1])  # The names of this engine are offered.
        words = words[2:]
    if len(words) == 1:
        return [Candidate(verb, about) for verb, about in SUMMARIES.items() if verb.startswith(words[0])]
    verb, *words = words
    if verb not in SUMMARIES:
        return []
    row = load(verb)
    subverbs = {each.name: each for each in row.subverbs}
    if len(words) > 1 and words[0] in subverbs:
        return candidates(words[1:], grammar_of(flat(subverbs[words[0]].arguments)), live_names)
    return candidates(words, _of_row(row), live_names)


def _of_row(row: Verb) -> Grammar:
    grammar = grammar_of(flat(row.arguments), [Candidate(each.name, each.summary) for each in row.subverbs])
    if not isinstance(row, SlurmVerb):
        return grammar
    about = {**descriptions(row.help_text()), **grammar.about}
    return _with(grammar._replace(about=about), _TABLES[row.takes])


def _of_slurm(command: str) -> Grammar:
    """Return the grammar of one of Slurm's commands."""
    from warpdeck.slurm.command_table import COMMANDS

    if command in _TABLES:
        return _with(Grammar({}, {}), _TABLES[command])
    module = importlib.import_module(f"warpdeck.slurm.{COMMANDS[command]}") if command in COMMANDS else None
    known: OptionTable | None = getattr(module, "OPTIONS", None)
    places = [ValueChoices(JOBS)] if command == "scancel" else []
    grammar = Grammar({}, descriptions(getattr(module, "HELP", "")), places, bool(places))
    return grammar if known is None else _with(grammar, known, any_job=command == "sacct")


def _with(grammar: Grammar, known: OptionTable, *, any_job: bool = False) -> Grammar:
    """Return the grammar with the options of a Slurm command. Those that it refuses are left out."""
    found = dict(grammar.options)
    for name, option in known.options.items():
        if option.here == REFUSED:
            continue
        value = None if option.takes == NONE else value_of_option(name)
        if any_job and value == ValueChoices(JOBS):
            value = ValueChoices(ANY_JOBS)
        found[f"--{name}"] = value
        if option.short:
            found[f"-{option.short}"] = value
    return grammar._replace(options=found)


def _of_scontrol(words: list[str]) -> list[Candidate]:
    """Return the candidates for scontrol: a subcommand, then its argument."""
    from warpdeck.slurm.scontrol.keywords import KEYWORDS

    *before, current = words
    order, *given = [word for word in before if not word.startswith("-")] or [""]
    key, equals, value = current.partition("=")
    place = ValueChoices()
    if equals:
        found = candidates([value], Grammar({}, {}, [ValueChoices(_KEYS.get(key.lower(), ""))]), live_names)
        return [Candidate(f"{key}={word}", about) for word, about in found]
    if not order:
        place = ValueChoices(words=tuple(Candidate(word) for word in KEYWORDS))
    elif order == "show":
        place = (
            ValueChoices(_SHOWN.get(given[0], ""))
            if given
            else ValueChoices(words=tuple(Candidate(word) for word in _SHOWN))
        )
    elif order in _ABOUT_JOBS:
        place = ValueChoices(JOBS)
    return candidates([current], Grammar({}, {}, [place]), live_names)


VERBS = (
    Verb(
        "completion", """\
Print the completion script of a shell, for warpdeck and the Slurm commands. Tab completes verbs, options,
jobs, nodes, partitions, users, accounts and QoS.""",
        (Argument("{bash,zsh,fish}", "the shell", into="shell"),),
        examples=(
            'eval "$(warpdeck completion bash)"                             in ~/.bashrc',
            'eval "$(warpdeck completion zsh)"                              in ~/.zshrc, after compinit',
            "warpdeck completion fish | source                              in ~/.config/fish/config.fish",
        ),
        reads=False, internal={"--words": _answer}, run=_print_script,
    ),
)  # fmt: skip
