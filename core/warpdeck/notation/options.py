"""sbatch's options: which there are, what they take, and getopt_long's habits (abbreviations, glued short options).

HONOURED change the request. HARMLESS cannot change what a job gets here; they are accepted with a note. Any other option of
sbatch is refused by name, because passing over it in silence would give the user something else than asked.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from warpdeck.errors import UserError

REQUIRED, NONE, OPTIONAL = "required", "none", "optional"

HONOURED: dict[str, tuple[str, str]] = {
    "account": ("A", REQUIRED),
    "array": ("a", REQUIRED),
    "begin": ("b", REQUIRED),
    "chdir": ("D", REQUIRED),
    "comment": ("", REQUIRED),
    "constraint": ("C", REQUIRED),
    "container-entrypoint": ("", NONE),
    "container-env": ("", REQUIRED),
    "container-image": ("", REQUIRED),
    "container-mount-home": ("", NONE),
    "container-mounts": ("", REQUIRED),
    "container-name": ("", REQUIRED),
    "container-readonly": ("", NONE),
    "container-remap-root": ("", NONE),
    "container-workdir": ("", REQUIRED),
    "container-writable": ("", NONE),
    "cpus-per-gpu": ("", REQUIRED),
    "cpus-per-task": ("c", REQUIRED),
    "deadline": ("", REQUIRED),
    "dependency": ("d", REQUIRED),
    "error": ("e", REQUIRED),
    "exclude": ("x", REQUIRED),
    "exclusive": ("", OPTIONAL),
    "export": ("", REQUIRED),
    "gpu-bind": ("", REQUIRED),
    "gpus": ("G", REQUIRED),
    "gpus-per-node": ("", REQUIRED),
    "gpus-per-task": ("", REQUIRED),
    "gres": ("", REQUIRED),
    "hold": ("H", NONE),
    "job-name": ("J", REQUIRED),
    "kill-on-invalid-dep": ("", REQUIRED),
    "licenses": ("L", REQUIRED),
    "mem": ("", REQUIRED),
    "mem-per-cpu": ("", REQUIRED),
    "mem-per-gpu": ("", REQUIRED),
    "nice": ("", OPTIONAL),
    "no-container-entrypoint": ("", NONE),
    "no-container-mount-home": ("", NONE),
    "no-container-remap-root": ("", NONE),
    "no-requeue": ("", NONE),
    "nodelist": ("w", REQUIRED),
    "nodes": ("N", REQUIRED),
    "ntasks": ("n", REQUIRED),
    "ntasks-per-node": ("", REQUIRED),
    "open-mode": ("", REQUIRED),
    "output": ("o", REQUIRED),
    "partition": ("p", REQUIRED),
    "priority": ("", REQUIRED),
    "qos": ("q", REQUIRED),
    "requeue": ("", NONE),
    "reservation": ("", REQUIRED),
    "signal": ("", REQUIRED),
    "switches": ("", REQUIRED),
    "tasks-per-node": ("", REQUIRED),
    "time": ("t", REQUIRED),
    "time-min": ("", REQUIRED),
}
HARMLESS: dict[str, tuple[str, str]] = {
    "acctg-freq": ("", REQUIRED),
    "container-entrypoint-log": ("", NONE),
    "get-user-env": ("", OPTIONAL),
    "gres-flags": ("", REQUIRED),
    "hint": ("", REQUIRED),
    "ignore-pbs": ("", NONE),
    "mail-type": ("", REQUIRED),
    "mail-user": ("", REQUIRED),
    "no-kill": ("k", OPTIONAL),
    "ntasks-per-core": ("", REQUIRED),
    "ntasks-per-socket": ("", REQUIRED),
    "overcommit": ("O", NONE),
    "oversubscribe": ("s", NONE),
    "parsable": ("", OPTIONAL),
    "propagate": ("", OPTIONAL),
    "quiet": ("Q", NONE),
    "threads-per-core": ("", REQUIRED),
    "use-min-nodes": ("", NONE),
    "verbose": ("v", NONE),
    "wait-all-nodes": ("", REQUIRED),
    "wckey": ("", REQUIRED),
}
COMMAND: dict[str, tuple[str, str]] = {
    "help": ("h", NONE),
    "test-only": ("", NONE),
    "usage": ("", NONE),
    "version": ("V", NONE),
    "wait": ("W", NONE),
    "wrap": ("", REQUIRED),
}
"""What sbatch itself does."""
_NOT_YET = """
batch bb bbf burst-buffer clusters container container-save core-spec cores-per-socket cpu-freq delay-boot distribution
extra-node-info gid gpu-freq input mem-bind mincpus nodefile ntasks-per-gpu power prefer profile sockets-per-node thread-spec
tmp tres-per-task uid
"""
_NOT_YET_FLAGS = "contiguous reboot spread-job"
REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_NOT_YET.split(), ("", REQUIRED)),
    **dict.fromkeys(_NOT_YET_FLAGS.split(), ("", NONE)),
    "distribution": ("m", REQUIRED),
    "clusters": ("M", REQUIRED),
    "input": ("i", REQUIRED),
}

ALL = {**REFUSED, **HARMLESS, **COMMAND, **HONOURED}


class Table(NamedTuple):
    """The options of one command."""

    command: str
    options: Mapping[str, tuple[str, str]]
    """Long name -> (short letter or "", what it takes)."""
    shorts: Mapping[str, str]


def table(command: str, options: Mapping[str, tuple[str, str]]) -> Table:
    """The command's table."""
    return Table(command, options, {short: name for name, (short, _) in options.items() if short})


