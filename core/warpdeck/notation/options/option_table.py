"""Table of the options of sbatch, salloc and srun: the values they take, the commands that have them, and
their handling here.

Source: the man pages of Slurm 22.05 to 26.05, and the real commands. `honored` options change the request
or the step. `noted` options cannot change anything here; they are accepted with a note. `command` options
control the command itself. `refused` options would give the user something other than requested if they were
ignored, so they are rejected with an error that names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

REQUIRED, NONE, OPTIONAL = "required", "none", "optional"
HONORED, NOTED, COMMAND, REFUSED = "honored", "noted", "command", "refused"

_TABLE = """
accel-bind               -  required  r    noted
account                  A  required  bar  honored   -       ACCOUNT
acctg-freq               -  required  bar  noted     -       ACCTG_FREQ
array                    a  required  b    honored   -       ARRAY_INX
batch                    -  required  b    refused   -       BATCH
bcast                    -  optional  r    refused   -       BCAST:rs
bcast-exclude            -  required  r    refused   -       BCAST_EXCLUDE
begin                    b  required  bar  honored
bell                     -  none      a    command   -       BELL
bb                       -  required  bar  refused   each    BURST_BUFFER
bbf                      -  required  bar  refused
cluster-constraint       -  required  bar  refused   -       CLUSTER_CONSTRAINT
chdir                    D  required  bar  honored   -       REMOTE_CWD:rs WORKING_DIR:rs
cluster                  -  required  bar  refused
clusters                 M  required  bar  refused   -       CLUSTERS SLURM_CLUSTERS:ba
comment                  -  required  bar  honored
compress                 -  optional  r    refused   -       COMPRESS
container                -  required  bar  refused   -       CONTAINER:ba SRUN_CONTAINER:r
context                  -  required  bar  refused
contiguous               -  none      bar  honored   each
constraint               C  required  bar  honored   each    CONSTRAINT
core-spec                S  required  bar  noted     each    CORE_SPEC
cores-per-socket         -  required  bar  honored   each    NCORES_PER_SOCKET:r
cpu-bind                 -  required  r    honored   -       CPU_BIND:rs
cpu_bind                 -  required  r    honored
cpu-freq                 -  required  bar  refused   each    CPU_FREQ_REQ
cpus-per-gpu             -  required  bar  honored   each    CPUS_PER_GPU
cpus-per-task            c  required  bar  honored   each    SRUN_CPUS_PER_TASK:rs
deadline                 -  required  bar  honored
debugger-test            -  none      r    refused
delay-boot               -  required  bar  noted     -       DELAY_BOOT
dependency               d  required  bar  honored   -       DEPENDENCY:r
disable-status           X  none      r    noted     -       DISABLE_STATUS
distribution             m  required  bar  honored   each    DISTRIBUTION:brs
epilog                   -  required  r    refused   -       EPILOG:rs
error                    e  required  br   honored   -       ERROR:b STDERRMODE:rs SRUN_ERROR:rs
exact                    -  none      r    honored   -       EXACT:rs
exclude                  x  required  bar  honored
exclusive                -  optional  bar  honored   each    EXCLUSIVE:bars
export                   -  required  br   honored   -       EXPORT:b EXPORT_ENV:r SRUN_EXPORT_ENV:r
export-file              -  required  b    honored
extra-node-info          B  required  bar  honored   each
get-user-env             -  optional  ba   honored   -       GET_USER_ENV:b
gid                      -  required  bar  refused
gpu-bind                 -  required  bar  honored   each    GPU_BIND:bars
gpu-freq                 -  required  bar  refused   each    GPU_FREQ
gpus                     G  required  bar  honored   each    GPUS
gpus-per-node            -  required  bar  honored   each    GPUS_PER_NODE
gpus-per-socket          -  required  bar  refused   each    GPUS_PER_SOCKET
gpus-per-task            -  required  bar  honored   each    GPUS_PER_TASK:bars
gres                     -  required  bar  honored   each    GRES STEP_GRES:s
gres-flags               -  required  bar  noted     each    GRES_FLAGS
help                     h  none      bar  command
het-group                -  required  r    honored
hint                     -  required  bar  honored   each    SLURM_HINT:b HINT SLURM_HINT:a
hold                     H  none      bar  honored
ignore-pbs               -  none      b    honored   -       IGNORE_PBS
immediate                I  optional  a    command   -       IMMEDIATE
immediate                I  optional  r    honored
input                    i  required  br   honored   -       INPUT:b STDINMODE:rs SRUN_INPUT:rs
interactive              -  none      r    refused
jobid                    -  required  r    honored   -       JOB_ID
job-name                 J  required  bar  honored   -       JOB_NAME:br
kill-command             K  optional  a    command   -       KILL_CMD
kill-on-bad-exit         K  optional  r    honored   -       KILL_BAD_EXIT:rs
kill-on-invalid-dep      -  required  b    honored
label                    l  none      r    honored   -       LABELIO:rs
licenses                 L  required  bar  honored   each
mail-type                -  required  bar  honored   each
mail-user                -  required  bar  honored   each
threads                  T  required  r    noted     -       THREADS
mcs-label                -  required  bar  refused
mem                      -  required  bar  honored   -       MEM_PER_NODE
mem-bind                 -  required  bar  noted     each    MEM_BIND:bars
mem-per-cpu              -  required  bar  honored   each    MEM_PER_CPU
mem-per-gpu              -  required  bar  honored   each    MEM_PER_GPU
mincpus                  -  required  bar  honored   each
mpi                      -  required  r    honored   -       MPI_TYPE:rs
msg-timeout              -  required  r    noted
multi-prog               -  none      r    honored   -       SLURM_SRUN_MULTI:rs
network                  -  required  bar  refused   each    NETWORK
nice                     -  optional  bar  honored
no-allocate              Z  none      r    refused
no-bell                  -  none      a    command   -       NO_BELL
no-kill                  k  optional  bar  noted     -       NO_KILL
no-shell                 -  none      a    command
no-requeue               -  none      b    honored   -       NO_REQUEUE
nodefile                 F  required  bar  honored   each
nodelist                 w  required  bar  honored   each
nodes                    N  required  bar  honored   each    JOB_NUM_NODES:r
ntasks                   n  required  bar  honored   each    NPROCS:r NTASKS:r
ntasks-per-core          -  required  bar  honored   each
ntasks-per-gpu           -  required  bar  honored   each    NTASKS_PER_GPU:rs
ntasks-per-node          -  required  bar  honored   each    NTASKS_PER_NODE:r
ntasks-per-socket        -  required  bar  refused   each
ntasks-per-tres          -  required  bar  refused   each    NTASKS_PER_TRES:r
open-mode                -  required  br   honored   -       OPEN_MODE:brs
output                   o  required  br   honored   -       OUTPUT:b STDOUTMODE:rs SRUN_OUTPUT:rs
overcommit               O  none      bar  honored   each    OVERCOMMIT:bars
overlap                  -  optional  r    honored   -       OVERLAP:rs
oversubscribe            s  none      bar  honored   each
pack-group               -  required  r    honored
parsable                 -  none      b    command
parsable                 -  none      r    refused   newer
partition                p  required  bar  honored   each    PARTITION
power                    -  required  bar  noted     each    POWER
prefer                   -  required  bar  honored
preserve-env             E  none      r    noted
priority                 -  required  bar  honored
profile                  -  required  bar  noted     -       PROFILE
prolog                   -  required  r    refused   -       PROLOG:rs
propagate                -  optional  br   honored
pty                      -  optional  r    honored
qos                      q  required  bar  honored   -       QOS
quiet                    Q  none      ba   command
quiet                    Q  none      r    honored
quit-on-interrupt        -  none      r    honored
reboot                   -  none      bar  refused
relative                 r  required  r    honored
requeue                  -  optional  b    honored   -       REQUEUE
reservation              -  required  bar  honored   -       RESERVATION
resv-ports               -  optional  r    noted     -       RESV_PORTS
resv-ports               -  optional  ba   noted     newer
send-libs                -  optional  r    noted     -       SEND_LIBS
signal                   -  required  bar  honored   -       SIGNAL
slurmd-debug             -  required  r    refused   -       SLURMD_DEBUG
sockets-per-node         -  required  bar  honored   each    NSOCKETS_PER_NODE:r
spread-job               -  none      bar  honored   each    SPREAD_JOB
switches                 -  required  bar  honored   each    REQ_SWITCH WAIT4SWITCH
task-epilog              -  required  r    honored   -       TASK_EPILOG:rs
task-prolog              -  required  r    honored   -       TASK_PROLOG:rs
tasks-per-node           -  required  bar  honored   each
test-only                -  none      b    command
test-only                -  none      r    refused
thread-spec              -  required  bar  noted     each    THREAD_SPEC
threads-per-core         -  required  bar  honored   each    THREADS_PER_CORE
time                     t  required  bar  honored   -       TIMELIMIT:bars
time-min                 -  required  bar  honored
tmp                      -  required  bar  honored   each
uid                      -  required  bar  refused
unbuffered               u  none      r    honored   -       UNBUFFEREDIO:rs
use-min-nodes            -  none      bar  honored   each    USE_MIN_NODES
verbose                  v  none      ba   command   -       DEBUG
verbose                  v  none      r    noted     -       DEBUG
version                  V  none      bar  command
usage                    -  none      bar  command
wait                     W  none      b    command   -       WAIT
wait                     W  required  r    honored   -       WAIT:rs
wait-all-nodes           -  required  ba   noted     -       WAIT_ALL_NODES
wckey                    -  required  bar  noted     -       WCKEY
whole                    -  none      r    honored   -       WHOLE:s
wrap                     -  required  b    command
x11                      -  optional  ar   refused
async                    -  none      r    refused   newer
autocomplete             -  required  bar  refused   newer
consolidate-segments     -  none      bar  refused   newer
container-id             -  required  bar  refused   newer   CONTAINER_ID:ba SRUN_CONTAINER_ID:r
container-type           -  required  bar  refused   newer   CONTAINER_TYPE:ba SRUN_CONTAINER_TYPE:r
external                 -  none      b    refused   newer
external-launcher        -  optional  r    refused   newer
extra                    -  required  bar  noted     newer
ignore-signals           -  required  r    honored   newer
mem-update               -  required  bar  refused   newer
oom-kill-step            -  optional  bar  refused   newer   OOM_KILL_STEP:r
resources                -  required  bar  refused   newer
segment                  -  required  bar  refused   newer   SEGMENT_SIZE:ba SRUN_SEGMENT_SIZE:r
spread-segments          -  none      bar  refused   newer
stepmgr                  -  none      bar  noted     newer
treewidth                -  required  r    noted     newer
tres-bind                -  required  bar  honored   newer   TRES_BIND:bars
tres-per-task            -  required  bar  honored   newer   TRES_PER_TASK:bars
wait-for-children        -  none      r    noted     newer
container-entrypoint     -  none      bar  honored   plugin
container-entrypoint-log -  none      bar  noted     plugin
container-env            -  required  bar  honored   plugin
container-image          -  required  bar  honored   plugin
container-mount-home     -  none      bar  honored   plugin
container-mounts         -  required  bar  honored   plugin
container-name           -  required  bar  honored   plugin
container-readonly       -  none      bar  honored   plugin
container-remap-root     -  none      bar  honored   plugin
container-save           -  required  bar  refused   plugin
container-workdir        -  required  bar  honored   plugin
container-writable       -  none      bar  honored   plugin
no-container-entrypoint  -  none      bar  honored   plugin
no-container-mount-home  -  none      bar  honored   plugin
no-container-remap-root  -  none      bar  honored   plugin
"""
"""Columns: name, short letter, value (required, none or optional), commands (sBatch, sAlloc, sRun), handling here, mark,
and the environment variables that set the option. The order is that of Slurm's messages.

