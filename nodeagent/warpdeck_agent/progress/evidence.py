"""Evidence of a hang: what the ranks of a launch are doing.

The stacks are taken by py-spy, which reads the memory of a Python program without stopping or changing it. py-spy is found
in the PATH of the job's own process, beside the Python of that process, or beside the agent's Python. It may belong to the
job's user, so it runs as this user without any privilege, in the cgroups of the launch, with limits on its time, memory and
output. The kernel then allows it to read only processes of this user. It gets only pids that carry the launch's job tag.

Where the kernel forbids a user to read another own process (kernel.yama.ptrace_scope is 1 or more), or without py-spy, the
evidence has no stack, only the state of the main thread and the counters that /proc has. The agent never helps with its own
privileges: a program with the right to trace could read the memory of every user.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from warpdeck_agent.isolation import job_processes
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH
from warpdeck_agent.linux.procfs import number, table, text
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.tasks.task import RANK_VARIABLE
from warpdeck_agent.users.accounts import as_user, group_of
from warpdeck_agent.users.user_children import ChildFailed, UserChild, UserChildren
from warpdeck_agent.wire.messages import AskEvidence, Evidence, Frame, RankEvidence

MAX_RANKS = 64
"""The most ranks of a node of which evidence is taken."""
MAX_FRAMES = 40
MAX_NAME_CHARS = 200
DUMP_S = 20.0
"""Limit in seconds for the stacks of all ranks of a node."""
MOST_BYTES = 4 * 1024 * 1024
MEM_KIB = 1024 * 1024
"""Address space of py-spy, which maps the libraries of the program."""
RANK_NAMES = ("RANK", RANK_VARIABLE)
"""Variables with the rank of a process: those of torchrun's workers, and of the tasks of steps."""
DUMP = f"""ulimit -v {MEM_KIB}; ulimit -c 0; ulimit -f 0
echo 1000 >/proc/self/oom_score_adj
command -v py-spy >/dev/null || exit 3
for pid; do
    echo "pid $pid"
    timeout -s KILL 5 py-spy dump --json --nonblocking --pid "$pid" 2>&1
    echo
done
exit 0
"""
"""Prints a line with each pid, and then the stacks of the process as JSON, or an error.

If the launch is at its memory limit, the kernel ends py-spy first, and no process of the job.
"""
NO_TOOL = "py-spy was not found; install it in the environment of the job or of the agent"


async def take_evidence(launch: LocalLaunch, children: UserChildren) -> List[RankEvidence]:
    """Return the evidence of the launch's ranks on this node."""
    loop = asyncio.get_running_loop()
    pids = await loop.run_in_executor(None, python_ranks, launch)
    if not pids:
        return []
    stacks, problem = await _stacks(launch, pids, children)
    return [_evidence(label, pid, stacks.get(pid, []), problem) for label, pid in pids.items()]


def python_ranks(launch: LocalLaunch) -> Dict[str, int]:
    """Return the pid of the first Python process of each rank, by rank. Blocks.

    If any process has the rank of a worker of torchrun, processes without such a rank, which started the workers, are
    left out. Children of a rank's first process, such as those that load data, have the same rank.
    """
    pids = sorted(job_processes.pids_by_job_tag().get(launch.processes.tag, ()), key=_started)
    pids = [pid for pid in pids if text(f"/proc/{pid}/comm").startswith(("python", "pt_main_thread"))]
    for variable in RANK_NAMES:
        found: Dict[str, int] = {}
        for pid in pids:
            rank = job_processes.numeric_variable(pid, variable)
            if rank and len(found) < MAX_RANKS:
                found.setdefault(rank, pid)
        if found:
            return found
    return {"": pids[0]} if pids else {}


def _started(pid: int) -> Tuple[int, int]:
    fields = job_processes.stat_fields(pid)
    return (int(fields[19]) if len(fields) > 19 else 0), pid


