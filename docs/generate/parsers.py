"""Argument parsers as Markdown: the parser of a verb, its synopsis and its options."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from warpdeck.cli.main import VERBS

from .markdown import block, cell, code, escaped, page, sentence, table

VERB_MODULES = "warpdeck"
COLUMNS = "100"


class _CapturedError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


@contextlib.contextmanager
def _capturing() -> Iterator[None]:
    """Have each parser raise itself instead of parsing."""

    def capture(self: argparse.ArgumentParser, *_: object, **__: object) -> Any:
        raise _CapturedError(self)

    before, width = argparse.ArgumentParser.parse_args, os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    argparse.ArgumentParser.parse_args = capture  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args = before  # type: ignore[method-assign]
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width


def parser_or_help(verb: str) -> argparse.ArgumentParser | str:
    """Return the parser of a verb, or the help text of a verb that has no parser."""
    text = io.StringIO()
    module = importlib.import_module(f"{VERB_MODULES}.{VERBS[verb][0]}")
    try:
        with _capturing(), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            module.main(verb, ["--help"])
    except _CapturedError as captured:
        return captured.parser
    return text.getvalue()


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a parser. argparse has no public name for them (bugs.python.org/issue45656)."""
    return [
        action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"
    ]


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return name -> (parser, help) of the sub-verbs. argparse has no public names for these either."""
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            return {name: (each, about.get(name, "")) for name, each in action.choices.items()}
    return {}


def _value_of(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(str(each) for each in action.choices) + "}"
    return action.dest.upper()


def _name_of(action: argparse.Action) -> str:
    """Return an argument as a user writes it: "-u, --user USER,..."."""
    value = _value_of(action)
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return f"{names} {value}".rstrip()


def _synopsis(parser: argparse.ArgumentParser) -> str:
    """Return one line of usage. argparse's own differs between the versions of Python."""
    words = [parser.prog]
    found = _actions(parser)
    if any(action.option_strings for action in found):
        words.append("[OPTIONS]")
    for action in found:
        if action.option_strings:
            continue
        name = "VERB ..." if isinstance(action, argparse._SubParsersAction) else _value_of(action)
        many = {"*": f"[{name} ...]", "+": f"{name} [{name} ...]", "?": f"[{name}]"}
        words.append(many.get(str(action.nargs), name))
    return " ".join(words)


def prose(text: str) -> str:
    """Return a description as Markdown: indented lines are a block, other lines a paragraph."""
    parts = []
    for chunk in re.split(r"\n\s*\n", text.strip("\n")):
        lines = chunk.split("\n")
        plain = [line for line in lines if not line.startswith(" ")]
        indented = [line for line in lines if line.startswith(" ")]
        if plain and not (indented and lines[0].startswith(" ")):
            head = lines[: lines.index(indented[0])] if indented else lines
            rest = lines[len(head) :]
            parts.append(escaped(" ".join(head)) + "\n")
            if rest:
                parts.append(block(textwrap.dedent("\n".join(rest))))
        else:
            parts.append(block(textwrap.dedent(chunk)))
    return "\n".join(parts)


def _examples(parser: argparse.ArgumentParser) -> str:
    epilog = parser.epilog or ""
    examples, _, rest = epilog.removeprefix("examples:\n").partition("\n\n")
    if not examples.strip():
        return ""
    shown = "Examples:\n\n" + block(textwrap.dedent(examples))
    return shown + ("\n" + block(rest) if rest else "")


def _parser_section(parser: argparse.ArgumentParser, *, about: str, level: int) -> str:
    found = _actions(parser)
    subverbs = _subparsers(parser)
    words = [action for action in found if not isinstance(action, argparse._SubParsersAction)]
    parts = [
        f"{'#' * level} {parser.prog}\n",
        prose(parser.description or "") if parser.description else escaped(sentence(about)) + "\n",
        block(_synopsis(parser)),
        table(
            ["Argument or option", "Meaning"],
            [[code(_name_of(action)), cell(sentence(_expanded(action)))] for action in words],
        ),
        _examples(parser),
    ]
    for each, text in subverbs.values():
        parts.append(_parser_section(each, about=text, level=level + 1))
    return "\n".join(part for part in parts if part)


def _expanded(action: argparse.Action) -> str:
    text = action.help or ""
    return text.replace("%(default)s", str(action.default)) if "%(" in text else text


def commands_page() -> str:
    """Return the page of the verbs of `warpdeck`."""
    sections = []
    for verb, (_, about) in VERBS.items():
        found = parser_or_help(verb)
        if isinstance(found, str):
            shared = {"attach": "run"}.get(verb)
            note = (
                f"The help text is the one of [`warpdeck {shared}`](#warpdeck-{shared}).\n" if shared else ""
            )
            parts = [f"## warpdeck {verb}\n", escaped(sentence(about)) + "\n", note or block(found)]
            sections.append("\n".join(parts))
        else:
            sections.append(_parser_section(found, about=about, level=2))
    overview = table(
        ["Command", "What it does"],
        [
            [f"[`warpdeck {verb}`](#warpdeck-{verb})", cell(sentence(about))]
            for verb, (_, about) in VERBS.items()
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
