"""The arguments of a verb as rows of data, and the arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from warpdeck.base.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from typing import Any, TypeAlias

    Item: TypeAlias = "Argument | Group"

USAGE_EXIT = 2
"""Exit code for a wrong command line."""
REST = "--"
"""Name of an argument that holds all words after `--`."""
JOBS, ANY_JOBS, PENDING_JOBS, RUNNING_JOBS = "jobs", "any jobs", "pending jobs", "running jobs"
SUSPENDED_JOBS, TERMINALS = "suspended jobs", "terminals"
NODES, PARTITIONS, USERS, ACCOUNTS = "nodes", "partitions", "users", "accounts"
QOS, RESERVATIONS, STATES = "qos", "reservations", "states"
"""Kinds of names that completion offers. JOBS are unfinished jobs, and ANY_JOBS include finished ones."""
_KINDS = {"JOB": JOBS, "NODE": NODES, "USER": USERS, "STATE": STATES}
"""Maps the name of a value to its kind."""


class UsageError(UserError):
    """A wrong command line."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint, exit_code=USAGE_EXIT)


class InvalidValue(Exception):
    """Error for a value that the `parse` function of an argument rejects. The text names the value."""


class Argument:
    """An option or a positional argument, written as in a synopsis.

    Examples are "--me" (a flag), "-u, --user USER,..." (an option with a value), "--step {1s,10s}" (choices), "JOB", "[JOB]"
    (optional), "[JOB ...]" (any number), and "JOB ..." (at least one). `into` is the attribute of the parsed arguments, and
    `completes` the kind of names that completion offers. Both follow from the spelling if they are not given. `parse` turns the
    text into a value, or raises InvalidValue. An option that `repeats` collects its values in a list.
    """

    def __init__(
        self,
        spelling: str,
        help: str = "",
        *,
        into: str = "",
        default: object = None,
        parse: Callable[[str], Any] | None = None,
        choices: Iterable[str] = (),
        completes: str = "",
        repeats: bool = False,
    ) -> None:
        self.is_option = spelling.startswith("-")
        *names, last = spelling.split(", ")
        name, _, value = last.partition(" ") if self.is_option else ("", "", last)
        self.nargs = ""
        if not self.is_option:
            inner = value[1:-1]
            optional = value.startswith("[") and value.endswith("]") and inner.find("[") <= inner.find("]")
            value = inner if optional else value
            many = value.endswith(" ...")
            value = value.removesuffix(" ...")
            self.nargs = ("*" if optional else "+") if many else "?" if optional else ""
            name = into or value.lower() + "s" * many
        self.names = (*names, name)
        self.value = value
        self.help = help
        self.into = into or name.lstrip("-").replace("-", "_")
        self.choices = tuple(choices or (value.strip("{}").split(",") if value.startswith("{") else ()))
        self.completes = completes or _KINDS.get(value.rstrip(",."), "")
        self.is_flag = self.is_option and not value
        self.repeats = repeats
        self.parse = parse
        if default is None and parse is None and (self.is_option or self.nargs == "?"):
            default = False if self.is_flag else [] if repeats else ""
        self.default = default


class Group:
    """A group of arguments: with its own title in the help, or with at most one that may be given."""

    def __init__(self, *items: Item, title: str = "", required: bool = False) -> None:
        self.items = items
        self.title = title
        self.required = required
        """Exactly one of them must be given."""


def flat(items: Iterable[Item]) -> Iterator[Argument]:
    """Yield the arguments, and those of all groups, in their order."""
    for item in items:
        if isinstance(item, Group):
            yield from flat(item.items)
        else:
            yield item


class Synopsis:
    """The name of a verb, its help, its arguments, and its sub-verbs: all that the parser needs.

    `check` raises UserError for arguments that do not fit together. `notes` follow the examples in the help. A sub-verb has a
    `summary`; the summaries of verbs are in the index.
    """

    def __init__(
        self,
        name: str,
        about: str = "",
        arguments: Sequence[Item] = (),
        *,
        examples: tuple[str, ...] = (),
        notes: str = "",
        summary: str = "",
        check: Callable[[Any], None] | None = None,
        subverbs: Sequence[Synopsis] = (),
    ) -> None:
        self.name = name
        self.about = about or f"{summary[:1].upper()}{summary[1:]}."
        self.arguments = arguments
        self.examples = examples
        self.notes = notes
        self.summary = summary
        self.check = check
        self.subverbs = subverbs


def number(least: int = 1, most: int = 10**9) -> Callable[[str], int]:
    """Return the `parse` function of a whole number."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
            raise InvalidValue(f"{text[:20]!r} is not between {least} and {most:,}")
        return int(text)

    return parse


def port(text: str) -> int:
    """Parse the number of a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < 1 << 16):
        raise InvalidValue(f"{text!r} is not a port; use a number from 1 to 65535")
    return int(text)


TASK_HELP = "job id, such as 12, or 12_3 for a task of an array"
JSON = Argument("--json", "print JSON")
NO_HEADER = Argument("--noheader", "omit the header line")
JOB = Argument("JOB", TASK_HELP, completes=ANY_JOBS)
JOB_NODE = Argument("--node NODE", "node to use, if the job has several")
SELECTION = (
    Argument("--me", "only my jobs"),
    Argument("-u, --user USER,...", "only jobs of these users"),
    Argument("-t, --state STATE,...", "only jobs in these states, such as PENDING or PD"),
    Argument("-n, --name NAME,...", "only jobs with these names"),
)
"""The options that select jobs by their properties. See `queue.select`."""
