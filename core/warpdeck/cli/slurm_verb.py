"""Verbs that take the options of sbatch, srun or salloc beside their own.

The option table of Slurm's commands parses both. The help of Slurm's options is a text, because there are more than a hundred of
them. The own options are `Argument`s, as in other verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths

from .arguments import REST, USAGE_EXIT, Argument, InvalidValue, UsageError, flat
from .verb import Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from warpdeck.notation.options.option_table import OptionTable

HELP_FLAGS = ("-h", "--help")
LEAST_COLUMN = 16
"""Least width of the column of names in the help."""


class SlurmVerb(Verb):
    """A row of the table of verbs.

    `takes` names the Slurm command whose options the verb takes. `run` gets the split words. A verb has `run_words` in its place if
    the controller, or the Slurm command of the same name, parses the words; the help of that command is `text`. `about` ends with
    the help of Slurm's options.
    """

    def __init__(
        self,
        name: str,
        *row: Any,
        takes: str,
        usage: tuple[str, ...] = (),
        text: Callable[[], str] | None = None,
        run_words: Callable[[list[str]], int] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name, *row, reads=False, **more)
        self.takes = takes
        self.usage = usage
        self.text = text
        self.run_words = run_words

    def main(self, words: list[str]) -> int:
        """Split the words, run the verb, and return its exit code. Raises UserError."""
        if self.run_words is not None:
            if self.usage and (not words or words[0] in HELP_FLAGS):
                print(self.help_text(), end="")
                return 0 if words else USAGE_EXIT
            return self.run_words(words)
        found = self._parsed(words)
        if "help" in found.given:
            print(self.help_text(), end="")
            return 0
        assert self.run is not None, f"the row of {self.name} names no function"
        if self.check is not None:
            self.check(found)
        return self.run(found)

    def _parsed(self, words: list[str]) -> SimpleNamespace:
        """Split the words. An unknown option may belong to a plug-in of the site. Then the site is asked."""
        from warpdeck.notation.options.getopt import UNKNOWN
        from warpdeck.notation.options.option_table import SBATCH

        try:
            return self.split(words, SBATCH)
        except UserError as error:
            known = _site_options() if error.code == UNKNOWN else SBATCH
            if known.options.keys() == SBATCH.options.keys():
                raise
        return self.split(words, known)

    def split(self, words: list[str], known: OptionTable) -> SimpleNamespace:
        """Split the words by sbatch's option table and the own options. Raises UserError.

        The own options are attributes of the result, as with argparse. `given` maps them, and sbatch's options that concern the
        command itself, to their texts. `components` contains sbatch's options of each component of the job, `rest` the words
        that follow the options, and `known` is the table.
        """
        from warpdeck.notation.options.getopt import as_word, parse_components
        from warpdeck.notation.options.option_table import COMMAND, NONE, REQUIRED, Option, table_of

        own = {each.names[0]: NONE if each.is_flag else REQUIRED for each in flat(self.arguments)}
        behind: list[str] = []
        if REST in own and REST in words:
            cut = words.index(REST)
            words, behind = words[:cut], words[cut + 1 :]
        added = [Option(name[2:], "", takes, "b", COMMAND, frozenset()) for name, takes in own.items()]
        both = table_of(f"warpdeck {self.name}", [*added, *known.options.values()])
        parts, rest = parse_components(words, "command line", both)
        if REST in own and rest:
            raise UsageError(f"unexpected argument {rest[0]}", f"put arguments for the server after {REST}")
        given = {name: text for part in parts for name, text in part if both.options[name].here == COMMAND}
        components = [
            [as_word(name, text, both) for name, text in part if both.options[name].here != COMMAND]
            for part in parts
        ]
        own_values = {each.into: self._value(each, given) for each in flat(self.arguments)}
        return SimpleNamespace(
            **own_values, given=given, components=components, rest=behind or rest, known=known
        )

    def _value(self, argument: Argument, given: dict[str, str]) -> object:
        name = argument.names[0]
        text = given.get(name[2:])
        if text is None:
            return argument.default
        try:
            return argument.is_flag or (text if argument.parse is None else argument.parse(text))
        except InvalidValue as error:
            raise UsageError(f"{name}: {error}", f"see `warpdeck {self.name} --help`") from None

    def help_text(self) -> str:
        """Return the text that --help prints."""
        if self.text is not None:
            return self.text()
        uses = "\n       ".join(f"warpdeck {self.name} {line}" for line in self.usage)
        heads = {f"{each.names[0]} {each.value}".rstrip(): each.help for each in flat(self.arguments)}
        column = max(LEAST_COLUMN, *(len(head) + 2 for head in heads)) if heads else 0
        indent = "\n" + " " * (column + 2)
        lines = [f"  {head:<{column}}" + text.replace("\n", indent) for head, text in heads.items()]
        about = "\n".join([self.about, *lines])
        examples = "\n".join(["examples:", *(f"  {line}" for line in self.examples)])
        return "\n\n".join(filter(None, [f"usage: {uses}", about, examples, self.notes])) + "\n"


def _site_options() -> OptionTable:
    """Return sbatch's options and those of the site's plug-ins, or only sbatch's if no controller answers."""
    from warpdeck.client.blocking_client import SyncClient
    from warpdeck.client.submission import site_options
    from warpdeck.notation.options.option_table import SBATCH

    try:
        with SyncClient.connect(default_paths(), start=False) as client:
            return site_options(client)
    except UserError:
        return SBATCH