SBATCH = table("sbatch", ALL)


def parse_words(words: Iterable[str], where: str, known: Table = SBATCH) -> list[tuple[str, str]]:
    """(long option, value) in order; words that are no options are an error. Raises UserError."""
    found, rest = parse_leading(words, where, known)
    if rest:
        raise UserError(f"{where}: {rest[0]!r} is no option", "quote values that hold blanks")
    return found


def parse_leading(words: Iterable[str], where: str, known: Table) -> tuple[list[tuple[str, str]], list[str]]:
    """(long option, value) in order up to the first word that is none, and the words from there on. Raises UserError."""
    found: list[tuple[str, str]] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--" and known is not SBATCH:
            break
        if word.startswith("--") and len(word) > 2:
            found.append(_long(word[2:], queue, where, known))
        elif word.startswith("-") and len(word) > 1:
            found += _short(word[1:], queue, where, known)
        else:
            return found, [word, *queue]
    return found, queue


def full_name(name: str, where: str, known: Table = SBATCH) -> str:
    """The option that a name or unique abbreviation stands for. Raises UserError."""
    options = known.options
    if name in options:
        return name
    matches = sorted(option for option in options if option.startswith(name)) if name else []
    if len(matches) == 1:
        return matches[0]
    near = matches or difflib.get_close_matches(name, list(options), n=3)
    hint = (
        "did you mean " + ", ".join(f"--{option}" for option in near[:3]) + "?"
        if near
        else f"see {known.command}'s options"
    )
    raise UserError(f"{where}: unknown option --{name}", hint)


def takes_next(word: str) -> bool:
    """Whether an option's value is the next word. Raises UserError for an option that sbatch does not have."""
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        return not equals and ALL[full_name(name, "command line")][1] == REQUIRED
    kind = next((takes for short, takes in ALL.values() if short == word[1]), "")
    return kind == REQUIRED and len(word) == 2


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """(sbatch's options, the command behind them)."""
    options: list[str] = []
    index = 0
    while index < len(words) and words[index].startswith("-") and len(words[index]) > 1:
        word = words[index]
        index += 1
        if word == "--":
            break
        options.append(word)
        if takes_next(word):
            options += words[index : index + 1]
            index += 1
    return options, words[index:]


def _long(text: str, queue: list[str], where: str, known: Table) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    option = full_name(name, where, known)
    takes = known.options[option][1]
    if takes == NONE and equals:
        raise UserError(f"{where}: --{option} takes no value", f"write --{option}")
    if takes == REQUIRED and not equals:
        value = _next(option, queue, where)
    return option, value


def _short(text: str, queue: list[str], where: str, known: Table) -> list[tuple[str, str]]:
    found = []
    while text:
        option = known.shorts.get(text[0])
        if option is None:
            raise UserError(f"{where}: unknown option -{text[0]}", f"see {known.command}'s options")
        text = text[1:]
        takes = known.options[option][1]
        if takes == NONE:
            found.append((option, ""))
            continue
        value = text if text or takes == OPTIONAL else _next(option, queue, where)
        return [*found, (option, value)]
    return found


def _next(option: str, queue: list[str], where: str) -> str:
    if not queue:
        raise UserError(f"{where}: --{option} needs a value", f"write --{option}=VALUE")
    return queue.pop(0)