There are three marks. `each` means that the option starts anew with every component of a heterogeneous job.
`newer` means that it came after Slurm 22.05. `plugin` means that it belongs to pyxis.

The commands put SBATCH_, SALLOC_ or SLURM_ before the name of a variable, unless it begins with the name of a command.
After a colon are the commands that read the variable, if they are not those of the option; `s` is srun inside a job.
There, srun does not read the variables that describe the job itself (SLURM_NTASKS ...), because the controller knows
their values better. If two variables set the same option, the later one counts.
"""


class Option(NamedTuple):
    """An option that one or several of the commands have."""

    name: str
    short: str
    """The one-letter form of the option, or "" if there is none."""
    takes: str
    commands: str
    here: str
    marks: frozenset[str]
    variables: tuple[str, ...] = ()
    """The variables that set the option, as in the table."""

    @property
    def each(self) -> bool:
        return "each" in self.marks


class OptionTable(NamedTuple):
    """The options of one command."""

    command: str
    options: Mapping[str, Option]
    """The options by long name, in the order of the table."""
    shorts: Mapping[str, str]
    """One-letter forms and the long names that they stand for."""


def _read(text: str) -> list[Option]:
    found = []
    for line in text.strip().splitlines():
        name, short, takes, commands, here, *rest = line.split()
        marks = frozenset(rest[:1]) - {"-"}
        found.append(Option(name, short.removeprefix("-"), takes, commands, here, marks, tuple(rest[1:])))
    return found


_ALL = _read(_TABLE)


def table(
    command: str, options: Mapping[str, tuple[str, str]], *, newer: Collection[str] = ()
) -> OptionTable:
    """Return the table of a command with options of its own: long name -> (short letter or "", kind of
    value). `newer` names those that came after Slurm 22.05.
    """
    marks = {name: frozenset({"newer"} if name in newer else ()) for name in options}
    return table_of(
        command,
        (Option(name, short, takes, "", COMMAND, marks[name]) for name, (short, takes) in options.items()),
    )


def table_of(command: str, options: Iterable[Option]) -> OptionTable:
    """Return a table that contains these options."""
    known = {option.name: option for option in options}
    return OptionTable(
        command, known, {option.short: option.name for option in known.values() if option.short}
    )


def _of(command: str, letter: str) -> OptionTable:
    return table_of(command, (option for option in _ALL if letter in option.commands))


def with_plugins(known: OptionTable, plugins: Mapping[str, str]) -> OptionTable:
    """Return the table extended by the options of a site's plugins: name -> kind of value. They are accepted
    with a note.
    """
    found = dict(known.options)
    for name, takes in plugins.items():
        if name not in found:
            found[name] = Option(name, "", takes, "bar", NOTED, frozenset({"plugin"}))
    return table_of(known.command, found.values())


NO_PLUGINS: Mapping[str, str] = {}
SBATCH = _of("sbatch", "b")
SALLOC = _of("salloc", "a")
SRUN = _of("srun", "r")


def _as_in_22_05(known: OptionTable) -> OptionTable:
    return table_of(
        known.command,
        (option for option in known.options.values() if not option.marks & {"newer", "plugin"}),
    )


SBATCH_22_05 = _as_in_22_05(SBATCH)
"""The options of Slurm 22.05's sbatch, which `warpdeck lint` checks."""
SALLOC_22_05 = _as_in_22_05(SALLOC)
SRUN_22_05 = _as_in_22_05(SRUN)
