"""Table of the options of sbatch, salloc and srun: the values they take, the commands that have them, and
their handling here.

Source: the man pages of Slurm 22.05 and later, and the real commands. `honoured` options change the request
or the step. `noted` options cannot change anything here; they are accepted with a note. `command` options
control the command itself. `refused` options would give the user something other than requested if they were
ignored, so they are rejected with an error that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

REQUIRED, NONE, OPTIONAL = "required", "none", "optional"
HONOURED, NOTED, COMMAND, REFUSED = "honoured", "noted", "command", "refused"

_TABLE = """
accel-bind               -  required  r    noted
account                  A  required  bar  honoured
acctg-freq               -  required  bar  noted
array                    a  required  b    honoured
batch                    -  required  b    refused
bcast                    -  optional  r    refused
bcast-exclude            -  required  r    refused
begin                    b  required  bar  honoured
bell                     -  none      a    command
bb                       -  required  bar  refused   each
bbf                      -  required  bar  refused
cluster-constraint       -  required  bar  refused
chdir                    D  required  bar  honoured
cluster                  -  required  bar  refused
clusters                 M  required  bar  refused
comment                  -  required  bar  honoured
compress                 -  optional  r    refused
container                -  required  bar  refused
context                  -  required  bar  refused
contiguous               -  none      bar  honoured  each
constraint               C  required  bar  honoured  each
core-spec                S  required  bar  noted     each
cores-per-socket         -  required  bar  honoured   each
cpu-bind                 -  required  r    honoured
cpu_bind                 -  required  r    honoured
cpu-freq                 -  required  bar  refused   each
cpus-per-gpu             -  required  bar  honoured  each
cpus-per-task            c  required  bar  honoured  each
deadline                 -  required  bar  honoured
debugger-test            -  none      r    refused
delay-boot               -  required  bar  noted
dependency               d  required  bar  honoured
disable-status           X  none      r    noted
distribution             m  required  ba   honoured   each
distribution             m  required  r    honoured  each
epilog                   -  required  r    refused
error                    e  required  br   honoured
exact                    -  none      r    honoured
exclude                  x  required  bar  honoured
exclusive                -  optional  bar  honoured  each
export                   -  required  br   honoured
export-file              -  required  b    honoured
extra-node-info          B  required  bar  honoured   each
get-user-env             -  optional  ba   honoured
gid                      -  required  bar  refused
gpu-bind                 -  required  bar  honoured  each
gpu-freq                 -  required  bar  refused   each
gpus                     G  required  bar  honoured  each
gpus-per-node            -  required  bar  honoured  each
gpus-per-socket          -  required  bar  refused   each
gpus-per-task            -  required  bar  honoured  each
gres                     -  required  bar  honoured  each
gres-flags               -  required  bar  noted     each
help                     h  none      ba   command
help                     h  none      r    command
het-group                -  required  r    honoured
hint                     -  required  bar  honoured  each
hold                     H  none      bar  honoured
ignore-pbs               -  none      b    honoured
immediate                I  optional  a    command
immediate                I  optional  r    honoured
input                    i  required  b    honoured
input                    i  required  r    honoured
interactive              -  none      r    refused
jobid                    -  required  r    honoured
job-name                 J  required  bar  honoured
kill-command             K  optional  a    command
kill-on-bad-exit         K  optional  r    honoured
kill-on-invalid-dep      -  required  b    honoured
label                    l  none      r    honoured
licenses                 L  required  bar  honoured  each
mail-type                -  required  bar  honoured     each
mail-user                -  required  bar  honoured     each
threads                  T  required  r    noted
mcs-label                -  required  bar  refused
mem                      -  required  bar  honoured
mem-bind                 -  required  bar  noted     each
mem-per-cpu              -  required  bar  honoured  each
mem-per-gpu              -  required  bar  honoured  each
mincpus                  -  required  bar  honoured   each
mpi                      -  required  r    honoured
msg-timeout              -  required  r    noted
multi-prog               -  none      r    honoured
network                  -  required  bar  refused   each
nice                     -  optional  bar  honoured
no-allocate              Z  none      r    refused
no-bell                  -  none      a    command
no-kill                  k  optional  bar  noted
no-shell                 -  none      a    command
no-requeue               -  none      b    honoured
nodefile                 F  required  bar  honoured   each
nodelist                 w  required  bar  honoured  each
nodes                    N  required  bar  honoured  each
ntasks                   n  required  bar  honoured  each
ntasks-per-core          -  required  bar  honoured  each
ntasks-per-gpu           -  required  bar  honoured   each
ntasks-per-node          -  required  bar  honoured  each
ntasks-per-socket        -  required  bar  refused     each
ntasks-per-tres          -  required  bar  refused   each
open-mode                -  required  br   honoured
output                   o  required  br   honoured
overcommit               O  none      ba   honoured     each
overcommit               O  none      r    honoured  each
overlap                  -  optional  r    honoured
oversubscribe            s  none      bar  honoured  each
pack-group               -  required  r    honoured
parsable                 -  none      b    command
partition                p  required  bar  honoured  each
power                    -  required  bar  noted     each
prefer                   -  required  bar  honoured
preserve-env             E  none      r    noted
priority                 -  required  bar  honoured
profile                  -  required  bar  noted
prolog                   -  required  r    refused
propagate                -  optional  br   honoured
pty                      -  none      r    honoured
qos                      q  required  bar  honoured
quiet                    Q  none      ba   command
quiet                    Q  none      r    honoured
quit-on-interrupt        -  none      r    honoured
reboot                   -  none      bar  refused
relative                 r  required  r    honoured
requeue                  -  none      b    honoured
reservation              -  required  bar  honoured
resv-ports               -  optional  r    noted
send-libs                -  optional  r    noted
signal                   -  required  bar  honoured
slurmd-debug             -  required  r    refused
sockets-per-node         -  required  bar  honoured   each
spread-job               -  none      bar  honoured   each
switches                 -  required  bar  honoured  each
task-epilog              -  required  r    honoured
task-prolog              -  required  r    honoured
tasks-per-node           -  required  bar  honoured  each
test-only                -  none      b    command
test-only                -  none      r    refused
thread-spec              -  required  bar  noted     each
threads-per-core         -  required  bar  honoured  each
time                     t  required  bar  honoured
time-min                 -  required  bar  honoured
tmp                      -  required  bar  honoured   each
uid                      -  required  bar  refused
unbuffered               u  none      r    honoured
use-min-nodes            -  none      bar  honoured     each
verbose                  v  none      ba   command
verbose                  v  none      r    noted
version                  V  none      ba   command
version                  V  none      r    command
usage                    -  none      ba   command
usage                    -  none      r    command
wait                     W  none      b    command
wait                     W  required  r    honoured
wait-all-nodes           -  required  ba   noted
wckey                    -  required  bar  noted
whole                    -  none      r    honoured
wrap                     -  required  b    command
x11                      -  optional  ar   refused
async                    -  none      r    refused   newer
autocomplete             -  required  bar  refused   newer
consolidate-segments     -  none      bar  refused   newer
container-id             -  required  bar  refused   newer
external                 -  none      b    refused   newer
external-launcher        -  optional  r    refused   newer
extra                    -  required  bar  noted     newer
ignore-signals           -  required  r    refused   newer
mem-update               -  required  bar  refused   newer
oom-kill-step            -  optional  bar  refused   newer
resources                -  required  bar  refused   newer
runtime                  -  required  bar  refused   newer
segment                  -  required  bar  refused   newer
spread-segments          -  none      bar  refused   newer
stepmgr                  -  none      bar  noted     newer
treewidth                -  required  r    refused   newer
tres-bind                -  required  bar  refused   newer
tres-per-task            -  required  bar  honoured   newer
wait-for-children        -  none      r    noted     newer
container-entrypoint     -  none      bar  honoured  plugin
container-entrypoint-log -  none      bar  noted     plugin
container-env            -  required  bar  honoured  plugin
container-image          -  required  bar  honoured  plugin
container-mount-home     -  none      bar  honoured  plugin
container-mounts         -  required  bar  honoured  plugin
container-name           -  required  bar  honoured  plugin
container-readonly       -  none      bar  honoured  plugin
container-remap-root     -  none      bar  honoured  plugin
container-save           -  required  bar  refused   plugin
container-workdir        -  required  bar  honoured  plugin
container-writable       -  none      bar  honoured  plugin
no-container-entrypoint  -  none      bar  honoured  plugin
no-container-mount-home  -  none      bar  honoured  plugin
no-container-remap-root  -  none      bar  honoured  plugin
"""
"""Columns: name, short letter, value (required, none or optional), commands (sBatch, sAlloc, sRun), and
handling here; then marks.

There are three marks. `each` means that the option starts anew with every component of a heterogeneous job.
`newer` means that it came after Slurm 22.05. `plugin` means that it belongs to pyxis. The order is that of
Slurm's messages.
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
    rows = [line.split() for line in text.strip().splitlines()]
    return [
        Option(name, short.removeprefix("-"), takes, commands, here, frozenset(marks))
        for name, short, takes, commands, here, *marks in rows
    ]


_ALL = _read(_TABLE)


def table(command: str, options: Mapping[str, tuple[str, str]]) -> OptionTable:
    """Return the table of a command with options of its own: long name -> (short letter or "", kind of
    value).
    """
    return table_of(
        command,
        (Option(name, short, takes, "", COMMAND, frozenset()) for name, (short, takes) in options.items()),
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
