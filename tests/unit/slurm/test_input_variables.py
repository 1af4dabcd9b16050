"""Every environment variable that a man page of Slurm 22.05 documents for a command sets the same option
here.

Variables that set no option are tested where they act (SLURM_EXIT_ERROR, SLURM_UMASK, SLURM_TIME_FORMAT ...).
These have no effect
here: SLURM_CONF and SLURM_DEBUG_FLAGS (there is no slurm.conf), PMI_FANOUT and similar (of Slurm's PMI-1),
SLURM_STEP_KILLED_MSG_NODE_ID (one line is always printed), SQUEUE_FEDERATION and similar (there is one
cluster), SQUEUE_ALL and
similar (nothing is hidden), SCANCEL_CTLD. srun 22.05 itself does not read SLURM_IMMEDIATE, SLURM_NNODES,
SLURM_NTASKS_PER_CORE and
SLURM_NTASKS_PER_SOCKET, although its man page names them.
"""

from __future__ import annotations

import pytest
from tests.support.command_lines import validate_launch, validate_script

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import NONE, SALLOC_22_05, SBATCH_22_05, SRUN_22_05
from warpdeck.notation.options.variables import SALLOC_VARIABLES, SBATCH_VARIABLES, SRUN_VARIABLES
from warpdeck.slurm.submit import scancel
from warpdeck.slurm.viewers import sinfo, squeue

_OF_SBATCH = """
ACCOUNT ACCTG_FREQ ARRAY_INX BATCH CLUSTERS CONSTRAINT CONTAINER CORE_SPEC CPUS_PER_GPU DEBUG DELAY_BOOT DISTRIBUTION ERROR
EXCLUSIVE EXPORT GET_USER_ENV GPU_BIND GPU_FREQ GPUS GPUS_PER_NODE GPUS_PER_TASK GRES GRES_FLAGS HINT IGNORE_PBS INPUT JOB_NAME
MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NETWORK NO_KILL NO_REQUEUE OPEN_MODE OUTPUT OVERCOMMIT PARTITION POWER PROFILE QOS
REQ_SWITCH REQUEUE RESERVATION SIGNAL SPREAD_JOB THREAD_SPEC THREADS_PER_CORE TIMELIMIT USE_MIN_NODES WAIT WAIT_ALL_NODES
WAIT4SWITCH WCKEY
"""
_OF_SALLOC = """
ACCOUNT ACCTG_FREQ BELL BURST_BUFFER CLUSTERS CONSTRAINT CONTAINER CORE_SPEC CPUS_PER_GPU DEBUG DELAY_BOOT EXCLUSIVE GPU_BIND
GPU_FREQ GPUS GPUS_PER_NODE GPUS_PER_TASK GRES GRES_FLAGS HINT IMMEDIATE KILL_CMD MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE
NETWORK NO_BELL NO_KILL OVERCOMMIT PARTITION POWER PROFILE QOS REQ_SWITCH RESERVATION SIGNAL SPREAD_JOB THREAD_SPEC
THREADS_PER_CORE TIMELIMIT USE_MIN_NODES WAIT_ALL_NODES WAIT4SWITCH WCKEY
"""
_OF_SRUN = """
SLURM_ACCOUNT SLURM_ACCTG_FREQ SLURM_BCAST SLURM_BCAST_EXCLUDE SLURM_BURST_BUFFER SLURM_CLUSTERS SLURM_COMPRESS SLURM_CONSTRAINT
SLURM_CORE_SPEC SLURM_CPU_BIND SLURM_CPU_FREQ_REQ SLURM_CPUS_PER_GPU SRUN_CPUS_PER_TASK SLURM_DEBUG SLURM_DELAY_BOOT
SLURM_DEPENDENCY SLURM_DISABLE_STATUS SLURM_DISTRIBUTION SLURM_EPILOG SLURM_EXACT SLURM_EXCLUSIVE SLURM_EXPORT_ENV SLURM_GPU_BIND
SLURM_GPU_FREQ SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_GRES SLURM_GRES_FLAGS SLURM_HINT SLURM_JOB_ID
SLURM_JOB_NAME SLURM_JOB_NUM_NODES SLURM_KILL_BAD_EXIT SLURM_LABELIO SLURM_MEM_BIND SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU
SLURM_MEM_PER_NODE SLURM_MPI_TYPE SLURM_NETWORK SLURM_NO_KILL SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE
SLURM_OPEN_MODE SLURM_OVERCOMMIT SLURM_OVERLAP SLURM_PARTITION SLURM_POWER SLURM_PROFILE SLURM_PROLOG SLURM_QOS SLURM_REMOTE_CWD
SLURM_REQ_SWITCH SLURM_RESERVATION SLURM_RESV_PORTS SLURM_SEND_LIBS SLURM_SIGNAL SLURM_SPREAD_JOB SLURM_STDERRMODE
SLURM_STDINMODE SLURM_STDOUTMODE SLURM_TASK_EPILOG SLURM_TASK_PROLOG SLURM_THREAD_SPEC SLURM_THREADS SLURM_THREADS_PER_CORE
SLURM_TIMELIMIT SLURM_UNBUFFEREDIO SLURM_USE_MIN_NODES SLURM_WAIT SLURM_WAIT4SWITCH SLURM_WCKEY SLURM_WORKING_DIR SLURMD_DEBUG
SRUN_CONTAINER SRUN_EXPORT_ENV
"""
SCANCELS = "ACCOUNT BATCH FULL INTERACTIVE NAME PARTITION QOS STATE USER VERBOSE WCKEY"
PAGES = {
    "sbatch": ([f"SBATCH_{name}" for name in _OF_SBATCH.split()], SBATCH_VARIABLES, SBATCH_22_05),
    "salloc": ([f"SALLOC_{name}" for name in _OF_SALLOC.split()], SALLOC_VARIABLES, SALLOC_22_05),
    "srun": (_OF_SRUN.split(), SRUN_VARIABLES, SRUN_22_05),
}
VALUES = {
    "acctg-freq": "task=10",
    "array": "1-3",
    "begin": "2030-01-20T12:34",
    "bell": "",
    "cpu-bind": "cores",
    "cpu-freq": "high",
    "delay-boot": "5",
    "distribution": "cyclic",
    "exclusive": "user",
    "gpu-bind": "closest",
    "gpu-freq": "high",
    "gpus": "2",
    "gpus-per-node": "2",
    "gpus-per-socket": "2",
    "gpus-per-task": "2",
    "gres": "gpu:2",
    "gres-flags": "enforce-binding",
    "hint": "nomultithread",
    "kill-command": "USR1",
    "mem-bind": "local",
    "mpi": "none",
    "network": "x",
    "no-kill": "off",
    "nodes": "2-3",
    "open-mode": "append",
    "profile": "task",
    "requeue": "expedite",
    "send-libs": "yes",
    "signal": "USR1@50",
    "slurmd-debug": "info",
    "time": "7:00",
    "wait-all-nodes": "1",
}
NUMBERS = "2"
"""A value that any other option with a value accepts."""
NOT_SHOWN = {"alloc-nodelist", "debug", "jobid", "multi-prog", "switch-req", "switch-wait", "verbose", "wait"}
"""Variables that set no option, or one that is shown differently."""


