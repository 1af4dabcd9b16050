"""sattach: prints the layout of a running step's tasks.

It does not attach to the streams of the step. They belong to the srun that started the step, so the error
message names other commands to use.
"""

from __future__ import annotations

from warpdeck.notation.values.hostlist import collapse
from warpdeck.notation.values.job_ids import is_job_id
from warpdeck.protocol.refusals import WORDS
from warpdeck.slurm.console.command_options import handle_help, options, read
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.fields.step_fields import step_name

OPTIONS = options(
    "sattach",
    "error-filter= help,h input-filter= label,l layout output-filter= pty quiet,Q usage,u verbose,v version,V",
)
USAGE = "Usage: sattach [options] <jobid.stepid>"
HELP = """\
Usage: sattach --layout JOB.STEP
  --layout   show on which nodes the tasks of a running step are
  -h --help  -u --usage  -V --version

The streams of a step belong to the srun that started it. Use `warpdeck logs -f JOB` to follow the output of a job, and
`warpdeck attach JOB` to join its terminal."""
INSTEAD = (
    "follow the job's output with `warpdeck logs -f {job}`, or join its terminal with `warpdeck attach {job}`"
)
CYCLIC = "Cyclic"
FILTERS = ("error-filter", "input-filter", "output-filter")
NO_STEP = "Could not get job step info"
UNREAD = "Failed to parse stepid from command line options"


def main(words: list[str], console: Console) -> int:
    """Print the layout of the step's tasks and return the exit code."""
    found, rest = read(words, OPTIONS)
    if handle_help(found, console, usage=USAGE, help_text=HELP):
        return 0
    asked = dict(found)
    for name in FILTERS:
        if name in asked and not asked[name].isdecimal():
            raise CommandError(f'Invalid numeric value "{asked[name]}" for {name}.')
    if len(rest) != 1 or "." not in rest[0]:
        print(USAGE, file=console.streams.out)
        raise CommandError("too many parameters" if len(rest) != 1 else UNREAD)
    job, _, step = rest[0].partition(".")
    if job and not step.isdecimal():
        raise CommandError(f"sattach: fatal: Bad step specified: {job}", bare=True)
    if not is_job_id(job):
        raise CommandError(f"{NO_STEP}: {WORDS['not_found']}")
    record = _running(console, job, step)
    if "layout" not in asked:
        raise CommandError(
            f"the streams of step {job}.{step} belong to the srun that started it: {INSTEAD.format(job=job)}"
        )
    print(layout(record["parts"], cyclic=record["layout"] == CYCLIC), file=console.streams.out)
    return 0


def _running(console: Console, job: str, step: str) -> Row:
    with console.controller.connect() as client:
        jobs = client.call("records", ids=[job], fields=["id", "state"], steps=True)["jobs"]
    if jobs and all(record["state"] == "PENDING" for record in jobs):
        raise CommandError(f"{NO_STEP}: {WORDS['pending']}")
    for each in (step for record in jobs for step in record["steps"]):
        row: Row = each["row"]
        if row["state"] == "RUNNING" and step_name(row) == step:
            found: Row = each
            return found
    raise CommandError(f"{NO_STEP}: {WORDS['not_found']}")


def layout(parts: list[Row], *, cyclic: bool) -> str:
    """Return the tasks of each node in sattach's layout. `parts` has one row for each node of the step."""
    tasks = _ranks([part["tasks"] for part in parts], cyclic=cyclic)
    head = (
        f"\t{sum(map(len, tasks))} tasks, {len(parts)} nodes ({collapse([part['node'] for part in parts])})\n"
    )
    lines = [
        f"\tNode {number} ({part['node']}), {len(ranks)} task(s): {' '.join(map(str, ranks))} "
        for number, (part, ranks) in enumerate(zip(parts, tasks, strict=True))
    ]
    return "\n".join(["Job step layout:", head, *lines])


def _ranks(counts: list[int], *, cyclic: bool) -> list[list[int]]:
    """Return the task numbers of each node.

    They are numbered node by node, or one per node in rotation if `cyclic`.
    """
    whole, ranks = sum(counts), [list[int]() for _ in counts]
    turns = [node for node, count in enumerate(counts) for _ in range(count)]
    if cyclic:
        turns = [node for turn in range(whole) for node, count in enumerate(counts) if turn < count]
    for rank, node in enumerate(turns):
        ranks[node].append(rank)
    return ranks
