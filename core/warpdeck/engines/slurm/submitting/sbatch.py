"""Runs sbatch for a job's folder, and decides whether its outcome is known.

sbatch writes to files in the folder, and inherits the lock of the folder. So a later gateway knows when sbatch has
ended, and what it printed, even if this gateway is killed.

The job gets exactly the variables of its request, because sbatch runs with these (--export=ALL). Variables that would
change what sbatch does are withheld from it, and set by the wrapper.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.commands import SlurmCommands, command_error
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import Request

from .job_folder import ANSWER, ERRORS, JobFolder
from .sbatch_options import submission_arguments

_CONTROLS = re.compile(r"SBATCH_.*|SLURM_(CONF|CONF_SERVER|CLUSTERS|TIME_FORMAT|EXIT_ERROR|DEBUG_FLAGS)")
"""Variables that change what sbatch does. The request has their effects already."""
_SITE = re.compile(r"SLURM_(CONF|CONF_SERVER)|SLURM_JWT")
"""Variables with which the gateway's own commands find Slurm."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_REFUSED = re.compile(r"Batch job submission failed: |unrecognized option|invalid option", re.IGNORECASE)
"""Last words of an sbatch that has submitted nothing, unless _UNKNOWN is part of them."""
_UNKNOWN = re.compile(
    r"Socket timed out|Zero Bytes|Unable to contact slurm controller(?! \(connect failure\))"
    r"|Unexpected message|Transport endpoint|Connection (reset|closed)|Protocol",
    re.IGNORECASE,
)
"""Errors after which slurmctld may have accepted the job. All others are its answer, or no connection was made."""
_SIGNALED = 128
"""Exit codes from this one on are those of shells for a command that a signal killed."""


class Outcome(Enum):
    """Whether a submission has reached slurmctld."""

    UNKNOWN = "unknown"
    REFUSED = "refused"
    """It is certain that nothing was submitted."""
    SUBMITTED = "submitted"


@dataclass(frozen=True)
class Sbatch:
    """The command sbatch of the user's Slurm."""

    commands: SlurmCommands
    version: Version

    def arguments(self, requests: Sequence[Request], *script: str) -> list[str]:
        """Return the arguments. Raises UserError for a field that this Slurm cannot express."""
        return ["--parsable", "--export=ALL", *submission_arguments(requests, self.version, *script)]

    async def submit(self, folder: JobFolder, requests: Sequence[Request], *, lock: int) -> Outcome:
        """Run sbatch, which writes its answer into the folder. Raises UserError if it cannot be run."""
        request = requests[0]
        if not os.path.isdir(request.submit_dir):
            raise UserError(
                f"the submit folder {request.submit_dir} does not exist on this machine", "Create it."
            )
        argv = [self.commands.program("sbatch"), *self.arguments(requests, folder.run)]
        if request.limits:
            argv = [self.commands.program("prlimit"), *_limits(request.limits), *argv]
        try:
            with open(folder.file(ERRORS), "wb") as errors, open(folder.file(ANSWER), "wb") as answer:
                code = await self.commands.submit(
                    argv,
                    environ=sbatch_environment(request, self.commands.environ),
                    cwd=request.submit_dir,
                    out=answer.fileno(),
                    err=errors.fileno(),
                    keep_open=lock,
                )
        except OSError as error:
            with suppress(OSError):
                os.unlink(folder.file(ANSWER))
            raise UserError(
                f"cannot run sbatch for {folder.path}: {error.strerror}", "Nothing was submitted."
            ) from error
        return outcome(folder, code=code)


def outcome(folder: JobFolder, *, code: int | None = None) -> Outcome:
    """Return what is known about a submission while no sbatch of it runs. `code` is its exit code, if it is known."""
    if folder.job_id() is not None:
        return Outcome.SUBMITTED
    if not folder.is_started():
        return Outcome.REFUSED
    errors = folder.text(ERRORS)
    failed = code is not None and 0 < code < _SIGNALED
    is_certain = (failed or _REFUSED.search(errors)) and not _UNKNOWN.search(errors)
    return Outcome.REFUSED if is_certain else Outcome.UNKNOWN


def refusal(folder: JobFolder) -> UserError:
    """Return the error for a submission that Slurm refused, in Slurm's words."""
    found = command_error("sbatch", folder.text(ERRORS))
    found.code = found.code or "refused"
    return found


def sbatch_environment(request: Request, site: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of sbatch: the environment of the job without the withheld variables."""
    wanted = request.env | request.step_variables
    kept = {name: text for name, text in wanted.items() if not _CONTROLS.fullmatch(name)}
    return kept | {name: text for name, text in site.items() if _SITE.fullmatch(name)}


def withheld(request: Request) -> dict[str, str]:
    """Return the variables that the wrapper sets, because sbatch must not see them."""
    return {
        name: text
        for name, text in request.env.items()
        if _CONTROLS.fullmatch(name) and not _SITE.fullmatch(name) and _IDENTIFIER.fullmatch(name)
    }


def _limits(limits: Mapping[str, int]) -> list[str]:
    """Return the options of prlimit that set soft limits. sbatch passes its own limits on to the job."""
    texts = {name.lower(): "unlimited" if value < 0 else str(value) for name, value in limits.items()}
    return [f"--{name}={text}:" for name, text in texts.items()]
