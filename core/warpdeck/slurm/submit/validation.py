"""Validates sbatch's options and script with the rules of the real sbatch, before any request is sent."""

from __future__ import annotations

import os.path
import time
from collections.abc import Sequence

from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.client.submission import MAX_FILE_CHARS
from warpdeck.notation.option_values.option_fields import OptionSource
from warpdeck.notation.options.options import SBATCH_22_05, OptionTable
from warpdeck.notation.verdict.verdict import Fault, judge
from warpdeck.slurm.console.console import CommandError, Console

_NOT_THERE = 'Try "sbatch'
"""Start of the last line that sbatch prints for an unknown or misused option."""


def check(
    text: str,
    name: str,
    words: Sequence[str],
    console: Console,
    *,
    others: Sequence[Sequence[str]] = (),
    refused_by: OptionTable | None = None,
) -> None:
    """Raise CommandError with sbatch's message and exit code if the real sbatch would reject the submission.

    Our own hint follows the message. `refused_by` is the option table with which our own parser failed, too.
    Without it, options that Slurm 22.05 does not have are ignored, because warpdeck may have them.
    """
    place = OptionSource(
        cwd=console.folder,
        environ=console.env,
        now=time.time(),
        is_root=console.user == "root",
        user_id=existing_uid,
        group_id=existing_gid,
        read_text=lambda path: console.read_file(os.path.join(console.folder, path), MAX_FILE_CHARS).decode(),
    )
    fault = judge(text, name, place, words=words, others=others, known=refused_by or SBATCH_22_05).fault
    if fault is not None and fault.is_answer:
        raise CommandError("\n".join(fault.words), exit_code=fault.exit_code, is_answer=True)
    if fault is not None and (refused_by or not fault.words[-1].startswith(_NOT_THERE)):
        raise CommandError(_said(fault), exit_code=fault.exit_code, bare=True)


def _said(fault: Fault) -> str:
    where = f"  line {fault.line}: {fault.hint}" if fault.line else f"  {fault.hint}"
    said = [line if line.startswith(_NOT_THERE) else f"sbatch: {line}" for line in fault.words]
    return "\n".join([*said, *([where] if fault.hint else [])])
