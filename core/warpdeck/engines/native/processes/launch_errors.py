"""Error messages and exit codes of the real srun and salloc for requests that are refused here.

It is loaded only when needed, because parsing the arguments a second time costs more than a step does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from warpdeck.base.errors import ANSWERED, SAID, UserError
from warpdeck.base.passwd import group_there, user_there
from warpdeck.controller.reducers.step_commands import BUSY, EXPIRED, STARTING
from warpdeck.model import JobId
from warpdeck.notation.option_values.option_fields import OptionSource
from warpdeck.notation.options.options import OptionTable
from warpdeck.notation.values.refusal import IMMEDIATE, PLAIN, exit_code
from warpdeck.notation.verdict.launch import judge_launch
from warpdeck.notation.verdict.verdict import Fault
from warpdeck.ports.caller import Principal
from warpdeck.protocol import requests as ask
from warpdeck.protocol.refusals import WORDS, in_slurms_words, said_first

_FAILED = {"srun": "Unable to allocate resources", "salloc": "Job submit/allocate failed"}
_TRY = "Try "
"""Start of the last line of getopt's errors. getopt puts the command's name into the message itself."""
_UNREAD = "localhost\n"
"""Assumed content of a file that the client was not asked for: one host name."""


def check(
    message: ask.Srun | ask.Salloc, known: OptionTable, *, who: Principal, ours: UserError | None
) -> None:
    """Raise UserError with the command's own message if the real command would refuse the arguments.

    `ours` is our own reason for refusing them.
    """
    files = message.files if isinstance(message, ask.Srun) else {}
    place = OptionSource(
        cwd=message.cwd,
        environ=message.env,
        now=time.time(),
        is_root=who.uid == 0,
        user_id=user_there,
        group_id=group_there,
        read_text=lambda name: files.get(name, _UNREAD),
    )
    fault = judge_launch(message.words, place, known=known).fault
    if fault is None or (_is_of_getopt(fault) and (ours is None or fault.words[0] not in ours.message)):
        return  # The option is newer than the emulated Slurm version.
    if fault.is_answer:
        raise UserError("\n".join(fault.words), exit_code=fault.exit_code, code=ANSWERED)
    said = "\n".join(line if line.startswith(_TRY) else f"{known.command}: {line}" for line in fault.words)
    raise UserError(said, fault.hint, exit_code=fault.exit_code, code=SAID)


def _is_of_getopt(fault: Fault) -> bool:
    return fault.words[-1].startswith(_TRY)


def in_its_words(error: UserError, known: OptionTable, environ: Mapping[str, str]) -> UserError:
    """Return the controller's refusal of an allocation in the command's wording."""
    return _told(error, f"{_FAILED[known.command]}: ", known.command, environ)


def of_step(error: UserError, job_id: JobId, environ: Mapping[str, str]) -> UserError:
    """Return the refusal of a step in srun's wording."""
    if error.code in (BUSY, STARTING):
        words = f"Unable to create step for job {job_id}: Requested nodes are busy"
        others = "steps" in error.details  # Otherwise the job is suspended, or a node does not answer.
        hint = "other steps hold them; --overlap shares with these" if others else error.message
        return UserError(words, hint)
    if error.code == "step_nodes" and error.details:
        words = f"Only allocated {error.details['has']} nodes asked for {error.details['asked']}"
        return UserError(words, error.hint, exit_code=exit_code(environ))
    if error.code == EXPIRED:
        check = f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
        words = f"srun: error: Slurm job {job_id} has expired\n{check}"
        return UserError(words, error.message, exit_code=exit_code(environ), code=SAID)
    return _told(error, f"Unable to create step for job {job_id}: ", "srun", environ)


def too_late(environ: Mapping[str, str]) -> UserError:
    """Return the error for --immediate if resources did not become free in time."""
    return UserError(
        "Unable to allocate resources: Requested nodes are busy",
        "leave --immediate out to wait for them",
        exit_code=exit_code(environ, IMMEDIATE),
    )


def _told(error: UserError, begun: str, command: str, environ: Mapping[str, str]) -> UserError:
    code = exit_code(environ) if error.exit_code == PLAIN else error.exit_code
    if error.code not in WORDS and not error.code.startswith(("QOS", "Assoc")):
        return UserError(error.message, error.hint, exit_code=code, code=error.code)
    words = said_first(error) + begun + in_slurms_words(error)
    return UserError(words.replace("\n", f"\n{command}: error: "), exit_code=code)
