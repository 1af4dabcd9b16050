"""`warpdeck completion bash|zsh|fish`: print a script for the shell's Tab key.

It completes verbs, options, and the present jobs, nodes and partitions. The script calls `warpdeck completion
--words SHELL WORD...`. `candidates` and `livenames` contain the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections.abc import Iterator, Mapping

from warpdeck.base.errors import UserError, WarpdeckError
from warpdeck.base.output import clean
from warpdeck.cli.shared.arguments import Arguments
from warpdeck.cli.shared.candidates import (
    JOBS,
    NODES,
    PARTITIONS,
    RESERVATIONS,
    Candidate,
    Grammar,
    Live,
    Value,
    candidates,
    grammar_of_help,
    value_named,
)
from warpdeck.cli.shared.live_names import live_names
from warpdeck.notation.options.option_table import NONE, REFUSED, Option

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
HELP_COLUMNS = "1000"
"""Wide enough that no line of a help is wrapped."""
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


def main(_: str, words: list[str]) -> int:
    """Print a shell's script, or candidates."""
    if words[:1] == ["--words"]:
        return _answer(words[1:])
    parser = Arguments(
        "warpdeck completion",
        description="Print the completion script of a shell, for warpdeck and the Slurm commands. Tab completes verbs, options,\n"
        "jobs, nodes, partitions, users, accounts and QoS.",
        examples=(
            'eval "$(warpdeck completion bash)"                             in ~/.bashrc',
            'eval "$(warpdeck completion zsh)"                              in ~/.zshrc, after compinit',
            "warpdeck completion fish | source                              in ~/.config/fish/config.fish",
        ),
    )
    parser.add_argument("shell", choices=list(SHELLS), help="shell")
    args = parser.parse_args(words)
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
    if command != "warpdeck":
        live = live_names(command)
        return (
            _of_scontrol(words, live)
            if command == "scontrol"
            else candidates(words, _of_slurm(command), live)
        )
    from warpdeck.cli.main import VERBS

    if len(words) == 1:
        return [Candidate(verb, about) for verb, (_, about) in VERBS.items() if verb.startswith(words[0])]
    verb, *words = words
    if verb not in VERBS:
        return []
    grammar = _of_verb(verb, [])
    first = grammar.places[0] if grammar.places else Value()
    if len(words) > 1 and words[0] in {each.word for each in first.words}:
        return candidates(words[1:], _of_verb(verb, words[:1]), live_names(words[0]))
    return candidates(words, grammar, live_names(verb))


def _of_verb(verb: str, subverb: list[str]) -> Grammar:
    """Return a verb's grammar from its own help and, if it takes options of sbatch or srun, from their table."""
    from warpdeck.cli.main import VERBS

    text = io.StringIO()
    with _wide(), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit, WarpdeckError):
        importlib.import_module(f"warpdeck.{VERBS[verb][0]}").main(verb, [*subverb, "--help"])
    grammar = grammar_of_help(text.getvalue())
    table = {"submit": "sbatch", "run": "srun", "srun": "srun", "salloc": "salloc"}.get(verb)
    return grammar if table is None else _of_table(table, grammar)


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    """Set COLUMNS, from which argparse takes the length of its lines."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = HELP_COLUMNS
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def _of_slurm(command: str) -> Grammar:
    """Return the grammar of one of Slurm's commands."""
    from warpdeck.slurm.command_table import COMMANDS

    if command in ("sbatch", "srun", "salloc"):
        return _of_table(command, Grammar({}, {}))
    module = importlib.import_module(f"warpdeck.slurm.{COMMANDS[command]}") if command in COMMANDS else None
    known = getattr(module, "OPTIONS", None)
    places = [Value(JOBS)] if command == "scancel" else []
    told = grammar_of_help(getattr(module, "HELP", ""))
    return _with(Grammar({}, told.about, places, bool(places)), {} if known is None else known.options)


def _of_scontrol(words: list[str], live: Live) -> list[Candidate]:
    """Return the candidates for scontrol: a subcommand, then its argument."""
    from warpdeck.slurm.scontrol.keywords import KEYWORDS

    *before, current = words
    order, *given = [word for word in before if not word.startswith("-")] or [""]
    key, equals, value = current.partition("=")
    place = Value()
    if equals:
        found = candidates([value], Grammar({}, {}, [Value(_KEYS.get(key.lower(), ""))]), live)
        return [Candidate(f"{key}={word}", about) for word, about in found]
    if not order:
        place = Value(words=tuple(Candidate(word) for word in KEYWORDS))
    elif order == "show":
        place = (
            Value(_SHOWN.get(given[0], ""))
            if given
            else Value(words=tuple(Candidate(word) for word in _SHOWN))
        )
    elif order in _ABOUT_JOBS:
        place = Value(JOBS)
    return candidates([current], Grammar({}, {}, [place]), live)


def _of_table(command: str, grammar: Grammar) -> Grammar:
    """Return the grammar with the options of sbatch, srun or salloc. Their arguments are files."""
    from warpdeck.notation.options import option_table as options

    tables = {"sbatch": options.SBATCH, "srun": options.SRUN, "salloc": options.SALLOC}
    return _with(Grammar(grammar.options, grammar.about), tables[command].options)


def _with(grammar: Grammar, known: Mapping[str, Option]) -> Grammar:
    found = dict(grammar.options)
    for name, option in known.items():
        if option.here == REFUSED:
            continue
        value = None if option.takes == NONE else value_named(name)
        found[f"--{name}"] = value
        if option.short:
            found[f"-{option.short}"] = value
    return grammar._replace(options=found)