@pytest.mark.parametrize("command", sorted(PAGES))
def test_every_variable_of_the_page_stands_for_an_option(command: str) -> None:
    names, pairs, _ = PAGES[command]
    assert not [name for name in names if name not in dict(pairs)]


@pytest.mark.parametrize(
    ("command", "variable", "option"),
    [
        (command, variable, option)
        for command, (_, pairs, known) in PAGES.items()
        for variable, option in pairs
        if option not in NOT_SHOWN and option in known.options
    ],
)
def test_a_variable_says_what_its_option_says(command: str, variable: str, option: str) -> None:
    known = PAGES[command][2]
    takes = known.options[option].takes
    value = VALUES.get(option, NUMBERS) if takes != NONE else ""
    word = f"--{option}" if takes == NONE else f"--{option}={value}"
    given = _shown(command, {variable: value}, [])
    assert option in given
    assert given == _shown(command, {}, [word])


def _shown(command: str, environ: dict[str, str], words: list[str]) -> dict[str, str]:
    """Return the options as the command shows them."""
    place = OptionSource(cwd="/here", environ=environ, now=1_800_000_000.0, read_text=lambda name: "")
    if command == "sbatch":
        result = validate_script("#!/bin/sh\n", place, words=words)
    else:
        result = validate_launch([*words, "true"], place, known=PAGES[command][2])
    assert result.shown, result.rejection
    return result.shown[0]


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        (
            squeue.FROM_ENV | squeue.FLAGS_FROM_ENV,
            "ACCOUNT ARRAY NAMES LICENSES PARTITION PRIORITY QOS SORT STATES USERS",
        ),
        (sinfo.FROM_ENV, "FORMAT PARTITION SORT"),
        (dict.fromkeys(f"SCANCEL_{name.upper()}" for name in (*scancel.VALUES, *scancel.SWITCHES)), SCANCELS),
    ],
)
def test_the_viewers_and_scancel_read_theirs(variables: dict[str, object], names: str) -> None:
    command = next(iter(variables)).partition("_")[0]
    assert {f"{command}_{name}" for name in names.split()} <= variables.keys()
