"""Error messages and exit codes of the real srun and salloc for requests that are refused here.

It is loaded only when needed, because few requests are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.base.errors import ANSWERED, VERBATIM, UserError
from warpdeck.controller.reducers.step_commands import BUSY, EXPIRED, STARTING
from warpdeck.model import JobId
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import OptionTable
from warpdeck.notation.reading.components import LaunchLine
from warpdeck.notation.validation.launch import validate_component
from warpdeck.notation.validation.result import Rejection
from warpdeck.notation.values.slurm_error import IMMEDIATE, PLAIN, exit_code
from warpdeck.protocol.refusals import WORDS, in_slurms_words, said_first

_FAILED = {"srun": "Unable to allocate resources", "salloc": "Job submit/allocate failed"}
_TRY = "Try "
"""Start of the last line of getopt's errors. getopt puts the command's name into the message itself."""


def check(line: LaunchLine, source: OptionSource, known: OptionTable, *, ours: UserError | None) -> None:
    """Raise UserError with the command's own message if the real command would refuse the arguments.

    `ours` is our own reason for refusing them.
    """
    found = validate_component(line.components[0], source, known=known).rejection
    if found is None or (_is_of_getopt(found) and (ours is None or found.lines[0] not in ours.message)):
        return  # The option is newer than the emulated Slurm version.
    if found.is_answer:
        raise UserError("\n".join(found.lines), exit_code=found.exit_code, code=ANSWERED)
    said = "\n".join(each if each.startswith(_TRY) else f"{known.command}: {each}" for each in found.lines)
    raise UserError(said, found.hint, exit_code=found.exit_code, code=VERBATIM)


def _is_of_getopt(found: Rejection) -> bool:
    return found.lines[-1].startswith(_TRY)


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
        return UserError(words, error.message, exit_code=exit_code(environ), code=VERBATIM)
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
