"""One task of a step: a process under a small supervisor of its own, which is a shell.

The shell outlives the agent and records how the task ended. It runs as the user from its first instruction. It
waits at a gate until it is in the task's containment, holds the lock of the task's folder, and writes its pid.
The output of the task goes to two files in the folder, from where it is streamed. The input of the task comes
through a pipe from the agent, or is empty. If the agent dies, the input ends. The shell also measures the
task's CPU time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from warpdeck_agent.isolation.containment_handle import ContainmentHandle, contain
from warpdeck_agent.isolation.private_folders import PrivateDirs, within
from warpdeck_agent.linux.cpu_time import CpuTime, from_times
from warpdeck_agent.linux.env_passthrough import with_all_variables
from warpdeck_agent.linux.own_program import JOB_UMASK, SYSTEM_PATH
from warpdeck_agent.linux.procfs import number, pairs
from warpdeck_agent.linux.rlimits import impose
from warpdeck_agent.storage.spool import JobFolder, write_all
from warpdeck_agent.wire.steps import ERR, OUT, StepLaunch, StepTask, TaskEnded

STEP_VARIABLE = "WARPDECK_STEP"
RANK_VARIABLE = "SLURM_PROCID"
"""Variables in the environment of each task: the number of its step, and its rank."""
SCRIPT_NAME = "task.sh"
OUTPUTS = {OUT: "out", ERR: "err"}
USAGE_BYTES = 512
MAX_HOOKS = 2
"""The most prologs of a task, and the most epilogs: the site's and the user's."""
TASK_SCRIPT = r"""# Arguments: the task's folder, the working folder, the folder to use if that does not exist,
# two prologs, two epilogs, then the command. The command's input is the descriptor of our standard output.
# The lines that a prolog prints are applied in the process that becomes the task.
# The task runs in the foreground, because a program that a shell starts with & ignores SIGINT.
# The shell's own messages about the end of its child are dropped, because they are not output of the task.
# The names of the shell's variables begin with WARPDECK_, so that they differ from the variables of the task.
WARPDECK_DIR=$1 WARPDECK_CWD=$2 WARPDECK_OTHER=$3
WARPDECK_BEFORE=$4 WARPDECK_THEN_BEFORE=$5 WARPDECK_AFTER=$6 WARPDECK_THEN_AFTER=$7
shift 7
exec 3<&1
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
read -r WARPDECK_GO <&2 && [ "$WARPDECK_GO" = go ] || exit 1
exec 2>/dev/null
echo "$$" 1<>"$WARPDECK_DIR/pid" || exit 1
umask "${SLURM_UMASK:-@UMASK@}" || umask @UMASK@
exec >>"$WARPDECK_DIR/out"
if ! cd "$WARPDECK_CWD"; then
    echo "srun: error: couldn't chdir to \`$WARPDECK_CWD': going to $WARPDECK_OTHER instead" >>"$WARPDECK_DIR/err"
    cd "$WARPDECK_OTHER" || cd /
    WARPDECK_CWD=$PWD
