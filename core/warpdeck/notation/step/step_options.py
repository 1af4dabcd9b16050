"""srun's command line after it was parsed."""

from __future__ import annotations

from typing import Any

import msgspec

from warpdeck.notation.options.given_options import Options


class Streams(msgspec.Struct, kw_only=True):
    """Settings of the tasks' streams: file patterns on srun's side, or the modes "all", "none" or a rank. ""
    is srun's own stream.
    """

    output: str = ""
    error: str = ""
    input: str = ""
    label: bool = False
    append: bool = False
    quiet: bool = False
    quits_on_interrupt: bool = False
    ignored_signals: tuple[int, ...] = ()
    """Signals on which srun does nothing."""

    def after(self, first: Streams) -> Streams:
        """Return the settings of a further program of `srun A : B`: its own options, else those of the first
        program.
        """
        return Streams(
            output=self.output or first.output,
            error=self.error or first.error,
            input=self.input or first.input,
            label=self.label or first.label,
            append=first.append,
            quiet=first.quiet,
            quits_on_interrupt=first.quits_on_interrupt,
            ignored_signals=first.ignored_signals,
        )


class SrunOptions(msgspec.Struct, kw_only=True):
    """A parsed command line of srun."""

    ask: dict[str, Any]
    streams: Streams
    job: str = ""
    """The value of --jobid, else the job named by the environment, else ""."""
    job_options: Options = []
    """Options for a job that is created for the step."""
    export: str = ""
    """The value of --export; "" means all."""
    needed_file: str = ""
    """A file whose content is needed before the command line can be parsed completely."""
    immediate_s: float | None = None
    """Seconds to wait for an allocation that is created for the step; None means without limit."""
    has_ignored_options: bool = False
    """True if an option was given that has no effect here."""
    groups: tuple[int, ...] = ()
    """--het-group: the components in which it runs, by offset; () means the first."""
    answer: str = ""
    """Text to print instead of running a step."""
    answer_code: int = 0
    """srun's exit code after printing that text."""
