"""Help texts of --hint=help, --mem-bind=help and srun's --cpu-bind=help, which are printed to standard output
instead of running.

The exit codes are those of Slurm 22.05.
"""

from __future__ import annotations

from warpdeck.notation.values.slurm_error import VALUE_EXIT, SlurmError

_HINT = """\
--hint=WORD                 how to bind tasks, by the resource that limits the program
    compute_bound           computation: use all cores of a socket
    memory_bound            memory: use one core of each socket
    multithread             use every thread of a core
    nomultithread           use one thread of each core
    help                    print this text
"""
_MEM_BIND = """\
--mem-bind=WORD[,WORD...]   the NUMA nodes of each task's memory
    none                    do not bind (the default)
    local                   use the node of the task's CPUs
    rank                    use the node with the task's number
    map_mem:LIST            one node for each task
    mask_mem:LIST           one mask of nodes for each task
    prefer                  prefer these nodes, and use others if they are full
    sort, nosort            sort free pages, or do not sort them
    quiet, verbose          report nothing, or report the binding of each task
    help                    print this text
"""
_CPU_BIND = """\
--cpu-bind=[WORD,]KIND      the CPUs of each task
    none                    do not bind
    cores, threads, rank    bind each task to CPUs of its own
    sockets, ldoms          use all CPUs of the step
    map_cpu:LIST            one CPU for each task
    mask_cpu:LIST           one mask of CPUs for each task
    quiet, verbose          report nothing, or report the binding of each task
    help                    print this text
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