fi
export PWD="$WARPDECK_CWD"
(
    exec 2>>"$WARPDECK_DIR/err"
    for WARPDECK_PID in /proc/self/task/*; do WARPDECK_PID=${WARPDECK_PID##*/}; done
    export SLURM_TASK_PID="$WARPDECK_PID"
    for WARPDECK_HOOK in "$WARPDECK_BEFORE" "$WARPDECK_THEN_BEFORE"; do
        [ -n "$WARPDECK_HOOK" ] || continue
        SLURM_SCRIPT_CONTEXT=prolog_task "$WARPDECK_HOOK" >"$WARPDECK_DIR/said" </dev/null || {
            echo "srun: error: the task prolog $WARPDECK_HOOK failed" >&2
            exit 1
        }
        while IFS= read -r WARPDECK_LINE || [ -n "$WARPDECK_LINE" ]; do
            WARPDECK_NAME=${WARPDECK_LINE#* }
            case $WARPDECK_LINE in
                "print "*) printf "%s\n" "${WARPDECK_LINE#print }" ;;
                "export "*=* | "unset "*)
                    case ${WARPDECK_NAME%%=*} in
                        "" | [0-9]* | *[!A-Za-z0-9_]* | WARPDECK_*) ;;
                        *) command "${WARPDECK_LINE%% *}" "$WARPDECK_NAME" 2>/dev/null ;;
                    esac ;;
            esac
        done <"$WARPDECK_DIR/said"
    done
    [ -z "$WARPDECK_AFTER$WARPDECK_THEN_AFTER" ] || echo "$WARPDECK_PID" >"$WARPDECK_DIR/said"
    [ -z "${WARPDECK_BOUND-}" ] || printf "%s\n" "${WARPDECK_BOUND%%@*}$WARPDECK_PID${WARPDECK_BOUND#*@}" >&2
    unset WARPDECK_BOUND
    case $1 in
        */*) [ ! -x "$1" ] || [ -d "$1" ] || exec @SETSID@ "$@" ;;
        *) ! command -v -- "$1" >/dev/null || exec @SETSID@ "$@" ;;
    esac
    case $1 in
        /*) ;;
        */*) set -- "$PWD/$1" ;;
    esac
    case $1 in
        */*) [ ! -e "$1" ] || {
            echo "slurmstepd: error: execve(): $1: Permission denied" >&2
            exit 13
        } ;;
    esac
    echo "slurmstepd: error: execve(): $1: No such file or directory" >&2
    exit 2
) <&3 3<&-
WARPDECK_CODE=$?
exec 3<&- 2>/dev/null
{
    times
    read -r WARPDECK_LINE && echo "$WARPDECK_LINE" && read -r WARPDECK_LINE && echo "$WARPDECK_LINE"
} </proc/$$/io 1<>"$WARPDECK_DIR/times" 2>/dev/null
[ -z "$WARPDECK_AFTER$WARPDECK_THEN_AFTER" ] || read -r WARPDECK_PID <"$WARPDECK_DIR/said"
for WARPDECK_HOOK in "$WARPDECK_AFTER" "$WARPDECK_THEN_AFTER"; do
    [ -z "$WARPDECK_HOOK" ] || SLURM_TASK_PID=$WARPDECK_PID SLURM_SCRIPT_CONTEXT=epilog_task "$WARPDECK_HOOK" </dev/null
done
echo "$WARPDECK_CODE 0 end" 1<>"$WARPDECK_DIR/rc"
"""


class Task:
    """A task that was started. `ended` is (code, signal), or None while it runs."""

    def __init__(self, folder: JobFolder, rank: int, *, reads: bool) -> None:
        self.folder = folder
        self.rank = rank
        self.reads = reads
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.adopted = False
        """Whether an earlier agent started it."""
        self.grouped = False
        """Whether it began inside its job's cgroups."""
        self.input_fd = -1
        self.peak_mem_bytes = 0
        """The largest memory usage that was measured so far."""
        self.taken_bytes = 0
        """Number of input bytes that were written to the task. It prevents repeated input from being written
        twice.
        """
        self.ended: Optional[Tuple[int, int]] = None
        self.oom = False
        """Whether it was killed because the job ran out of memory."""
        self.over = asyncio.Event()

    def supervisor_pid(self) -> int:
        """Return the pid of its supervisor, which this agent or an earlier one started."""
        return self.process.pid if self.process is not None else self.folder.pid()

    @property
    def runs(self) -> bool:
        """Whether it was started and its end has not been read yet."""
        return self.ended is None and (self.process is not None or self.adopted)

    def reap(self) -> int:
        """Wait for its supervisor, which is about to exit.

        Returns the peak memory in bytes of the largest of its processes. Returns 0 if the supervisor is not
        our child or has been reaped already.
        """
        if self.process is None or self.process.returncode is not None:
            return 0
        try:
            _, status, used = os.wait4(self.process.pid, 0)
        except ChildProcessError:
            return 0
        # set so that Popen does not wait for it again
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return int(used.ru_maxrss) * 1024

    def read_end(self) -> None:
        """Read how it ended.

        If it was killed together with its supervisor, the status is not recorded and counts as signal 9.
        """
        self.ended = self.folder.exit_status() or (0, 9)
        self.close_input()
        self.over.set()

    def end(self) -> TaskEnded:
        """Return the end of an ended task, for the wire."""
        assert self.ended is not None
        return TaskEnded(self.rank, *self.ended, oom=self.oom)

    def open_input(self) -> int:
        """Return the descriptor for the task's standard input. Our end of the pipe is kept in `input_fd`."""
        if not self.reads:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        source, self.input_fd = os.pipe()
        os.set_blocking(self.input_fd, False)
        return source

    def close_input(self) -> None:
        """End its input."""
        if self.input_fd >= 0:
            os.close(self.input_fd)
            self.input_fd = -1

    def cpu(self) -> CpuTime:
        """Return the CPU time of the task and its children, once it has ended."""
        return from_times(self.folder.read("times"))

    def transferred(self) -> Tuple[int, int]:
        """Return the bytes that the task and its children have read and written, once it has ended.

        As in Slurm, this counts files, pipes and sockets.
        """
        facts = pairs(self.folder.read("times"))
        return number(facts.get("rchar", "")), number(facts.get("wchar", ""))


def make_folder(path: str, task_request: StepTask, *, request: StepLaunch, uid: int, gid: int) -> Task:
    """Create the files of a task before anything runs.

    Unneeded files are not created, because each slows the start.
    """
    folder = JobFolder(path)
    folder.create(uid=uid, gid=gid)
    for name in OUTPUTS.values():
        folder.create_user_file(name, uid=uid, gid=gid)
    if request.prologs or request.epilogs:
        folder.create_user_file("said", uid=uid, gid=gid)
    folder.create_user_file("times", b" " * USAGE_BYTES, uid=uid, gid=gid)
    return Task(folder, task_request.rank, reads=task_request.reads)


def run_task(
    task: Task,
    argv: List[str],
    *,
    script: str,
    env: Dict[str, str],
    cwd: str,
    other: str,
    containment: ContainmentHandle,
    private: Optional[PrivateDirs],
    cpus: List[int],
    user: Dict[str, object],
    keep: Sequence[int] = (),
    hooks: Sequence[Sequence[str]] = ((), ()),
    limits: Mapping[str, int] = {},
) -> None:
    """Start the supervisor of a task, put it into its containment and open its gate.

    The task inherits the descriptors `keep`. `hooks` is (prologs, epilogs). Raises OSError or ValueError.
    Runs in a thread.
    """
    folder = task.folder
    lock = folder.open_lock()
    gate, opener = os.pipe()
    source = task.open_input()
    try:
        task.process = within(
            private,
            lambda: subprocess.Popen(
                ["/bin/sh", script, folder.path, cwd, other, *_padded(hooks), *with_all_variables(argv, env)],
                stdin=lock,
                stdout=source,
                stderr=gate,
                start_new_session=True,
                pass_fds=keep,
                env=env,
                cwd="/",
                **user,  # type: ignore[call-overload]
            ),
        )
        task.grouped = contain(task.process.pid, containment)
        impose(task.process.pid, limits)
        if cpus:
            os.sched_setaffinity(task.process.pid, cpus)
        write_all(opener, b"go\n")
    except BaseException:
        if task.process is not None:  # it waits at the gate, and is not watched yet
            task.process.kill()
            task.process.wait()
            task.process = None
        raise
    finally:
        for descriptor in (lock, gate, opener, source):
            os.close(descriptor)


def _padded(hooks: Sequence[Sequence[str]]) -> List[str]:
    """Return the hooks padded with "" to the number of arguments that the script takes."""
    return [path for each in hooks for path in [*each, "", ""][:MAX_HOOKS]]


def install_script(path: str) -> None:
    """Write the supervisor's script, readable by every user."""
    setsid = shutil.which("setsid", path=SYSTEM_PATH) or "setsid"
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, TASK_SCRIPT.replace("@SETSID@", setsid).replace("@UMASK@", JOB_UMASK).encode())
    finally:
        os.close(descriptor)
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)
