"""sstat(1): prints the current resource usage of running steps.

The agents of the nodes measure it. On each node, all tasks of a step are measured as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.slurm.console.command_options import Words, handle_help, options, read
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.step_fields import STEP, is_sruns, step_name
from warpdeck.slurm.fields.text_forms import plain_tres
from warpdeck.slurm.format.named_columns import NamedStep, parse_step_ids
from warpdeck.slurm.format.printing import (
    PrintedColumn,
    columns_of,
    last_of_formats,
    print_header,
    print_names,
    print_row,
    style_of,
    with_one_width,
)
from warpdeck.slurm.format.units import tres_text
from warpdeck.slurm.scontrol.processes import processes_of

from .accounted_columns import STEP_COLUMNS
from .accounted_columns import WIDTHS as SACCT_WIDTHS
from .step_usage import USAGE, StepUsage, energy_j

OPTIONS = options(
    "sstat",
    "allsteps,a helpformat,e format=,o fields= help,h pidformat,i jobs=,j noheader,n noconvert parsable,p parsable2,P usage "
    "verbose,v version,V",
)
FREQUENCIES = ("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin")
_ENERGY = Field("", lambda row: energy_j(row["used"]) or 0)


def _pids(row: Row) -> str:
    """Return the processes of the step on this machine, unless the caller is a process of a job."""
    job, _, name = row["id"].rpartition(".")
    return ",".join(str(each[0]) for each in processes_of(job, name)) if row["here"] else ""


COLUMNS: dict[str, Field] = {
    **{name: STEP_COLUMNS[name] for name in (*USAGE, *FREQUENCIES)},
    "AllocTRES": shaped(STEP["tres"], lambda tres: tres_text(plain_tres(tres))),
    "ConsumedEnergy": _ENERGY,
    "ConsumedEnergyRaw": _ENERGY,
    "JobID": STEP["id"],
    "Nodelist": STEP["node_list"],
    "NTasks": STEP["tasks"],
    "Pids": Field("", _pids),
}
"""Column -> its field of a step. Other columns are empty."""
NAMES = (
    "AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize ConsumedEnergy ConsumedEnergyRaw JobID MaxDiskRead "
    "MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS "
    "MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask MinCPU MinCPUNode MinCPUTask Nodelist NTasks Pids ReqCPUFreq "
    "ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask "
    "TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode "
    "TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot"
)
OWN = {"Nodelist": 20, "Pids": 20, "AveDiskRead": 12, "AveDiskWrite": 12}
WIDTHS = {name: OWN.get(name) or SACCT_WIDTHS[name] for name in NAMES.split()}
NEWER_WIDTHS = {"AllocTRES": 10, "SLUID": 14}
"""Fields that came after Slurm 22.05. --helpformat does not contain them."""
DEFAULT = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,"
    "consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,"
    "avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,"
    "tresusageinmintask,tresusageintot,tresusageoutave,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,"
    "tresusageoutmin,tresusageoutminnode,tresusageoutmintask,tresusageouttot"
)
PIDS = "jobid,nodelist,pids"
FORMS = ("fields", "format", "pidformat")
"""Options that name fields. Repeated options add fields."""
HELP = """sstat [<OPTION>] -j JOB[.STEP],...

  -a --allsteps   -o --format FIELD[%[-]WIDTH],...   -e --helpformat   -i --pidformat
  -n --noheader   -p --parsable   -P --parsable2   --noconvert

  sstat -a -j 12 --format jobid,avecpu,maxrss,ntasks
"""


def main(words: list[str], console: Console) -> int:
    """Print the table and return the exit code."""
    found, rest = read(words, OPTIONS, advises=False)
    if handle_help(found, console, help_text=HELP):
        return 0
    if "helpformat" in dict(found):
        print_names(console, WIDTHS)
        return 0
    jobs = [each for text in (*_said(found, "jobs"), *rest) for each in parse_step_ids("sstat", text)]
    return _print(found, jobs, console)


def _said(found: Words, *names: str) -> list[str]:
    return [value for name, value in found if name in names]


def _print(found: Words, jobs: list[NamedStep], console: Console) -> int:
    given = last_of_formats(found)
    forms = [PIDS if name == "pidformat" else value for name, value in found if name in FORMS]
    form = ",".join(filter(None, forms)) or DEFAULT
    columns = with_one_width(columns_of(form, WIDTHS, newer=NEWER_WIDTHS), form, zero_counts=False)
    if not jobs:
        raise CommandError("You didn't give me any jobs to stat.")
    style = style_of(given)
    print_header(console, columns, style)
    for job in jobs:
        for step in _steps(job, console, everything="allsteps" in given):
            texts = _texts(step, columns, raw="noconvert" in given, here=console.paths is not None)
            print_row(console, columns, texts, style)
    return 0


def _steps(named: NamedStep, console: Console, *, everything: bool) -> list[Row]:
    """Return the records of the running steps that a job or step ID names.

    If it names no step, they are those of the first numbered step, or with `everything` those of all steps.
    Errors are printed.
    """
    with console.controller.connect() as client:
        jobs = _records(named.job, client) or _records(named.number, client)
        running = [step for job in jobs for step in job["steps"] if step["row"]["state"] == "RUNNING"]
        if named.step:
            running = [step for step in running if step_name(step["row"]) == named.step]
        if not jobs:
            console.streams.err.write(f"sstat: error: couldn't get steps for job {named.number}\n")
        elif not running and named.step:
            console.streams.err.write(
                f"sstat: error: StepId={named.number}.{named.step} not found running.\n"
            )
        elif not running:
            console.streams.err.write(f"sstat: error: No steps running for job {named.number}\n")
        if not named.step and not everything:
            running = [step for step in running if is_sruns(step["row"])][:1]
        for each in running:
            _take_use(each, client)
        return running


def _records(job: str, client: Any) -> list[Row]:
    found: list[Row] = client.call("records", ids=[job], fields=["id", "label", "state"], steps=True)["jobs"]
    return found


def _take_use(step: Row, client: Any) -> None:
    """Replace the step's usage by the current usage of its processes. The step extern is not measured."""
    try:
        use = client.call("curves", job=step["row"]["id"])
    except UserError:
        return
    if use["parts"]:
        step["row"]["used"] = use["used"]
        known = {part["node"]: part for part in step["parts"]}
        step["parts"] = [
            {"tasks": 1, "first_task": 0, **known.get(part["node"], {}), **part} for part in use["parts"]
        ]


def _texts(step: Row, columns: Sequence[PrintedColumn], *, raw: bool, here: bool) -> list[str]:
    row = {**step, **step["row"]}
    row |= {"usage": StepUsage(row, "raw" if raw else ""), "here": here}
    return [str(COLUMNS[column.name].value(row)) if column.name in COLUMNS else "" for column in columns]
