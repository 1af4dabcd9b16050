"""salloc's command line: the options of each component, and the command that holds the allocation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warpdeck.notation.options.getopt import parse_components
from warpdeck.notation.options.options import COMMAND, NO_PLUGINS, SALLOC, with_plugins
from warpdeck.notation.options.variables import SALLOC_VARIABLES, override
from warpdeck.notation.request.request import Options
from warpdeck.notation.values.signals import parse_signal

from .step_options import patience


class Salloc(msgspec.Struct, kw_only=True):
    """salloc's command line: what the allocation is asked for, and the command that holds it."""

    options: Options
    others: list[Options]
    """Of further components."""
    command: list[str]
    has_shell: bool = True
    immediate_s: float | None = None
    """As Srun's."""
    kill_signal: int = 0
    """What its command is sent when the allocation is taken away; 0: nothing."""
    bell: str = ""
    """When the terminal's bell rings: always, never, else after a long wait."""
    quiet: bool = False
    chdir: str = ""


def parse_salloc(
    words: list[str], environ: Mapping[str, str], *, plugins: Mapping[str, str] = NO_PLUGINS
) -> Salloc:
    """`plugins` as for srun. The variables SALLOC_* are options, too, and yield to those of the words. Raises UserError."""
    parts, command = parse_components(words, "salloc", with_plugins(SALLOC, plugins) if plugins else SALLOC)
    asked: list[Options] = []
    given = Options()
    for part in parts:
        lasting = [one for one in given if not SALLOC.options[one[0]].each]
        own = [(name, value, "salloc") for name, value in part if name in SALLOC.options]
        given = [*override(lasting, environ, SALLOC_VARIABLES, known=SALLOC), *own]
        asked.append([one for one in given if SALLOC.options[one[0]].here != COMMAND])
    last = {name: value for name, value, _ in given}
    return Salloc(
        options=asked[0],
        others=asked[1:],
        command=command,
        has_shell="no-shell" not in last,
        immediate_s=patience(last["immediate"]) if "immediate" in last else None,
        kill_signal=parse_signal(last["kill-command"] or "TERM") if "kill-command" in last else 0,
        bell="never" if "no-bell" in last else "always" if "bell" in last else "",
        quiet="quiet" in last,
        chdir=last.get("chdir", ""),
    )
