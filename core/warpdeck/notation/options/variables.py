"""Environment variables that set options: SBATCH_*, SALLOC_* and srun's. They override a script; the command
line overrides them.

Source: the man pages. If two variables set the same option, the later one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .options import NONE, OptionTable

_SBATCH = """
SBATCH_ACCOUNT            account
SBATCH_ARRAY_INX          array
SBATCH_ACCTG_FREQ         acctg-freq
SBATCH_BATCH              batch
SBATCH_BURST_BUFFER       bb
SBATCH_CLUSTER_CONSTRAINT cluster-constraint
SBATCH_CLUSTERS           clusters
SLURM_CLUSTERS            clusters
SBATCH_CONTAINER          container
SBATCH_CONSTRAINT         constraint
SBATCH_CORE_SPEC          core-spec
SBATCH_CPU_FREQ_REQ       cpu-freq
SBATCH_CPUS_PER_GPU       cpus-per-gpu
SBATCH_DEBUG              verbose
SBATCH_DELAY_BOOT         delay-boot
SBATCH_DISTRIBUTION       distribution
SBATCH_EXCLUSIVE          exclusive
SBATCH_EXPORT             export
SBATCH_GET_USER_ENV       get-user-env
SBATCH_IGNORE_PBS         ignore-pbs
SBATCH_GRES               gres
SBATCH_GRES_FLAGS         gres-flags
SBATCH_GPUS               gpus
SBATCH_GPU_BIND           gpu-bind
SBATCH_GPU_FREQ           gpu-freq
SBATCH_GPUS_PER_NODE      gpus-per-node
SBATCH_GPUS_PER_SOCKET    gpus-per-socket
SBATCH_GPUS_PER_TASK      gpus-per-task
SLURM_HINT                hint
SBATCH_HINT               hint
SBATCH_JOB_NAME           job-name
SBATCH_MEM_BIND           mem-bind
SBATCH_MEM_PER_CPU        mem-per-cpu
SBATCH_MEM_PER_GPU        mem-per-gpu
SBATCH_MEM_PER_NODE       mem
SBATCH_NETWORK            network
SBATCH_NO_KILL            no-kill
SBATCH_NO_REQUEUE         no-requeue
SBATCH_OPEN_MODE          open-mode
SBATCH_OVERCOMMIT         overcommit
SBATCH_PARTITION          partition
SBATCH_POWER              power
SBATCH_PROFILE            profile
SBATCH_QOS                qos
SBATCH_REQ_SWITCH         switch-req
SBATCH_REQUEUE            requeue
SBATCH_RESERVATION        reservation
SBATCH_SIGNAL             signal
SBATCH_SPREAD_JOB         spread-job
SBATCH_THREAD_SPEC        thread-spec
SBATCH_THREADS_PER_CORE   threads-per-core
SBATCH_TIMELIMIT          time
SBATCH_USE_MIN_NODES      use-min-nodes
SBATCH_WAIT               wait
SBATCH_WAIT_ALL_NODES     wait-all-nodes
SBATCH_WAIT4SWITCH        switch-wait
SBATCH_WCKEY              wckey
SBATCH_ERROR              error
SBATCH_INPUT              input
SBATCH_OUTPUT             output
"""
_SALLOC = """
SALLOC_ACCOUNT            account
SALLOC_ACCTG_FREQ         acctg-freq
SALLOC_BELL               bell
SALLOC_BURST_BUFFER       bb
SALLOC_CLUSTER_CONSTRAINT cluster-constraint
SALLOC_CLUSTERS           clusters
SLURM_CLUSTERS            clusters
SALLOC_CONTAINER          container
SALLOC_CONSTRAINT         constraint
SALLOC_CORE_SPEC          core-spec
SALLOC_CPU_FREQ_REQ       cpu-freq
SALLOC_CPUS_PER_GPU       cpus-per-gpu
SALLOC_DEBUG              verbose
SALLOC_DELAY_BOOT         delay-boot
SALLOC_EXCLUSIVE          exclusive
SALLOC_GPUS               gpus
SALLOC_GPU_BIND           gpu-bind
SALLOC_GPU_FREQ           gpu-freq
SALLOC_GPUS_PER_NODE      gpus-per-node
SALLOC_GPUS_PER_SOCKET    gpus-per-socket
SALLOC_GPUS_PER_TASK      gpus-per-task
SALLOC_GRES               gres
SALLOC_GRES_FLAGS         gres-flags
SALLOC_IMMEDIATE          immediate
SALLOC_HINT               hint
SLURM_HINT                hint
SALLOC_KILL_CMD           kill-command
SALLOC_MEM_BIND           mem-bind
SALLOC_MEM_PER_CPU        mem-per-cpu
SALLOC_MEM_PER_GPU        mem-per-gpu
SALLOC_MEM_PER_NODE       mem
SALLOC_NETWORK            network
SALLOC_NO_BELL            no-bell
SALLOC_NO_KILL            no-kill
SALLOC_OVERCOMMIT         overcommit
SALLOC_PARTITION          partition
SALLOC_POWER              power
SALLOC_PROFILE            profile
SALLOC_QOS                qos
SALLOC_REQ_SWITCH         switch-req
SALLOC_RESERVATION        reservation
SALLOC_SIGNAL             signal
SALLOC_SPREAD_JOB         spread-job
SALLOC_THREAD_SPEC        thread-spec
SALLOC_THREADS_PER_CORE   threads-per-core
SALLOC_TIMELIMIT          time
SALLOC_USE_MIN_NODES      use-min-nodes
SALLOC_WAIT_ALL_NODES     wait-all-nodes
SALLOC_WAIT4SWITCH        switch-wait
SALLOC_WCKEY              wckey
"""
_SRUN = """
SLURM_ACCOUNT            account
SLURM_ACCTG_FREQ         acctg-freq
SLURM_BCAST              bcast
SLURM_BCAST_EXCLUDE      bcast-exclude
SLURM_BURST_BUFFER       bb
SLURM_CLUSTERS           clusters
SLURM_CLUSTER_CONSTRAINT cluster-constraint
SLURM_COMPRESS           compress
SLURM_CONSTRAINT         constraint
SLURM_CORE_SPEC          core-spec
SRUN_CPUS_PER_TASK       cpus-per-task
SLURM_CPU_BIND           cpu-bind
SLURM_CPU_FREQ_REQ       cpu-freq
SLURM_CPUS_PER_GPU       cpus-per-gpu
SLURM_DELAY_BOOT         delay-boot
SLURM_DEPENDENCY         dependency
SLURM_DISABLE_STATUS     disable-status
SLURM_DISTRIBUTION       distribution
SLURM_EPILOG             epilog
SLURM_EXACT              exact
SLURM_EXCLUSIVE          exclusive
SLURM_EXPORT_ENV         export
SRUN_EXPORT_ENV          export
SLURM_GPUS               gpus
SLURM_GPU_BIND           gpu-bind
SLURM_GPU_FREQ           gpu-freq
SLURM_GPUS_PER_NODE      gpus-per-node
SLURM_GPUS_PER_SOCKET    gpus-per-socket
SLURM_GPUS_PER_TASK      gpus-per-task
SLURM_GRES               gres
SLURM_GRES_FLAGS         gres-flags
SLURM_HINT               hint
SLURM_JOB_ID             jobid
SLURM_JOB_NAME           job-name
SLURM_JOB_NODELIST       alloc-nodelist
SLURM_JOB_NUM_NODES      nodes
SLURM_KILL_BAD_EXIT      kill-on-bad-exit
SLURM_LABELIO            label
SLURM_MEM_BIND           mem-bind
SLURM_MEM_PER_CPU        mem-per-cpu
SLURM_MEM_PER_GPU        mem-per-gpu
SLURM_MEM_PER_NODE       mem
SLURM_MPI_TYPE           mpi
SLURM_NCORES_PER_SOCKET  cores-per-socket
SLURM_NETWORK            network
SLURM_NO_KILL            no-kill
SLURM_NPROCS             ntasks
SLURM_NTASKS             ntasks
SLURM_NSOCKETS_PER_NODE  sockets-per-node
SLURM_NTASKS_PER_NODE    ntasks-per-node
SLURM_NTASKS_PER_GPU     ntasks-per-gpu
SLURM_NTASKS_PER_TRES    ntasks-per-tres
SLURM_OPEN_MODE          open-mode
SLURM_OVERCOMMIT         overcommit
SLURM_OVERLAP            overlap
SLURM_PARTITION          partition
SLURM_POWER              power
SLURM_PROFILE            profile
SLURM_PROLOG             prolog
SLURM_QOS                qos
SLURM_REMOTE_CWD         chdir
SLURM_REQ_SWITCH         switch-req
SLURM_RESERVATION        reservation
SLURM_RESV_PORTS         resv-ports
SLURM_SEND_LIBS          send-libs
SLURM_SIGNAL             signal
SLURM_SPREAD_JOB         spread-job
SLURM_SRUN_MULTI         multi-prog
SLURM_STDERRMODE         error
SLURM_STDINMODE          input
SLURM_STDOUTMODE         output
SLURM_TASK_EPILOG        task-epilog
SLURM_TASK_PROLOG        task-prolog
SLURM_THREAD_SPEC        thread-spec
SLURM_THREADS            threads
SLURM_THREADS_PER_CORE   threads-per-core
SLURM_TIMELIMIT          time
SLURM_UNBUFFEREDIO       unbuffered
SLURM_USE_MIN_NODES      use-min-nodes
SLURM_WAIT               wait
SLURM_WAIT4SWITCH        switch-wait
SLURM_WCKEY              wckey
SLURM_WORKING_DIR        chdir
SLURMD_DEBUG             slurmd-debug
SRUN_CONTAINER           container
SLURM_DEBUG              verbose
"""


def is_on(text: str) -> bool:
    """Return whether the value of a variable turns on an option without a value: "", "yes", or a nonzero
    number.
    """
    word = text.strip()
    return not text or word.lower() == "yes" or (word.lstrip("+-").isdecimal() and word.strip("+-0") != "")


def override(
    script: Sequence[tuple[str, str, str]],
    environ: Mapping[str, str],
    variables: Sequence[tuple[str, str]],
    *,
    known: OptionTable,
) -> list[tuple[str, str, str]]:
    """Return (option, value, where) of a script followed by those of the variables. Options that a variable
    turns off are removed.
    """
    found = list(script)
    for variable, option in variables:
        text = environ.get(variable)
        if text is None:
            continue
        if option in ("switch-req", "switch-wait"):
            wait = environ.get(
                "SBATCH_WAIT4SWITCH", environ.get("SALLOC_WAIT4SWITCH", environ.get("SLURM_WAIT4SWITCH"))
            )
            if option == "switch-req":
                found.append(("switches", text if wait is None else f"{text}@{wait}", variable))
        elif known.options[option].takes == NONE and not is_on(text):
            found = [one for one in found if one[0] != option]
        else:
            found.append((option, "" if known.options[option].takes == NONE else text, variable))
    return found


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (line.split() for line in text.strip().splitlines())
    return tuple((variable, option) for variable, option in pairs)


SBATCH_VARIABLES = _pairs(_SBATCH)
"""Pairs of (variable, option). The pseudo-options switch-req and switch-wait are the two parts of
--switches.
"""
SALLOC_VARIABLES = _pairs(_SALLOC)
SRUN_VARIABLES = _pairs(_SRUN)
_NAMES = frozenset(
    variable for pairs in (SBATCH_VARIABLES, SALLOC_VARIABLES, SRUN_VARIABLES) for variable, _ in pairs
)
_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})


def outrank_memory(options: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Remove memory options set by variables if another memory option was written.

    --mem, --mem-per-cpu and --mem-per-gpu exclude each other, and a written option overrides a variable for
    any of them.
    """
    of_variable = [one[0] in _MEMORY and one[2].rpartition(" ")[2] in _NAMES for one in options]
    if not any(one[0] in _MEMORY for one, yields in zip(options, of_variable, strict=True) if not yields):
        return list(options)
    return [one for one, yields in zip(options, of_variable, strict=True) if not yields]
