"""Environment variables that set options: SBATCH_*, SALLOC_* and srun's. They override a script; the command
line overrides them.

Source: the man pages. If two variables set the same option, the later one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .given_options import GivenOption, Options
from .option_table import NONE, OptionTable

_TABLE = """
ACCOUNT            account            bar
ARRAY_INX          array              b
ACCTG_FREQ         acctg-freq         bar
BATCH              batch              b
BCAST              bcast              rs
BCAST_EXCLUDE      bcast-exclude      r
BELL               bell               a
BURST_BUFFER       bb                 bar
CLUSTERS           clusters           bar
SLURM_CLUSTERS     clusters           ba
CLUSTER_CONSTRAINT cluster-constraint bar
COMPRESS           compress           r
CONSTRAINT         constraint         bar
CONTAINER          container          ba
SRUN_CONTAINER     container          r
CORE_SPEC          core-spec          bar
CPUS_PER_GPU       cpus-per-gpu       bar
SRUN_CPUS_PER_TASK cpus-per-task      rs
CPU_BIND           cpu-bind           rs
CPU_FREQ_REQ       cpu-freq           bar
DEBUG              verbose            bar
DELAY_BOOT         delay-boot         bar
DEPENDENCY         dependency         r
DISABLE_STATUS     disable-status     r
DISTRIBUTION       distribution       brs
EPILOG             epilog             rs
ERROR              error              b
EXACT              exact              rs
EXCLUSIVE          exclusive          bars
EXPORT             export             b
EXPORT_ENV         export             r
SRUN_EXPORT_ENV    export             r
GET_USER_ENV       get-user-env       b
GPUS               gpus               bar
GPUS_PER_NODE      gpus-per-node      bar
GPUS_PER_SOCKET    gpus-per-socket    bar
GPUS_PER_TASK      gpus-per-task      bars
GPU_BIND           gpu-bind           bars
GPU_FREQ           gpu-freq           bar
GRES               gres               bar
GRES_FLAGS         gres-flags         bar
SLURM_HINT         hint               b
HINT               hint               bar
SLURM_HINT         hint               a
IGNORE_PBS         ignore-pbs         b
IMMEDIATE          immediate          a
INPUT              input              b
JOB_ID             jobid              r
JOB_NAME           job-name           br
JOB_NODELIST       alloc-nodelist     r
JOB_NUM_NODES      nodes              r
KILL_BAD_EXIT      kill-on-bad-exit   rs
KILL_CMD           kill-command       a
LABELIO            label              rs
MEM_BIND           mem-bind           bars
MEM_PER_CPU        mem-per-cpu        bar
MEM_PER_GPU        mem-per-gpu        bar
MEM_PER_NODE       mem                bar
MPI_TYPE           mpi                rs
NCORES_PER_SOCKET  cores-per-socket   r
NETWORK            network            bar
NO_BELL            no-bell            a
NO_KILL            no-kill            bar
NO_REQUEUE         no-requeue         b
NSOCKETS_PER_NODE  sockets-per-node   r
NPROCS             ntasks             r
NTASKS             ntasks             r
NTASKS_PER_GPU     ntasks-per-gpu     rs
NTASKS_PER_NODE    ntasks-per-node    r
NTASKS_PER_TRES    ntasks-per-tres    r
OPEN_MODE          open-mode          brs
OUTPUT             output             b
OVERCOMMIT         overcommit         bars
OVERLAP            overlap            rs
PARTITION          partition          bar
POWER              power              bar
PROFILE            profile            bar
PROLOG             prolog             rs
QOS                qos                bar
REMOTE_CWD         chdir              rs
REQUEUE            requeue            b
REQ_SWITCH         switch-req         bar
RESERVATION        reservation        bar
RESV_PORTS         resv-ports         r
SEND_LIBS          send-libs          r
SIGNAL             signal             bar
SLURMD_DEBUG       slurmd-debug       r
SPREAD_JOB         spread-job         bar
SLURM_SRUN_MULTI   multi-prog         rs
STDERRMODE         error              rs
STDINMODE          input              rs
STDOUTMODE         output             rs
STEP_GRES          gres               s
TASK_EPILOG        task-epilog        rs
TASK_PROLOG        task-prolog        rs
THREADS            threads            r
THREADS_PER_CORE   threads-per-core   bar
THREAD_SPEC        thread-spec        bar
TIMELIMIT          time               bars
UNBUFFEREDIO       unbuffered         rs
USE_MIN_NODES      use-min-nodes      bar
WAIT               wait               brs
WAIT4SWITCH        switch-wait        bar
WAIT_ALL_NODES     wait-all-nodes     ba
WCKEY              wckey              bar
WHOLE              whole              s
WORKING_DIR        chdir              rs
"""
"""Columns: the variable, its option, and the commands that read it: sBatch, sAlloc, sRun, and srun inside a job (s).

The commands put SBATCH_, SALLOC_ or SLURM_ before a name that does not begin with the name of a command. The
pseudo-options switch-req and switch-wait are the two parts of --switches. Inside a job, srun does not read the
variables that describe the job itself (SLURM_NTASKS ...), because the controller knows their values better.
"""
_PREFIXES = {"b": "SBATCH_", "a": "SALLOC_", "r": "SLURM_", "s": "SLURM_"}

Variables = tuple[tuple[str, str], ...]
"""Pairs of (variable, option)."""


def _of(letter: str) -> Variables:
    rows = [line.split() for line in _TABLE.strip().splitlines()]
    return tuple(
        (name if name.startswith(("SLURM", "SRUN_")) else _PREFIXES[letter] + name, option)
        for name, option, commands in rows
        if letter in commands
    )


SBATCH_VARIABLES, SALLOC_VARIABLES, SRUN_VARIABLES, STEP_VARIABLES = (_of(letter) for letter in "bars")


def is_on(text: str) -> bool:
    """Return whether the value of a variable turns on an option without a value: "", "yes", or a nonzero
    number.
    """
    word = text.strip()
    return not text or word.lower() == "yes" or (word.lstrip("+-").isdecimal() and word.strip("+-0") != "")


def variable_options(environ: Mapping[str, str], variables: Variables, known: OptionTable) -> Options:
    """Return the options that variables set, or turn off, in the order of the table."""
    found: Options = []
    for variable, option in variables:
        text = environ.get(variable)
        if text is None:
            continue
        syntax = known.options.get(option)
        is_flag = syntax is not None and syntax.takes == NONE
        found.append(
            GivenOption(
                option,
                None if is_flag else text,
                variable,
                is_variable=True,
                is_off=is_flag and not is_on(text),
            )
        )
    return found


_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})


def effective(options: Sequence[GivenOption]) -> Options:
    """Return the options without those that a variable turns off or that a written option overrides.

    --mem, --mem-per-cpu and --mem-per-gpu exclude each other, and a written option overrides a variable for any of
    them.
    """
    found: Options = []
    for given in options:
        if given.is_off:
            found = [each for each in found if each.option != given.option]
        else:
            found.append(given)
    if any(each.option in _MEMORY and not each.is_variable for each in found):
        found = [each for each in found if each.option not in _MEMORY or not each.is_variable]
    return found