async def _stacks(
    launch: LocalLaunch, pids: Dict[str, int], children: UserChildren
) -> Tuple[Dict[int, List[Frame]], str]:
    """Return the stack of each process, and the reason for missing ones."""
    meta = launch.meta
    try:
        child = UserChild(
            argv=["/bin/sh", "-c", DUMP, "sh", *map(str, pids.values())],
            env={"PATH": _search_path(next(iter(pids.values()))), OWN: "1"},
            limit_s=DUMP_S,
            most_bytes=MOST_BYTES,
            containment=meta.hold,
            drop=as_user(meta.user, uid=meta.uid, gid=group_of(meta)),
        )
        printed = await children.run(child, uid=meta.uid)
    except ChildFailed as error:
        return {}, NO_TOOL if str(error) == "ended with exit code 3" else f"py-spy {error}"
    except LaunchError as error:
        return {}, str(error)
    return parse_dumps(printed.decode("utf-8", "replace"), set(pids.values()))


def _search_path(pid: int) -> str:
    """Return the folders in which py-spy is searched: those of the job's process, of its Python, and of the agent's."""
    command = text(f"/proc/{pid}/cmdline").split("\0")[0]
    own = os.path.dirname(command) if os.path.isabs(command) else ""
    folders = [job_processes.variable(pid, "PATH"), own, os.path.dirname(sys.executable), SYSTEM_PATH]
    return ":".join(filter(None, folders))


def parse_dumps(printed: str, pids: Set[int]) -> Tuple[Dict[int, List[Frame]], str]:
    """Return the stack of each process in the output of DUMP, and the last error. The output is the user's."""
    stacks: Dict[int, List[Frame]] = {}
    problem = ""
    for part in ("\n" + printed).split("\npid ")[1:]:
        first, _, rest = part.partition("\n")
        pid = int(first) if first.isdecimal() and len(first) <= job_processes.MAX_DIGITS else 0
        if pid not in pids:
            continue
        try:
            stacks[pid] = _main_stack(json.loads(rest), pid)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            problem = _problem(rest)
    return stacks, problem


def _problem(printed: str) -> str:
    if "ermission" in printed or "not permitted" in printed:
        return "the kernel does not let the user trace the process (kernel.yama.ptrace_scope)"
    words = printed.strip().splitlines()
    return f"py-spy failed: {words[0][:MAX_NAME_CHARS]}" if words else "py-spy printed nothing"


def _main_stack(threads: List[Dict[str, Any]], pid: int) -> List[Frame]:
    thread = next(
        each for each in [*threads, {"os_thread_id": pid, "frames": []}] if each["os_thread_id"] == pid
    )
    return [_frame(each) for each in thread["frames"][:MAX_FRAMES]]


def _frame(frame: Dict[str, Any]) -> Frame:
    path = str(frame["filename"])
    return Frame(
        name=str(frame["name"])[:MAX_NAME_CHARS],
        file=os.path.basename(path)[:MAX_NAME_CHARS],
        line=max(0, min(int(frame["line"]), 1 << 31)),
        is_library=path.startswith("<") or "/lib/python" in path or "/lib64/python" in path,
    )


def _evidence(label: str, pid: int, frames: List[Frame], problem: str) -> RankEvidence:
    """Return the evidence of one rank. Its counters are taken after the stack."""
    status = table(f"/proc/{pid}/status")
    waits_in = text(f"/proc/{pid}/wchan")
    state = status.get("State", "gone")
    return RankEvidence(
        label=label,
        pid=pid,
        frames=frames,
        state=f"{state} in {waits_in}" if waits_in not in ("", "0") else state,
        cpu_s=job_processes.cpu_time(pid).total_s,
        io_bytes=moved_bytes(pid),
        switches=number(status.get("voluntary_ctxt_switches", "")),
        problem="" if frames else problem or "py-spy found no Python stack",
    )


def moved_bytes(pid: int) -> int:
    """Return how many bytes the process has read and written with system calls for files and pipes."""
    counters = table(f"/proc/{pid}/io")
    return number(counters.get("rchar", "")) + number(counters.get("wchar", ""))


class EvidenceTaker:
    """Answers AskEvidence. `find` returns the launch with a job id and a number of restarts, if it is known here."""

    def __init__(self, find: Callable[[int, int], Optional[LocalLaunch]], children: UserChildren) -> None:
        self._find = find
        self._children = children

    async def answer(self, request: AskEvidence) -> Evidence:
        """Return the evidence; no ranks if the launch does not run here."""
        launch = self._find(request.job_id, request.restarts)
        if launch is None or launch.phase != "running":
            return Evidence(ask=request.ask)
        return Evidence(ask=request.ask, ranks=await take_evidence(launch, self._children))
