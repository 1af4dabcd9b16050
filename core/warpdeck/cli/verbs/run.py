"""`warpdeck run|srun|salloc|attach`: run commands on the cluster, and join the terminals of jobs.

The functions import their parts, so that each verb loads only its own.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.cli.arguments import TASK_HELP, TERMINALS, Argument
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.cli.verb import Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.client.blocking_client import SyncClient


def _run(words: list[str]) -> int:
    from warpdeck.client.blocking_client import STEPS
    from warpdeck.client.run_command import run_command

    if "--pty" in words:
        from warpdeck.client.terminal_session import run_on_terminal

        code = run_on_terminal(words)
        if code is not None:
            return code
    try:
        return run_command(words)
    except UserError as error:
        if error.code != STEPS:
            raise
    return _srun(words)


def _srun(words: list[str]) -> int:
    from warpdeck.slurm.interactive import srun

    return srun.main("srun", words)


def _srun_help() -> str:
    from warpdeck.notation.step.srun_help import HELP

    return HELP


def _salloc(words: list[str]) -> int:
    from warpdeck.slurm.interactive import salloc

    return salloc.main("salloc", words)


def _salloc_help() -> str:
    from warpdeck.slurm.interactive.salloc import HELP

    return HELP


def _attach(client: SyncClient, args: Namespace) -> int:
    from warpdeck.client.terminal_session import join

    return join(client, args.job, watch=args.watch)


VERBS = (
    SlurmVerb(
        "run", """\
Run a command on the cluster in the current folder, print its output and return its exit code. All sbatch options are
accepted (-N -n -c --gpus --gres --mem -t ...). With --pty the command gets a terminal. To detach, press Enter, then ~ d:
the job keeps running, and `warpdeck attach JOB` attaches again. Enter ~ ? lists all of these keys.""",
        examples=("warpdeck run --gpus 1 --pty bash", "warpdeck run -N 2 -n 2 hostname", "warpdeck run --gpus 1 nvidia-smi"),
        takes="srun", usage=("[OPTIONS] [--pty] COMMAND...",), run_words=_run,
    ),
    SlurmVerb(
        "srun",
        takes="srun", text=_srun_help, run_words=_srun,
    ),
    SlurmVerb(
        "salloc",
        takes="salloc", text=_salloc_help, run_words=_salloc,
    ),
    Verb(
        "attach", """\
Attach to the terminal of a job that was started with --pty. To detach, press Enter, then ~ d: the job keeps running.
Enter ~ ? lists all of these keys. Several users can be attached at once; the terminal takes the size of the one that
typed last.""",
        (
            Argument("--watch", "show the terminal and send no keys to it; q quits"),
            Argument("JOB", TASK_HELP, completes=TERMINALS),
        ),
        examples=("warpdeck attach 12", "warpdeck attach --watch 12"),
        reads=False, ask=_attach,
    ),
)  # fmt: skip
