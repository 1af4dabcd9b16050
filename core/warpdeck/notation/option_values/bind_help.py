"""Help texts of --hint=help, --mem-bind=help and srun's --cpu-bind=help, which are printed to standard output
instead of running.

The exit codes are those of Slurm 22.05.
"""

from __future__ import annotations

from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

_HINT = """\
--hint=WORD                 how tasks are to be bound, by what limits the program
    compute_bound           computing: all cores of a socket
    memory_bound            memory: one core of each socket
    multithread             every thread of a core is used
    nomultithread           one thread of each core is used
    help                    this text
"""
_MEM_BIND = """\
--mem-bind=WORD[,WORD...]   memory and its NUMA nodes
    none                    not bound (the default)
    local                   the nearest of the task's CPUs
    rank                    the node of the task's number
    map_mem:LIST            one node for each task
    mask_mem:LIST           one mask of nodes for each task
    prefer                  first, not only
    sort, nosort            sort free pages, or do not
    quiet, verbose          say nothing of it, or say it for each task
    help                    this text
"""
_CPU_BIND = """\
--cpu-bind=[WORD,]KIND      the CPUs of each task
    none                    not bound
    cores, threads, rank    CPUs of its own
    sockets, ldoms          all CPUs of the step
    map_cpu:LIST            one CPU for each task
    mask_cpu:LIST           one mask of CPUs for each task
    quiet, verbose          say nothing of it, or say it for each task
    help                    this text
"""
_HELPS = {"hint": (_HINT, 1), "mem-bind": (_MEM_BIND, VALUE_EXIT), "cpu-bind": (_CPU_BIND, 1)}


def help_of(option: str, value: str) -> tuple[str, int] | None:
    """Return (text, exit code) if the value asks for help, else None."""
    found = _HELPS.get(option.replace("_", "-"))
    return found if found is not None and "help" in value.lower().split(",") else None


def answer(option: str) -> SlurmError:
    """Return the help text as a SlurmError, for the caller to raise."""
    text, code = _HELPS[option]
    return SlurmError(text.rstrip("\n"), level="", exit_code=code, is_answer=True)
