"""salloc's command line: the options of each component, and the command that holds the allocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.step_fields import immediate_s
from warpdeck.notation.options.getopt import error_at, raise_error_of
from warpdeck.notation.options.given_options import GivenOption, Options, OptionSource
from warpdeck.notation.options.option_table import COMMAND, NO_PLUGINS, SALLOC, with_plugins
from warpdeck.notation.options.variables import SALLOC_VARIABLES, effective
from warpdeck.notation.reading.components import LaunchLine, lasting, read_launch
from warpdeck.notation.values.signals import MAX_SIGNAL


class SallocOptions(msgspec.Struct, kw_only=True):
    """salloc's command line: the requested allocation, and the command that holds it."""

    options: Options
    others: list[Options]
    """The options of the further components of a heterogeneous job."""
    command: list[str]
    has_shell: bool = True
    immediate_s: float | None = None
    """Seconds to wait for the allocation (--immediate); None means without limit."""
    kill_signal: int = 0
    """The signal that its command gets when the allocation ends; 0 means none."""
    bell: str = ""
    """When the terminal bell rings: "always", "never", or "" for after a long wait."""
    quiet: bool = False
    chdir: str = ""


def read_salloc(
    words: Sequence[str], source: OptionSource, *, plugins: Mapping[str, str] = NO_PLUGINS
) -> LaunchLine:
    """Read the command line. `plugins` are the options of a site's plugins, which have no effect here.

    SALLOC_* variables also set options; the command line overrides them.
    """
    return read_launch(words, source, with_plugins(SALLOC, plugins) if plugins else SALLOC, SALLOC_VARIABLES)


def salloc_options(line: LaunchLine) -> SallocOptions:
    """Return the allocation that a command line describes. Raises UserError."""
    parts: list[Options] = []
    given: Options = []
    for component in line.components:
        raise_error_of(each for each in component.words if not each.option)
        words = [each for each in component.words if each.option in SALLOC.options]
        given = effective([*lasting(given, SALLOC), *component.variables, *words])
        parts.append([each for each in given if not _is_of_command(each)])
    last = {each.option: each for each in given}
    return SallocOptions(
        options=parts[0],
        others=parts[1:],
        command=line.command,
        has_shell="no-shell" not in last,
        immediate_s=_immediate_s(last.get("immediate")),
        kill_signal=_kill_signal(last.get("kill-command")),
        bell="never" if "no-bell" in last else "always" if "bell" in last else "",
        quiet="quiet" in last,
        chdir=last["chdir"].word if "chdir" in last else "",
    )


def _is_of_command(given: GivenOption) -> bool:
    """Return whether the option controls salloc itself instead of the allocation."""
    return given.option in SALLOC.options and SALLOC.options[given.option].here == COMMAND


def _immediate_s(given: GivenOption | None) -> float | None:
    try:
        return None if given is None else immediate_s(given)
    except UserError as error:
        assert given is not None
        raise error_at(given, error) from None


def _kill_signal(given: GivenOption | None) -> int:
    """Return the number of --kill-command; 0 if the option was not given. Raises UserError."""
    if given is None:
        return 0
    if given.error is not None:
        raise error_at(given, given.error)
    if given.value > MAX_SIGNAL:
        raise UserError(f"--kill-command={given.word}: there is no such signal", "write a name such as TERM")
    return int(given.value)
