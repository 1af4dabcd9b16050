"""scontrol(1): options, command keywords and the interactive mode that reads commands line by line.

Messages are Slurm's.
"""

from __future__ import annotations

import shlex

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_uid
from warpdeck.base.slurm_version import VERSION
from warpdeck.notation.options.getopt import OptionReader
from warpdeck.protocol.refusals import in_slurms_words, load_failure
from warpdeck.slurm.console.command_options import WordsError, check_cluster, options
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.console.repl import prompted
from warpdeck.slurm.data_parser.output import requested

from .keywords import HELP, KEYWORDS, Keyword
from .session import Failed, Missing, ScontrolSession, UnknownKeyword

OPTIONS = options(
    "scontrol",
    "all,a details,d federation future,F help,h hide local clusters=,M oneliner,o quiet,Q sibling uid=,u usage verbose,v "
    "version,V json? yaml?",
)
PROMPT = "scontrol: "


def main(words: list[str], console: Console) -> int:
    """Run the command in `words`, or the commands on standard input if there is none.

    Return the exit code.
    """
    session = ScontrolSession(console)
    try:
        rest = _options(words, session)
        if session.over:
            return session.code
        if rest:
            _run(rest, session)
        else:
            _converse(session)
    finally:
        session.close()
    return session.code


def _options(words: list[str], session: ScontrolSession) -> list[str]:
    """Apply the options, at any position, up to one that ends the command. Return the other arguments.

    Raises WordsError.
    """
    rest: list[str] = []
    while words:
        reader = OptionReader(words, OPTIONS)
        try:
            for word in reader:
                _set(word.option, word.text or "", session)
                if session.over:
                    return rest
        except UserError as error:
            message = f'scontrol: {error.message}\nTry "scontrol --help" for more information'
            raise WordsError(message) from None
        words = words[reader.at :]
        if words:
            rest.append(words.pop(0))
    return rest


def _set(name: str, value: str, session: ScontrolSession) -> None:
    out = session.console.streams.out
    match name:
        case "details":
            session.details = True
        case "oneliner":
            session.oneliner = True
        case "json" | "yaml":
            session.json = requested("scontrol", {name: value})
        case "quiet":
            session.quiet = True
        case "help" | "usage":
            out.write(HELP)
            session.over = True
        case "version":
            out.write(VERSION)
            session.over = True
        case "clusters":
            check_cluster("scontrol", value)
        case "uid":
            if (uid := existing_uid(value)) is None:
                session.console.streams.err.write(f'scontrol: error: --uid="{value}" invalid\n')
                session.over = True
            elif uid != existing_uid(session.console.user):
                raise WordsError("scontrol: error: --uid is not supported: the kernel identifies the caller")


def _converse(session: ScontrolSession) -> None:
    """Run commands from standard input until its end, `exit` or `quit`."""
    for line in prompted(session.console, PROMPT):
        try:
            words = _options(_words(line), session)
        except WordsError as error:
            session.complain(str(error))
            continue
        if words:
            _run(words, session)
            session.over = session.over or _find_name(words[0]) in ("exit", "quit")
        if session.over:
            return


def _words(line: str) -> list[str]:
    """Split a line as a shell does; an unclosed quote is an ordinary character."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _run(words: list[str], session: ScontrolSession) -> None:
    try:
        _find(words[0], len(words) - 1).run(session, words[1:])
    except Missing as error:
        session.miss(str(error))
    except UnknownKeyword as error:
        session.misread(str(error))
    except Failed as error:
        session.complain(str(error))
    except UserError as error:
        session.complain(load_failure(error, "scontrol") or f"scontrol: error: {in_slurms_words(error)}")


def _find_name(word: str) -> str:
    """Return the keyword that a word or abbreviation means, or ""."""
    lowered = word.lower()
    names = (name for name, keyword in KEYWORDS.items() if len(lowered) >= keyword.least)
    return next((name for name in names if name.startswith(lowered)), "")


def _find(word: str, count: int) -> Keyword:
    if name := _find_name(word):
        keyword = KEYWORDS[name]
        if count < keyword.low:
            raise Failed(f"too few arguments for keyword:{word}")
        if keyword.high is not None and count > keyword.high:
            raise Failed(f"too many arguments for keyword:{word}")
        return keyword
    raise UnknownKeyword(f"invalid keyword: {word}")
