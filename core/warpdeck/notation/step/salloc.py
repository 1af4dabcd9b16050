"""salloc's command line: the options of each component, and the command that holds the allocation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warpdeck.notation.option_values.step_values import patience
from warpdeck.notation.options.getopt import parse_components
from warpdeck.notation.options.options import COMMAND, NO_PLUGINS, SALLOC, with_plugins
from warpdeck.notation.options.variables import SALLOC_VARIABLES, override
from warpdeck.notation.request.request import Options
from warpdeck.notation.values.signals import parse_signal


class Salloc(msgspec.Struct, kw_only=True):
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


def parse_salloc(
    words: list[str], environ: Mapping[str, str], *, plugins: Mapping[str, str] = NO_PLUGINS
) -> Salloc:
    """Parse the command line. Raises UserError.

    `plugins` is as for srun. SALLOC_* variables also set options; the command line overrides them.
    """
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
