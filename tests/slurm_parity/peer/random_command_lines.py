"""Random command lines of commands that read the queue or cancel jobs.

They have options from the man pages, with good and bad values of each kind. They refer to the site of
busy_site.

    line = random_line("squeue", random.Random(1))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Values = tuple[str, ...]


def _words(text: str) -> Values:
    return tuple(text.split())


JOBS: Values = (
    "1", "2", "3", "4", "5", "6", "6_1", "6_2", "6_9", "9", "10", "11", "11_1", "11_3", "11_50", "14", "15", "16", "17", "18", "20",
    "21", "22", "21+0", "21+1", "21+5", "23", "23_1", "23_2", "999", "9999_1", "0", "-1", "x", "", "9,15", "15,9,999", "9.0",
    "9.batch", "1.batch", "9.9", "9,", ",9", "9 15", "1-3", "9x", "9_x", "6_", "99999999999", "1e3", "0x9", "+9", "9.x", "9.", ".0",
    "9_1", "11_1.0", "6_1.batch", "root",
)  # fmt: skip
USERS: Values = (
    *(
        "root",
        "nobody",
        "0",
        "65534",
        "nosuch",
        "",
        "root,nobody",
        "root,nosuch",
        "nosuch,nosuch2",
        "12345",
        "Root",
        "-1",
    ),
    *(",", "root,", "ro*"),
)
PARTITIONS: Values = (
    "gpu",
    "debug",
    "gpu,debug",
    "nosuch",
    "",
    "gpu,nosuch",
    "GPU",
    "deb",
    ",",
    "nosuch,other",
)
ACCOUNTS: Values = ("ml", "bio", "sci", "ml,bio", "nosuch", "", "ML", "root", "ml,nosuch", ",")
QOS: Values = ("normal", "high", "normal,high", "nosuch", "", "HIGH", "1", "high,nosuch", "0")
NAMES: Values = ("runs", "held", "array", "runs,held", "nosuch", "", "ru", "array,tried")
NODES: Values = (
    *("n1", "n2", "n[1-2]", "n1,n3", "n4", "n9", "n[1-9]", "", "N1", "n1,", "all"),
    *("n1,n9", "n[1-2],x"),
)
JOB_STATES: Values = (
    "R", "PD", "running", "PENDING", "pend", "all", "ALL", "CD", "completed", "CD,F", "F,CA", "S", "suspended", "CG", "foo", "",
    "R,foo", "TO", "NF", "PR", "BF", "DL", "OOM", "RQ", "requeued", "RH", "SE", "cancelled", "CA", "RD", "RESV_DEL_HOLD", "PD,R",
    "R PD", "r", "RS", "RV", "SI", "SO", "ST", "stopped", "all,foo", "run", "comp", "CF", "configuring", "FAIL", "failed",
    "node_fail", "0", "3",
)  # fmt: skip
NODE_STATES: Values = (
    "idle", "mix", "alloc", "drain", "drained", "draining", "down", "mixed", "allocated", "all", "foo", "", "idle,mix", "idle&drain",
    "!idle", "resv", "maint", "comp", "completing", "unk", "unknown", "fail", "failing", "no_respond", "npc", "perfctrs",
    "power_down", "powering_down", "POWERED_DOWN", "POWER_UP", "powering_up", "planned", "reboot", "reboot_issued",
    "reboot_requested", "err", "error", "future", "IDLE", "drain,foo", "!drain", "blocked", "cloud", "idle,", "noresp", "res",
    "reserved", "alloc&drain", "mix&idle",
)  # fmt: skip
NUMBERS: Values = ("1", "2", "0", "-1", "x", "", "1-3", "99999999999", "1.5", "2x", "+2", "1-", "-3", "1k")
MOMENTS: Values = (
    "now", "now-1hour", "now-1day", "now+1hour", "today", "midnight", "noon", "teatime", "yesterday", "2020-01-01",
    "2020-01-01T00:00:00", "01/01/20", "0101", "010120", "01.01.20", "16:00", "16:00:99", "25:00", "x", "", "0", "1", "now-x",
    "now-1foo", "now-1hours", "now-2weeks", "2020-13-01", "2020-1-1", "1577836800", "uts1577836800", "uts", "4pm", "4am", "12/31",
    "fika", "elevenses", "2020-01-01-10:00", "2020-01-01T10", "now-60", "now-1minutes", "now-1months", "2020-02-30", "now+1",
    "today-1",
)  # fmt: skip
SPANS: Values = (
    "10",
    "1:00",
    "1-0",
    "1:00:00",
    "x",
    "0",
    "",
    "60",
    "1-00:00:00",
    "-1",
    "UNLIMITED",
    "1:2:3:4",
    "120",
    "20",
)
CLUSTERS: Values = ("warpdeck", "all", "", "warpdeck,warpdeck")
DELIMITERS: Values = ("|", ";", ",", "", "ab", "\\t", " ")
WIDTHS: Values = ("", "5", ".5", "30", "0", "1", ".1", ".30", "05")
FORMATS_SQUEUE: Values = (*"aABcCdDfFgGhHiIjJkKlmnNoOPqrRstTuUvwWxXyzZ",)
NAMES_SQUEUE: Values = _words(
    "account arrayjobid arraytaskid associd batchflag batchhost boardspernode burstbuffer burstbufferstate cluster "
    "clusterfeature command comment contiguous container cores corespec cpufreq cpus-per-task cpus-per-tres "
    "deadline delayboot dependency derivedec exc_nodes exit_code feature groupid groupname hetjobid "
    "hetjobidset hetjoboffset jobarrayid jobid licenses maxcpus maxnodes mcslabel mem-per-tres minmemory mintime "
    "mintmpdisk mincpus name network nice nodes nodelist ntpercore ntpernode ntpersocket ntperboard numcpus "
    "numnodes numtasks origin originraw oversubscribe partition prefer profile preempttime priority qos reason "
    "reasonlist reboot reqnodes reqswitch requeue reservation resizetime restartcnt resvport selectjobinfo "
    "siblingsactive siblingsactiveraw siblingsviable siblingsviableraw shared sockets sperboard state statecompact "
    "stderr stdin stdout stepid stepname stepstate suspendtime system_comment threads timelimit tres-alloc "
    "tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-step tres-per-task userid username "
    "wait4switch wckey workdir nosuch all "
)
FORMATS_SINFO: Values = (*"aAbBcCdDEfFgGhHjIlLmMNpPrRsStTuUvVwXYzZ",)
NAMES_SINFO: Values = _words(
    "all allocmem allocnodes available cluster comment cores cpus cpusstate cputotal defaulttime disk extra "
    "features features_act gres gresused groups maxcpuspernode memory nodes nodeai nodeaiot nodelist oversubscribe "
    "partition partitionname preemptmode priorityjobfactor prioritytier reason root size statecompact statelong "
    "statecomplete socketcorethread sockets threads time timestamp user userlong version weight nosuch "
)
FIELDS_SACCT: Values = _words(
    "Account AdminComment AllocCPUS AllocNodes AllocTRES AveCPU AveRSS BlockID Cluster Comment Constraints "
    "Container CPUTime DerivedExitCode ExitCode GID Group JobIDRaw JobName Layout MaxRSSNode "
    "MCSLabel NCPUS NNodes NodeList NTasks Partition QOS Reason ReqCPUS "
    "ReqMem ReqNodes ReqTRES Reservation State Timelimit TimelimitRaw UID User WCKey "
    "WCKeyID WorkDir nosuch state% exitc req "
)
FIELDS_SSTAT: Values = _words("JobID NTasks Nodelist AveCPU MaxRSS Pids nosuch aver MaxVMSizeTask ")
UNITS: Values = ("K", "M", "G", "T", "P", "X", "", "k", "MM")


def sort_keys(letters: Sequence[str]) -> Callable[[random.Random], str]:
    """Return a generator of values for -S."""

    def generate(rng: random.Random) -> str:
        keys = (
            rng.choice(("", "+", "-", "-")) + rng.choice((*letters, "i")) for _ in range(rng.randint(1, 3))
        )
        return ",".join((*keys, rng.choice(("i", "", "N", "#"))))

    return generate


def short_format(letters: Sequence[str]) -> Callable[[random.Random], str]:
    """Return a generator of values for -o with letters."""

    def generate(rng: random.Random) -> str:
        fields = (f"%{rng.choice(WIDTHS)}{rng.choice(letters)}" for _ in range(rng.randint(1, 5)))
        return rng.choice(("", "", "x", "|")) + rng.choice(("|", " ", "", "%%", ",")).join(fields)

    return generate


def long_format(names: Sequence[str], *, mark: str = ":", first: str = "") -> Callable[[random.Random], str]:
    """Return a generator of values for -O, or for -o with names. A width follows the mark."""

    def generate_field(rng: random.Random) -> str:
        name = rng.choice(names)
        name = rng.choice((name, name, name.upper(), name.lower()))
        width = rng.choice(WIDTHS)
        return name if rng.random() < 0.6 else name + mark + width

    return lambda rng: first + ",".join(generate_field(rng) for _ in range(rng.randint(1, 6)))


class Option(NamedTuple):
    """An option with the letter and name of the man page. `values` is None for a flag."""

    name: str
    letter: str = ""
    values: Values | Callable[[random.Random], str] | None = None
    weight: int = 2


class Grammar(NamedTuple):
    """The options of a command, its variables (name to values), and the arguments that may accompany them."""

    options: tuple[Option, ...]
    variables: Mapping[str, Values] = {}
    words: Values = ()


Line = tuple[list[str], dict[str, str]]
EVERYWHERE: Mapping[str, Values] = {
    "SLURM_TIME_FORMAT": ("standard", "relative", "%H", "", "raw", "x%Yx", "%"),
    "SLURM_CLUSTERS": ("warpdeck", "all"),
    "SLURM_BITSTR_LEN": ("64", "5", "0", "x", ""),
    "SLURM_JOB_ID": ("9", "x"),
}
"""Variables that several commands read."""


def _jobs_without(*marks: str) -> Values:
    return tuple(job for job in JOBS if not any(mark in job for mark in marks))


SQUEUE = Grammar(
    (
        Option("account", "A", ACCOUNTS),
        Option("all", "a"),
        Option("array", "r"),
        Option("array-unique"),
        Option("hide"),
        Option("format", "o", short_format(FORMATS_SQUEUE), 6),
        Option("Format", "O", long_format(NAMES_SQUEUE), 5),
        Option("jobs", "j", JOBS, 8),
        Option("licenses", "L", ("a", "", "a,b")),
        Option("local"),
        Option("long", "l"),
        Option("me"),
        Option("name", "n", NAMES),
        Option("noconvert"),
        Option("nodelist", "w", NODES),
        Option("noheader", "h", None, 8),
        Option("partition", "p", PARTITIONS),
        Option("priority", "P"),
        Option("qos", "q", QOS),
        Option("reservation", "R", ("tune", "nosuch", "", "tune,x")),
        Option("sibling"),
        Option("sort", "S", sort_keys(FORMATS_SQUEUE), 4),
        Option("states", "t", JOB_STATES, 5),
        Option("user", "u", USERS, 3),
        Option("users", "", USERS, 1),
        Option("clusters", "M", CLUSTERS, 1),
        Option("federation"),
        Option("iterate", "i", ("x", "0", "-1", ""), 1),
        Option("nosuch", "", None, 1),
        Option("verbose", "v", None, 0),
        Option("zzz", "Z", None, 1),
    ),
    {
        "SQUEUE_ACCOUNT": ACCOUNTS,
        "SQUEUE_ALL": ("", "1"),
        "SQUEUE_ARRAY": ("", "1"),
        "SQUEUE_NAMES": NAMES,
        "SQUEUE_FORMAT": ("%i", "%i|%j", "x", "%.5i%9j"),
        "SQUEUE_FORMAT2": ("jobid", "jobid:5,name", "nosuch", ""),
        "SQUEUE_LICENSES": ("a", ""),
        "SQUEUE_LOCAL": ("1",),
        "SQUEUE_PARTITION": PARTITIONS,
        "SQUEUE_PRIORITY": ("1",),
        "SQUEUE_QOS": QOS,
        "SQUEUE_SORT": ("i", "-i", "j,-i", "zz", ""),
        "SQUEUE_STATES": JOB_STATES,
        "SQUEUE_USERS": USERS,
    },
    ("9", "x", "-", "--"),
)
SINFO = Grammar(
    (
        Option("all", "a"),
        Option("dead", "d"),
        Option("exact", "e"),
        Option("federation"),
        Option("xuture", "f"),
        Option("format", "o", short_format(FORMATS_SINFO), 6),
        Option("Format", "O", long_format(NAMES_SINFO), 5),
        Option("hide"),
        Option("iterate", "i", ("x", "0", "-1", ""), 1),
        Option("local"),
        Option("long", "l"),
        Option("clusters", "M", CLUSTERS, 1),
        Option("nodes", "n", NODES, 4),
        Option("noconvert"),
        Option("Node", "N", None, 4),
        Option("noheader", "h", None, 6),
        Option("partition", "p", PARTITIONS, 3),
        Option("responding", "r"),
        Option("summarize", "s"),
        Option("sort", "S", sort_keys(FORMATS_SINFO), 4),
        Option("states", "t", NODE_STATES, 6),
        Option("reservation", "T"),
        Option("nosuch", "", None, 1),
        Option("zzz", "Z", None, 1),
    ),
    {
        "SINFO_ALL": ("", "1"),
        "SINFO_FEDERATION": ("1",),
        "SINFO_FORMAT": ("%R", "%P|%t", "x"),
        "SINFO_LOCAL": ("1",),
        "SINFO_PARTITION": PARTITIONS,
        "SINFO_SORT": ("N", "-N", "P,-t", "??", ""),
    },
    ("n1", "x", "-", "--"),
)
SACCT = Grammar(
    (
        Option("accounts", "A", ACCOUNTS),
        Option("allusers", "a"),
        Option("allocations", "X", None, 6),
        Option("associations", "x", ("1", "99", "x", "")),
        Option("brief", "b"),
        Option("clusters", "M", CLUSTERS, 1),
        Option("allclusters", "L", None, 1),
        Option("constraints", "C", ("a", "h100")),
        Option("delimiter", "", DELIMITERS),
        Option("duplicates", "D"),
        Option("endtime", "E", MOMENTS, 4),
        Option("federation"),
        Option("format", "o", long_format(FIELDS_SACCT, mark="%", first="jobid,"), 8),
        Option("gid", "g", ("0", "root", "nogroup", "nosuch", "", "0,65534", "99999", "-1")),
        Option("jobs", "j", _jobs_without("0"), 8),
        Option("local"),
        Option("long", "l", None, 0),
        Option("name", "", NAMES),
        Option("ncpus", "I", NUMBERS),
        Option("nnodes", "i", NUMBERS),
        Option("nodelist", "N", NODES),
        Option("noconvert"),
        Option("noheader", "n", None, 6),
        Option("parsable", "p"),
        Option("parsable2", "P", None, 6),
        Option("partition", "r", PARTITIONS),
        Option("qos", "q", QOS),
        Option("reason", "", ("Resources", "nosuch", "", "None", "JobHeldUser,BeginTime")),
        Option("starttime", "S", MOMENTS, 5),
        Option("state", "s", JOB_STATES, 4),
        Option("timelimit-max", "K", SPANS, 1),
        Option("timelimit-min", "k", SPANS, 1),
        Option("truncate", "T"),
        Option("uid", "u", USERS[:5]),
        Option("user", "", USERS[:5]),
        Option("units", "", UNITS),
        Option("use-local-uid"),
        Option("verbose", "v", None, 0),
        Option("wckeys", "W", ("x",)),
        Option("whole-hetjob", "", ("yes", "no", "x")),
        Option("nosuch", "", None, 1),
        Option("zzz", "Z", None, 1),
    ),
    {
        "SACCT_FORMAT": ("jobid", "jobid,state", "nosuch", "jobid%8"),
        "SACCT_FEDERATION": ("1",),
        "SACCT_LOCAL": ("1",),
        "SLURM_TIME_FORMAT": ("%H", "relative", "standard", "%s", ""),
    },
    ("9", "x", "-", "--"),
)
SPRIO = Grammar(
    (
        Option("noheader", "h", None, 4),
        Option("jobs", "j", _jobs_without("_"), 6),
        Option("long", "l"),
        Option("clusters", "M", CLUSTERS, 1),
        Option("local"),
        Option("norm", "n"),
        Option("format", "o", short_format((*"aAbBcfFijJvNwpPqQrSxtTuUYz",)), 5),
        Option("partition", "p", PARTITIONS),
        Option("sibling"),
        Option("sort", "S", sort_keys((*"aAbBcfFijJnNopPqQrSstTuUYz",)), 5),
        Option("user", "u", USERS, 4),
        Option("weights", "w"),
        Option("federation"),
        Option("nosuch", "", None, 1),
    ),
    {"SPRIO_FORMAT": ("%i", "%i|%u", "x")},
    ("9", "x"),
)
SSTAT = Grammar(
    (
        Option("format", "o", long_format(FIELDS_SSTAT, mark="%"), 5),
        Option("fields", "", long_format(FIELDS_SSTAT, mark="%"), 1),
        Option("pidformat", "i"),
        Option("jobs", "j", _jobs_without("batch", "11", "0x9"), 12),
        Option("noheader", "n", None, 4),
        Option("noconvert"),
        Option("parsable", "p", None, 3),
        Option("parsable2", "P", None, 3),
        Option("nosuch", "", None, 1),
    ),
    {},
    ("9", "x"),
)
STATES_SCANCEL: Values = (
    "PENDING",
    "PD",
    "pd",
    "RUNNING",
    "R",
    "SUSPENDED",
    "CG",
    "CD",
    "x",
    "",
    "R,PD",
    "CF",
)
SCANCEL = Grammar(
    (
        Option("account", "A", ("ml", "bio", "ML", "nosuch", "")),
        Option("batch", "b"),
        Option("ctld", "", None, 1),
        Option("full", "f"),
        Option("hurry", "H", None, 1),
        Option("interactive", "i"),
        Option("me"),
        Option("name", "n", ("plain", "arr", "aa", "bb", "nosuch", "", "PLAIN", "plain,arr"), 3),
        Option("jobname", "", ("plain", "arr"), 1),
        Option("nodelist", "w", ("n1", "n[1-2]", "n9", "")),
        Option("partition", "p", ("gpu", "debug", "gpu,debug", "GPU", "nosuch", "")),
        Option("qos", "q", ("nosuch", ""), 1),
        Option("quiet", "Q", None, 1),
        Option("reservation", "R", ("tune", ""), 1),
        Option("sibling", "", ("x", ""), 1),
        Option("signal", "s", ("9", "KILL", "SIGKILL", "kill", "0", "x", "", "9x"), 2),
        Option("state", "t", STATES_SCANCEL, 3),
        Option("user", "u", ("root", "nobody", "0", "65534", "nosuch", "", "root,nobody")),
        Option("verbose", "v"),
        Option("wckey", "", ("x", ""), 1),
    ),
    {
        "SCANCEL_ACCOUNT": ("ml", ""),
        "SCANCEL_BATCH": ("true", "T", "x", ""),
        "SCANCEL_FULL": ("f", "yes"),
        "SCANCEL_INTERACTIVE": ("true", "f"),
        "SCANCEL_NAME": ("plain", ""),
        "SCANCEL_STATE": ("PD", "x", "R", ""),
        "SCANCEL_USER": ("nobody", "nosuch", "0"),
        "SCANCEL_VERBOSE": ("true", "x"),
    },
)
"""The grammar is for waiting jobs: Slurm retries a signal that no waiting job can get for 90 seconds."""
CANCELLED: Values = (
    "{plain}", "{dbg}", "{hers}", "{arr}", "{arr}_2", "{arr}_[1-3]", "{arr}_[5,6]", "{arr}_*", "{arr}_9", "{arr}_[1-9]", "{lim}",
    "{lim}_[0-1]", "{lim}_3", "{het}", "{het}+0", "{het}+1", "{het}+5", "{done}", "99999", "99999_1", "99999+1", "99999.0", "0",
    "-1", "x", "", "{plain},{arr}_1", "{plain},", "{plain}x", "{plain}_0", "{arr}_", "{arr}_x", "{arr}_[x]", "{arr}_[3-1]",
    "{arr}_[1-2]x", "{arr}_[1-6:2]", "{arr}_1_2", " {plain}", "{plain} ", "{plain}+1", "{arr}+1", "{arr}_-1", "1e3", "{done}.0",
    "00{dbg}", "{plain}.", "{plain}.x",
)  # fmt: skip
"""Job arguments in which braces stand for the ids of the jobs with these names."""


def random_scancel_line(rng: random.Random) -> Line:
    """Return a line of scancel whose ids are names of jobs in braces."""
    words, environ = random_line("scancel", rng)
    environ.pop("SLURM_CLUSTERS", "")  # Slurm needs its database for this variable.
    words += rng.choices(CANCELLED, k=rng.choice((0, 1, 1, 1, 2, 3)))
    return words, environ


GRAMMARS = {
    "squeue": SQUEUE,
    "sinfo": SINFO,
    "sacct": SACCT,
    "sprio": SPRIO,
    "sstat": SSTAT,
}


def random_line(command: str, rng: random.Random) -> Line:
    """Return the words of a command line and its variables."""
    grammar = SCANCEL if command == "scancel" else GRAMMARS[command]
    weights = [option_row.weight for option_row in grammar.options]
    count = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))
    words = [command]
    options = {
        option_row.name.lower(): option_row for option_row in rng.choices(grammar.options, weights, k=count)
    }
    for option in options.values():
        words += spelled(option, rng)
    if grammar.words and rng.random() < 0.05:
        words.append(rng.choice(grammar.words))
    return words, _variables(grammar, rng)


def _variables(grammar: Grammar, rng: random.Random) -> dict[str, str]:
    if rng.random() < 0.8:
        return {}
    pools = {**EVERYWHERE, **grammar.variables}
    return {name: rng.choice(pools[name]) for name in rng.choices(sorted(pools), k=rng.randint(1, 2))}


def spelled(option: Option, rng: random.Random) -> list[str]:
    """Return the option in one of its spellings: short, long or abbreviated, with the value separate or
    attached.
    """
    name = option.name if rng.random() < 0.9 else option.name[: max(2, rng.randint(2, len(option.name)))]
    if option.values is None:
        long = f"--{name}" if rng.random() < 0.97 else f"--{name}=x"
        return [f"-{option.letter}" if option.letter and rng.random() < 0.6 else long]
    value = option.values(rng) if callable(option.values) else rng.choice(option.values)
    spellings = [[f"--{name}={value}"], [f"--{name}", value]]
    if option.letter:
        spellings += [
            [f"-{option.letter}", value],
            [f"-{option.letter}{value}"] if value else [f"-{option.letter}", ""],
        ]
    return rng.choice(spellings)
