"""The pages about Slurm: the options of jobs, and the commands."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from warpdeck.notation.options import option_table as options
from warpdeck.notation.options.unsupported import REASONS
from warpdeck.slurm.command_table import COMMANDS
from warpdeck_agent.client import sbcast

from .markdown import block, cell, code, page, table

SLURM_MODULES = "warpdeck.slurm"
HERE = {
    options.HONORED: "has Slurm's effect",
    options.NOTED: "is accepted and has no effect; the command says so",
    options.COMMAND: "tells the command itself what to do",
    options.REFUSED: "is refused",
}
TAKES = {options.REQUIRED: "yes", options.OPTIONAL: "optional", options.NONE: "no"}


def _option_lines(found: options.OptionTable) -> Iterator[list[str]]:
    for name, option in sorted(found.options.items()):
        short = f"-{option.short}, " if option.short else ""
        reason, hint = REASONS.get(name, ("", ""))
        effect = HERE[option.here]
        if option.here == options.REFUSED and reason:
            effect = f"is refused: {reason}; {hint}"
        yield [code(f"{short}--{name}"), TAKES[option.takes], cell(effect)]


def job_options_page() -> str:
    """Return the page of the options of sbatch, salloc and srun."""
    head = ["Option", "Takes a value", "Effect in warpdeck: the option ..."]
    parts = []
    for command, found in (("sbatch", options.SBATCH), ("salloc", options.SALLOC), ("srun", options.SRUN)):
        parts += [f"## Options of {command}\n", table(head, _option_lines(found))]
    return page(
        "Options of sbatch, salloc and srun",
        "`warpdeck submit` takes the options of sbatch, `warpdeck run` and `warpdeck srun` those of srun, and `warpdeck salloc` those "
        "of salloc. `#SBATCH` lines of a script take the options of sbatch. The meanings are Slurm's unless this page says "
        "otherwise.\n",
        *parts,
    )


def slurm_commands_page() -> str:
    """Return the page of Slurm's commands."""
    parts = []
    for name, where in sorted(COMMANDS.items()):
        module = importlib.import_module(f"{SLURM_MODULES}.{where}")
        found: options.OptionTable | None = getattr(module, "OPTIONS", None)
        text: str = getattr(module, "HELP", "") or getattr(module, "USAGE", "")
        parts.append(f"## {name}\n")
        if text:
            parts.append(block(text))
        if found is not None and name not in ("sbatch", "srun", "salloc"):
            names = [
                code((f"-{option.short}, " if option.short else "") + f"--{long}")
                for long, option in sorted(found.options.items())
                if option.here != options.REFUSED
            ]
            parts.append("All options: " + " · ".join(names) + "\n")
    parts += ["## sbcast\n", block(sbcast.HELP)]
    return page(
        "Slurm's commands",
        '`eval "$(warpdeck shims)"` puts these commands on the PATH of a shell. Jobs have them without it. `srun` and `salloc` '
        "are described under [Commands](commands.md) and [Options](job-options.md).\n",
        *parts,
    )
