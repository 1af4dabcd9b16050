"""Argument parsers of verbs, made from the rows. Mistakes become a UsageError with a next step."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence

from .arguments import Argument, InvalidValue, Synopsis, UsageError, flat

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from typing import Any, NoReturn

    from .arguments import Item

USUAL_COLUMNS = 80
_ALL_REQUIRED = "the following arguments are required: "
_ONE_REQUIRED, _ONE_REQUIRED_END = "one of the arguments ", " is required"
"""Texts of argparse around the names of missing arguments."""


def parse(verb: Synopsis, words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments. `row` is the row of the verb, or of the chosen sub-verb. Raises UserError."""
    args, unknown = parser_of(verb).parse_known_args(list(words))
    if unknown:
        raise _unknown(unknown[0], args.row, args.prog)
    if args.row.check is not None:
        args.row.check(args)
    return args


def _unknown(word: str, verb: Synopsis, prog: str) -> UsageError:
    import difflib  # takes as long to import as the rest of the parser

    see = f"see `{prog} --help`"
    if not word.startswith("-"):
        return UsageError(f"{prog}: unexpected argument {word}", see)
    names = [
        "-h",
        "--help",
        *(name for each in flat(verb.arguments) if each.is_option for name in each.names),
    ]
    near = difflib.get_close_matches(word.partition("=")[0], names, n=1)
    return UsageError(f"{prog}: unknown option {word}", f"did you mean {near[0]}?" if near else see)


def parser_of(verb: Synopsis) -> Parser:
    """Return the parser of a verb."""
    parser = Parser(prog=f"warpdeck {verb.name}".rstrip(), **_texts(verb))
    _fill(parser, verb)
    return parser


def _texts(verb: Synopsis) -> dict[str, Any]:
    examples = "examples:\n" + "\n".join(f"  {line}" for line in verb.examples)
    epilog = f"{examples}\n\n{verb.notes}" if verb.notes else examples
    return {"description": verb.about, "epilog": epilog, "formatter_class": _formatter}


def _fill(parser: Parser, verb: Synopsis) -> None:
    parser.set_defaults(row=verb, prog=parser.prog)
    _add(parser, verb.arguments)
    if verb.subverbs:
        subparsers = parser.add_subparsers(required=True, metavar="VERB")
        for each in verb.subverbs:
            _fill(subparsers.add_parser(each.name, help=each.summary, **_texts(each)), each)


def _add(container: argparse._ActionsContainer, items: Iterable[Item]) -> None:
    for item in items:
        if isinstance(item, Argument):
            container.add_argument(*item.names, **_settings(item))
        elif item.title:
            _add(container.add_argument_group(item.title), item.items)
        else:
            _add(container.add_mutually_exclusive_group(required=item.required), item.items)


def _settings(argument: Argument) -> dict[str, Any]:
    found: dict[str, Any] = {
        "default": argument.default,
        "help": argument.help.replace("%", "%%") or None,  # argparse replaces %(default)s
        "dest": argument.into,
    }
    if argument.is_flag:
        return found | {"action": "store_true"}
    if not argument.is_option:
        del found["dest"]
    return found | {
        "action": "append" if argument.repeats else "store",
        "metavar": argument.value,
        "type": _converter(argument.parse) if argument.parse else None,
        "choices": argument.choices or None,
        "nargs": argument.nargs or None,
    }


def _converter(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the function with the error of argparse."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except InvalidValue as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse if parse is int else convert


class Parser(argparse.ArgumentParser):
    """The argument parser of a verb."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for a wrong command line. `message` is the text of argparse."""
        see = f"see `{self.prog} --help`"
        missing = _missing(message)
        if not missing:
            raise UsageError(f"{self.prog}: {message}", see)
        row: Synopsis = self.get_default("row")
        if row.subverbs:
            step = "use one of " + ", ".join(each.name for each in row.subverbs)
        else:
            step = f"for example `{row.examples[0].partition('  ')[0]}`"
        raise UsageError(f"{self.prog}: no {missing} given", f"{step}; {see}")


def _missing(message: str) -> str:
    """Return the names of the missing arguments, or "" for another error."""
    if message.startswith(_ALL_REQUIRED):
        return message.removeprefix(_ALL_REQUIRED).replace(", ", " and no ")
    if message.startswith(_ONE_REQUIRED) and message.endswith(_ONE_REQUIRED_END):
        return message[len(_ONE_REQUIRED) : -len(_ONE_REQUIRED_END)].replace(" ", " or ")
    return ""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return a help formatter that gets the width of the terminal.

    argparse makes one for each option. Without a width each one imports shutil with its compression modules, which takes longer
    than the rest of the parser.
    """
    return argparse.RawDescriptionHelpFormatter(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the width as `shutil.get_terminal_size` does: $COLUMNS, else the terminal's, else the default."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS
