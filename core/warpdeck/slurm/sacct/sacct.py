"""sacct(1): lists jobs and steps of any age from the controller's own history.

Options, fields and messages are those of sacct.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from warpdeck.base.cluster import CLUSTER_NAME, NORMAL_QOS
from warpdeck.base.passwd import name_of
from warpdeck.client.blocking_client import SyncClient
from warpdeck.notation.values.time_points import parse_moment
from warpdeck.slurm.console.command_options import (
    WordsError,
    handle_help,
    options,
    read,
    reject_format_and_long,
    split_list,
)
from warpdeck.slurm.console.console import CommandError, Console
from warpdeck.slurm.data_parser.output import JsonOutput, print_document, requested
from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.fields.job_states import CODES, OURS
from warpdeck.slurm.fields.step_fields import step_name
from warpdeck.slurm.format.named_columns import parse_step_ids
from warpdeck.slurm.format.printing import (
    Style,
    columns_of,
    last_of_formats,
    print_header,
    print_names,
    print_row,
    style_of,
    with_one_width,
)
from warpdeck.slurm.format.serial import dump
from warpdeck.slurm.format.units import moment

from .accounted_columns import (
    MOMENTS,
    NEWER_WIDTHS,
    NUMBERS,
    WIDTHS,
    AccountedWindow,
    job_line,
    label,
    needs_of_columns,
    recorded_state,
    state_text,
    step_line,
    texts,
)
from .record_choice import (
    UNRECORDED,
    check,
    in_group,
    in_limits,
    in_range,
    moment_of,
    nodes_of,
    state_named,
    unit_of,
    whole_hetjob,
)

OPTIONS = options(
    "sacct",
    "accounts=,A allusers,a allocations,X array associations=,x batch-script,B brief,b cluster=,M clusters= completion,c "
    "constraints=,C delimiter= duplicates,D endtime=,E env-vars expand-patterns federation file=,f flags=,F format=,o gid=,g "
    "group= helpformat,e help,h jobs=,j json? local long,l allclusters,L name= ncpus=,I nnodes=,i nodelist=,N noconvert "
    "noheader,n parsable,p parsable2,P partition=,r qos=,q reason=,R starttime=,S state=,s timelimit-max=,K timelimit-min=,k "
    "truncate,T uid=,u user= units= usage use-local-uid verbose,v version,V wckeys=,W whole-hetjob? whetjob? yaml?",
    newer="helpreason helpstate",
)
OF_CHOICE = """
id label array_job_id array_task_id het_job_id het_job_offset tasks_folded tasks_text uid state reason exit_cause
ended_by_uid start limit_s nodes cpus features
"""
"""Columns by which the jobs are chosen and sorted."""
REQUEUED = "REQUEUED"
NEVER = "BOOT_FAIL"
"""A state that our jobs never have. A filter on states that do not exist here uses it to match nothing."""
DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,"
    "maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state,exitcode,"
    "avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,"
    "avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,"
    "tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,"
    "tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,tresusageouttot"
)
REFUSED = {
    "completion": "the controller keeps the history",
    "env-vars": "environments may contain secrets",
    "file": "the controller keeps the history",
    "flags": "use --state",
    "helpreason": "`warpdeck why JOB` explains the reason of a job",
}
"""Unsupported options that would change the output -> hint for the user."""
GATHERED = ("accounts", "format", "jobs", "name", "partition", "state", "uid", "user")
"""Options whose lists are merged if they are repeated. For other options, the last one is used."""
LISTS = ("accounts", "cluster", "clusters", "constraints", "name", "nodelist", "partition")
"""Filter options whose empty list matches nothing."""
EMPTY = ("wckeys", "associations")
"""Options that name properties that our jobs do not have, so nothing matches."""
REST_OF_SECOND_S = 0.999999
"""Slurm's times are whole seconds, so a job that ended within the second of --endtime ended in time."""
HELP = """sacct [<OPTION>]

  -a --allusers  -u --user USERS  -A --accounts NAMES  -r --partition NAMES  -q --qos NAMES  -N --nodelist NODES
  -j --jobs JOB[.STEP],...  --name NAMES  -s --state STATES  -S --starttime TIME  -E --endtime TIME  -T --truncate
  -X --allocations (no steps)  -b --brief  -l --long  -o --format FIELD[%[-]WIDTH],...  -e --helpformat
  -n --noheader  -p --parsable  -P --parsable2  --delimiter TEXT  --units K|M|G|T|P  --noconvert  --json  --yaml
  -B --batch-script  -D --duplicates (each start of jobs that were requeued)

  sacct -X -S now-7days --format jobid,jobname%30,elapsed,state
  sacct -j 12 --format jobid,maxrss,totalcpu
"""


class SacctOptions:
    """The parsed command line of sacct. Raises CommandError or WordsError."""

    def __init__(self, words: list[tuple[str, str]], console: Console) -> None:
        self.given = last_of_formats(words)
        for option in GATHERED:
            if option in self.given:
                self.given[option] = ",".join(value for name, value in words if name == option and value)
        if not split_list(self.given.get("state", "")):
            self.given.pop("state", None)
        self._keep_last_choice_of_users(words)
        self.given.setdefault("format", "")
        self.console = console
        self.now = time.time()
        for name, value in words:
            check(name, value, self.now)
        named = parse_step_ids("sacct", self.given.get("jobs", ""))
        self.jobs = list(dict.fromkeys(each.job for each in named))
        self._refuse()
        self.steps = "allocations" not in self.given
        self.only = [each for each in named if each.step] if self.steps else []
        self.since, self.until = self._times()
        self.unit = self._unit()

    def _keep_last_choice_of_users(self, words: list[tuple[str, str]]) -> None:
        """Keep the last option among --allusers and the options that name users."""
        last = next((name for name, _ in reversed(words) if name in ("allusers", "uid", "user")), "")
        for name in ("uid", "user") if last == "allusers" else ("allusers",) if last else ():
            self.given.pop(name, None)

    def has(self, name: str) -> bool:
        return name in self.given

    def _refuse(self) -> None:
        """Reject options that are not supported, and options that exclude each other."""
        for name, reason in REFUSED.items():
            if name in self.given:
                raise CommandError(f"--{name} is not supported: {reason}")
        if self.has("batch-script") and not self.jobs:
            sentence = "When requesting job scripts you must also request specific jobs with the '-j' option."
            raise WordsError(f"sacct: fatal: {sentence}")
        if self.given["format"]:
            reject_format_and_long(self.given, "sacct")

    def _times(self) -> tuple[float, float | None]:
        """Return the time window (sacct(1), DEFAULT TIME WINDOW).

        The default start is time 0 if jobs are named. If states are given, it is the end time or else now. In
        all other cases it is midnight. The default end is now, but the start time if both states and a start
        time are given.
        """
        start, end = self.given.get("starttime", ""), self.given.get("endtime", "")
        until = moment_of(end, self.now) if end else None
        if start:
            since = moment_of(start, self.now)
            if until is None and self.has("state"):
                until = since
        elif self.jobs:
            since = 0.0
        elif self.has("state"):
            since = self.now if until is None else until
        else:
            since = parse_moment("00:00", self.now, past=True)
        if (until is not None and since > until) or (until is None and since > self.now):
            raise CommandError(
                f"Start time ({moment(since)}) requested is after end time ({moment(until or self.now)})."
            )
        return since, until

    def _unit(self) -> str:
        if self.has("noconvert"):
            return "raw"
        return unit_of(self.given["units"]) if self.has("units") else ""

    @property
    def finds_nothing(self) -> bool:
        """Whether the filters cannot match any job, so that no request is needed."""
        clusters = split_list(self.given.get("clusters", "") or self.given.get("cluster", ""))
        elsewhere = bool(clusters) and not {CLUSTER_NAME, "all", "-1"} & set(clusters)
        nobody = any(self.has(name) and not split_list(self.given[name]) for name in LISTS)
        return elsewhere or nobody or any(self.has(name) for name in EMPTY)

    @property
    def wants_requeued(self) -> bool:
        """Whether runs that ended in a requeue are requested. A job never stays in that state."""
        wanted = {state_named(word) for word in split_list(self.given.get("state", ""))}
        return self.has("duplicates") and REQUEUED in wanted

    @property
    def whole_hetjob(self) -> str:
        """Value of --whole-hetjob: "yes", "no", or "" if it was not given."""
        return whole_hetjob(self.given.get("whole-hetjob", self.given.get("whetjob")))

    def question(self, needs: Iterable[str]) -> Row:
        """Return the request for these columns. Raises WordsError for invalid users, states or jobs."""
        asked: Row = {
            "fields": sorted({*needs, *OF_CHOICE.split()}),
            "steps": self.steps or bool(self.only),
            "ended": True,
        }
        asked |= {"runs": self.has("duplicates"), "names_in_any_case": True}
        until = self.until
        if until is not None and self.has("endtime"):
            until += REST_OF_SECOND_S
        asked |= {"since": self.since, "until": until}
        if self.jobs:
            asked["ids"] = self.jobs
        for option, field in (
            ("accounts", "accounts"),
            ("partition", "partitions"),
            ("qos", "qos"),
            ("name", "names"),
        ):
            if self.has(option):
                asked[field] = split_list(self.given[option])
        if self.has("nodelist"):
            asked["nodes"] = nodes_of(self.given["nodelist"])
        if self.has("state"):
            wanted = {state_named(word) for word in split_list(self.given["state"])}
            asked["states"] = [state for state in sorted(OURS) if recorded_state(state) in wanted] or [NEVER]
            asked["until"] = until if until is not None else self.now
        users = self._users()
        return {**asked, "users": users} if users else asked

    def _users(self) -> list[str]:
        """Return the users to list the jobs of, or [] for all users.

        The default is all users if the caller is root or names jobs, else only the caller.
        """
        given = self.given.get("uid", "") or self.given.get("user", "")
        if self.has("allusers") or given == "-1":
            return []
        if given:
            return [name_of(int(name)) if name.isdecimal() else name for name in split_list(given)]
        if self.jobs or self.console.user == "root":
            return []
        return [self.console.user]

    def form(self) -> str:
        """Return the list of fields to print."""
        said = (self.given["format"], BRIEF if self.has("brief") else "", LONG if self.has("long") else "")
        form = ",".join(filter(None, said))
        return form or self.console.env.get("SACCT_FORMAT", "") or DEFAULT

    def style(self) -> Style:
        """Return the output style of the table."""
        return style_of(self.given, self.given.get("delimiter", ""))

    def window(self) -> AccountedWindow:
        """Return the time window that limits the printed times, which is unlimited without --truncate."""
        if self.has("truncate"):
            return AccountedWindow(self.now, self.since, self.until if self.until is not None else self.now)
        return AccountedWindow(self.now)


def main(words: list[str], console: Console) -> int:
    """Print the table and return the exit code."""
    found, rest = read(words, OPTIONS, advises=False)
    if handle_help(found, console, help_text=HELP):
        return 0
    if "helpformat" in dict(found):
        print_names(console, WIDTHS)
        return 0
    if "helpstate" in dict(found):
        print_names(console, [state for state in CODES if state not in UNRECORDED])
        return 0
    asked = SacctOptions(found, console)
    if rest:
        lines = "".join(f"\nsacct: error:  {word}" for word in rest)
        raise WordsError(f"sacct: error: Unknown arguments:{lines}")
    return _run(asked)


def _run(asked: SacctOptions) -> int:
    columns = with_one_width(columns_of(asked.form(), WIDTHS, newer=NEWER_WIDTHS), asked.form())
    names = [column.name for column in columns]
    output = requested("sacct", asked.given)
    question = asked.question(needs_of_columns(names) if output is None else _json_needs(output))
    question["steps"] |= "DerivedExitCode" in names
    if asked.has("batch-script"):
        return _scripts(asked, question)
    jobs = [] if asked.finds_nothing else _jobs_of(asked, question)
    if output is not None:
        _print_json(asked, jobs, output)
        return 0
    style = asked.style()
    print_header(asked.console, columns, style)
    for row in _lines(jobs, asked):
        print_row(asked.console, columns, texts(row, names), style, whole=NUMBERS, moments=MOMENTS)
    return 0


def _json_needs(output: JsonOutput) -> list[str]:
    """Return the columns that the objects of the layout read."""
    if output.version:
        from . import accounted_layout

        return accounted_layout.NEEDS
    from . import sacct_json

    return sacct_json.NEEDS


def _print_json(asked: SacctOptions, jobs: list[Row], output: JsonOutput) -> None:
    if output.version:
        from .accounted_layout import job_objects

        things = {"jobs": job_objects(jobs, asked.window(), output.version)}
        print_document(asked.console, output, things, command=["sacct", "--json"], updated=False)
        return
    from .sacct_json import answer

    dump(asked.console, answer(jobs, asked.window()), yaml=output.yaml)


def _lines(jobs: list[Row], asked: SacctOptions) -> Iterator[Row]:
    """Yield the row of each line."""
    window = asked.window()
    for job in jobs:
        if not asked.only or _wants(asked, job, ""):
            yield job_line(job, window, unit=asked.unit)
        if asked.steps:
            for step in job["steps"]:
                if not asked.only or _wants(asked, job, step_name(step["row"])):
                    yield step_line(step, job, window, unit=asked.unit)


def _jobs_of(asked: SacctOptions, question: Row) -> list[Row]:
    with asked.console.controller.connect() as client:
        _check_qos(question.get("qos", ()), client)
        jobs = client.call("records", **question)["jobs"]
        if asked.wants_requeued:
            starts = client.call("records", **{**question, "states": []})["jobs"]
            jobs += [job for job in starts if state_text(job) == REQUEUED]
        leaders = sorted({str(job["het_job_id"]) for job in jobs if job["het_job_id"]})
        if asked.whole_hetjob == "yes" and leaders and asked.jobs:
            jobs = client.call("records", **{**question, "ids": [*asked.jobs, *leaders]})["jobs"]
    return sorted((job for job in jobs if _fits(job, asked) and _is_named(job, asked)), key=_place)


def _check_qos(names: Iterable[str], client: SyncClient) -> None:
    """Check the names of --qos. Raises WordsError for an unknown one."""
    if not names:
        return
    known = list(dict.fromkeys([NORMAL_QOS, *(row["name"] for row in client.call("qos")["qos"])]))
    for name in names:
        if name.lower() not in map(str.lower, known):
            message = f"sacct: error: You gave a bad qos '{name}'. Valid QOS's are {','.join(known)}"
            raise WordsError(f"{message}\nsacct: fatal: problem processing qos list")


def _is_named(job: Row, asked: SacctOptions) -> bool:
    """Check if -j names the job. With --whole-hetjob=no, the leader's job ID names the leader alone."""
    if asked.whole_hetjob != "no" or not asked.jobs or not job["het_job_offset"]:
        return True
    return not {str(job["id"]), str(job["label"])}.isdisjoint(asked.jobs)


def _place(job: Row) -> tuple[int, int]:
    """Return the sort key (array job ID, task number). The pending tasks of an array come first."""
    task = job["array_task_id"]
    return job["array_job_id"], -1 if task is None else task


def _wants(asked: SacctOptions, job: Row, step: str) -> bool:
    """Check if -j names this line: a whole job (`step` "") or one step of it."""
    names = {label(job), str(job["id"]), str(job["array_job_id"]), str(job["label"]), str(job["het_job_id"])}
    steps = [each.step for each in asked.only if each.job in names]
    whole = any(
        word in names or word.partition("_")[0] in names
        for word in asked.jobs
        if word not in dict(asked.only)
    )
    return whole or step in steps


def _fits(job: Row, asked: SacctOptions) -> bool:
    """Check the rarely used filters, which the controller does not have."""
    limit_s, has_run = job["limit_s"], job["start"] is not None
    tests: list[tuple[str, Callable[[str], bool]]] = [
        ("nnodes", lambda text: in_range(job["nodes"] if has_run else 0, text, "node")),
        ("ncpus", lambda text: in_range(job["cpus"] if has_run else 0, text, "cpu")),
        ("timelimit-min", lambda text: in_limits(limit_s, text, asked.given.get("timelimit-max", text))),
        ("gid", lambda text: in_group(job["uid"], text)),
        ("group", lambda text: in_group(job["uid"], text)),
        ("reason", lambda text: job["reason"].partition(",")[0] in split_list(text)),
        ("constraints", lambda text: all(word in job["features"] for word in split_list(text))),
    ]
    return all(test(asked.given[name]) for name, test in tests if name in asked.given)


def _scripts(asked: SacctOptions, question: Row) -> int:
    """Print the batch script of each job (-B). A user only gets the scripts of the user's own jobs."""
    with asked.console.controller.connect() as client:
        jobs = client.call("records", **{**question, "steps": False, "scripts": True})["jobs"]
    for job in jobs:
        script = job["script"] or "NONE\n"
        end = "" if script.endswith("\n") else "\n"
        asked.console.streams.out.write(f"Batch Script for {job['id']}\n{'-' * 80}\n{script}{end}\n")
    return 0
