"""sstat(1): what running steps use now, as the agents of their nodes have measured it; each node's tasks as a whole."""

from __future__ import annotations

from typing import Any

from warpdeck.errors import UserError
from warpdeck.slurm.console import CommandError, Console
from warpdeck.slurm.scontrol.processes import processes_of
from warpdeck.slurm.version import VERSION
from warpdeck.slurm.words import WordsError, listed, options, read

from .named import named_steps
from .printing import Style, UnknownField, columns_of, print_header, print_names, print_row, with_one_width
from .usage import usage_fields
from .values import WIDTHS as SACCT_WIDTHS

Record = dict[str, Any]
OPTIONS = options(
    "sstat",
    "allsteps,a helpformat,e format=,o fields= help,h pidformat,i jobs=,j noheader,n noconvert parsable,p parsable2,P usage "
    "verbose,v version,V",
)
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
DEFAULT = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,"
    "consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,"
    "avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,"
    "tresusageinmintask,tresusageintot,tresusageoutave,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,"
    "tresusageoutmin,tresusageoutminnode,tresusageoutmintask,tresusageouttot"
)
PIDS = "jobid,nodelist,pids"
HELP = """sstat [<OPTION>] -j JOB[.STEP],...

  -a --allsteps   -o --format FIELD[%[-]WIDTH],...   -e --helpformat   -i --pidformat
  -n --noheader   -p --parsable   -P --parsable2   --noconvert

  sstat -a -j 12 --format jobid,avecpu,maxrss,ntasks
"""


def main(words: list[str], console: Console) -> int:
    """Prints the table; the exit code."""
    try:
        found, rest = read(words, OPTIONS)
    except WordsError as error:
        console.err.write(error.message.removesuffix('\nTry "sstat --help" for more information') + "\n")
        return error.exit_code
    given = dict(found)
    if given.keys() & {"help", "usage", "version"}:
        console.out.write(VERSION if "version" in given else HELP)
        return 0
    if "helpformat" in given:
        print_names(console.out, WIDTHS)
        return 0
    jobs = [word for text in (given.get("jobs", ""), *rest) for word in listed(text)]
    if not jobs:
        raise CommandError("You didn't give me any jobs to stat.")
    return _print(given, jobs, console)


def _print(given: dict[str, str], jobs: list[str], console: Console) -> int:
    form = PIDS if "pidformat" in given else given.get("format", "") or given.get("fields", "") or DEFAULT
    try:
        columns = with_one_width(columns_of(form, WIDTHS), form)
    except UnknownField as error:
        raise CommandError(f'Invalid field requested: "{error}"') from error
    named = [each for word in jobs for each in named_steps("sstat", word)]
    parsable = "parsable" in given or "parsable2" in given
    style = Style("|" if parsable else "", ends="parsable2" not in given, header="noheader" not in given)
    print_header(console.out, columns, style)
    for number, step in named:
        for values in _steps(number, step, console, everything="allsteps" in given, raw="noconvert" in given):
            print_row(console.out, columns, [values.get(column.name, "") for column in columns], style)
    return 0


def _steps(job: str, step: str, console: Console, *, everything: bool, raw: bool) -> list[dict[str, str]]:
    """The running steps that are named: one, all, or those that srun began."""
    with console.connect() as client:
        found = client.call("records", ids=[job], fields=["id", "label", "state"], steps=True)["jobs"]
        running = [
            each
            for record in found
            for each in record["steps"]
            if each["row"]["state"] == "RUNNING" and _is_meant(each["row"]["id"], step, everything=everything)
        ]
        if not found and "_" not in job:
            console.err.write(f"sstat: error: couldn't get steps for job {job}\n")
        elif not running and step:
            console.err.write(f"sstat: error: StepId={job}.{step} not found running.\n")
        elif found and all(record["state"] != "RUNNING" for record in found):
            console.err.write(f"sstat: error: No steps running for job {job}\n")
        lines = []
        for each in running:
            _take_use(each, client)
            lines.append(_values(each, raw=raw, here=console.paths is not None))
        return lines


def _is_meant(name: str, step: str, *, everything: bool) -> bool:
    own = name.rpartition(".")[2]
    return own == step if step else everything or own.isdecimal()


def _take_use(step: Record, client: Any) -> None:
    """What its processes use now. Of 12.extern nothing is measured."""
    try:
        told = client.call("curves", job=step["row"]["id"])
    except UserError:
        return
    if told["parts"]:
        step["row"]["used"] = told["used"]
        known = {part["node"]: part for part in step["parts"]}
        step["parts"] = [
            {"tasks": 1, "first_task": 0, **known.get(part["node"], {}), **part} for part in told["parts"]
        ]


def _values(step: Record, *, raw: bool, here: bool) -> dict[str, str]:
    row = step["row"]
    job, _, name = row["id"].rpartition(".")
    pids = [str(each[0]) for each in processes_of(job, name)] if here else []
    frequency = "Unknown" if name.isdecimal() else "0"
    energy = (row["used"] or {}).get("energy_j")
    return {
        "JobID": row["id"],
        "Nodelist": row["node_list"],
        "NTasks": str(row["tasks"]),
        "Pids": ",".join(pids),
        "ConsumedEnergy": str(int(energy or 0)),
        "ConsumedEnergyRaw": str(int(energy or 0)),
        **dict.fromkeys(("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin"), frequency),
        **usage_fields(step, unit="raw" if raw else ""),
    }
