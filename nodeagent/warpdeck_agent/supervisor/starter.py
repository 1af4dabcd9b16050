"""Starts the first process of a launch: a shell that becomes the job's program.

The shell runs as the job's user. Its input and output are one end of a socket pair, the gate. Its standard error is discarded until
it opens the files of the job, because the dynamic linker writes there about a wrong LD_PRELOAD of the user. The supervisor puts the
shell into the launch's containment, writes its pid into the launch's record, and sends "go" over the gate.
Only then does the shell use anything of the user's. So every process that continues has its pid in the
record, and without a pid nothing of the launch ever runs. If the shell cannot become the program, it sends the
reason over the gate. A folder on a hanging file server blocks only the shell.

If the job is a script for /bin/sh, the shell runs the script itself, without an exec (see `runs_here`). The
script's messages are the same then, and only the command line of the process differs.

A fork of a Python process costs as much as starting two programs, because it copies its pages. So posix_spawn
is used, unless the user ids must change.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from warpdeck_agent.linux.own_program import JOB_UMASK, SYSTEM_PATH
from warpdeck_agent.linux.rlimits import impose

START = "gate.sh"
"""The name of the file with SCRIPT in the agent's folder. A supervisor may be of an earlier build, so a new
order of arguments needs a new file name.
"""
SCRIPT = r"""# Arguments: this file, the working folder, the files for input, output and errors ("" joins errors to the output),
# append|truncate, exec|here, then the command, or the arguments of the script that $0 names.
# The shell sets no variables of its own, because a variable of the user may have the same name.
exec 2>/dev/null
read -r WARPDECK_GO && [ "$WARPDECK_GO" = go ] || exit 1
unset WARPDECK_GO
fail() {
    printf "%s\n" "$1"
    exit 1
}
missing() {
    if [ -d "$1" ]; then
        echo "Permission denied"
    elif [ -e "$1" ]; then
        echo "Not a directory"
    else
        echo "No such file or directory"
    fi
}
ready() {
    if [ -n "${WARPDECK_NO_FOLDER-}" ]; then
        case $1 in
            "${WARPDECK_NO_FOLDER%/}"/*) [ -d "${1%/*}/" ] || fail "cannot write the output file $1: \
$WARPDECK_NO_FOLDER, the working folder of the job: $(missing "$WARPDECK_NO_FOLDER")" ;;
        esac
    fi
    [ -d "${1%/*}/" ] || PATH=@PATH@ mkdir -p "${1%/*}/" || fail "cannot create the folder ${1%/*}/ for the output"
    if [ "$2" = append ]; then
        true >>"$1" || fail "cannot write the output file $1"
    else
        true >"$1" || fail "cannot write the output file $1"
    fi
}
umask "${SLURM_UMASK:-@UMASK@}" || umask @UMASK@
unset SLURM_UMASK
cd "$2" || fail "cannot enter the folder $2"
export PWD="$2" SLURM_TASK_PID=$$
[ "$3" = /dev/null ] || true <"$3" || fail "cannot read the input file $3"
ready "$4" "$6"
[ -z "$5" ] || ready "$5" "$6"
if [ -z "$5" ]; then
    exec <"$3" >>"$4" 2>&1
else
    exec <"$3" >>"$4" 2>>"$5"
fi
if [ -n "${WARPDECK_NO_FOLDER-}" ]; then
    for WARPDECK_GO in once twice; do
        printf "slurmstepd: error: couldn't chdir to \`%s': %s: going to %s instead\n" \
            "$WARPDECK_NO_FOLDER" "$(missing "$WARPDECK_NO_FOLDER")" "$2" >&2
    done
    unset WARPDECK_GO
fi
unset WARPDECK_NO_FOLDER
if [ "$7" = here ]; then
    unset -f fail missing ready
    shift 7
    . "$0"
    exit
fi
shift 7
exec "$@"
"""
BEGIN = '[ -r "$1" ] || { read -r WARPDECK_GO; echo "cannot read the file $1"; exit 1; }; . "$1"'
"""The command of the shell, which reads SCRIPT. Without SCRIPT, it waits for "go" before it tells the reason, because
the supervisor cannot send "go" to a shell that has ended.
"""
NO_FOLDER = "WARPDECK_NO_FOLDER"
"""Variable of the shell: the working folder that a job asked for and that cannot be entered.

The job then runs in FALLBACK_FOLDER, and its error output has the message of slurmstepd. Slurm prints it twice.
"""
FALLBACK_FOLDER = "/tmp"
TASKS = "tasks.sh"
"""The name of the file with TASK_LAUNCHER in the agent's folder."""
TASK_LAUNCHER = r"""# Arguments: the number of tasks, the rank of the first task, then the command.
# The names of the shell's variables begin with WARPDECK_, so that they differ from the variables of the tasks.
WARPDECK_TASKS=$1 WARPDECK_RANK=$2
shift 2
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
# A program that a shell starts with & ignores INT and QUIT. env(1) of coreutils 8.31 or newer undoes this.
WARPDECK_LISTENS="env --default-signal=INT,QUIT"
$WARPDECK_LISTENS true 2>/dev/null || WARPDECK_LISTENS=
case $1 in *=*) WARPDECK_LISTENS= ;; esac
WARPDECK_I=0 WARPDECK_PIDS=
while [ "$WARPDECK_I" -lt "$WARPDECK_TASKS" ]; do
    export SLURM_PROCID=$((WARPDECK_RANK + WARPDECK_I)) SLURM_LOCALID=$WARPDECK_I
    [ -z "${LOCAL_WORLD_SIZE-}" ] || export RANK=$SLURM_PROCID LOCAL_RANK=$WARPDECK_I
    @SETSID@ $WARPDECK_LISTENS "$@" &
    WARPDECK_PIDS="$WARPDECK_PIDS $!"
    WARPDECK_I=$((WARPDECK_I + 1))
done
WARPDECK_CODE=0
for WARPDECK_PID in $WARPDECK_PIDS; do
    while :; do
        wait "$WARPDECK_PID"
        WARPDECK_ENDED=$?
        kill -0 "$WARPDECK_PID" 2>/dev/null || break
    done
    [ "$WARPDECK_ENDED" -le "$WARPDECK_CODE" ] || WARPDECK_CODE=$WARPDECK_ENDED
done
if [ "$WARPDECK_CODE" -gt 128 ] && [ "$WARPDECK_CODE" -le 192 ]; then
    ulimit -c 0
    trap - $((WARPDECK_CODE - 128)) 2>/dev/null
    kill -$((WARPDECK_CODE - 128)) $$ 2>/dev/null
fi
exit "$WARPDECK_CODE"
"""
"""A shell script that starts several tasks of one launch on this node.

The shell (0.1 MB) starts each task in a session of its own and waits for all of them. It ends like the task
with the worst end: with the highest exit code, or by the same signal.
"""
OWN_SHELL = ("#!/bin/sh", "#! /bin/sh")
"""First lines of scripts that name the shell at the gate as their interpreter."""
CHANGED_SIGNALS = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
)
"""Signals that Python or the supervisor ignores. That would stay so after exec."""
ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""The signals that posix_spawn resets. For other sets, the C library would first query each signal."""


class LaunchOrder(NamedTuple):
    """A process for the supervisor to start.

    `account` is (uid, gid, all groups), or None to run as our own user.
    """

    job_id: int
    restarts: int
    record: int
    argv: List[str]
    env: Dict[str, str]
    cwd: str
    out: str
    err: str
    """Path of the error output; "" joins standard error to the output."""
    append: bool
    hold: Dict[str, Any]
    """The fields of ContainmentHandle, the launch's containment."""
    account: Optional[Tuple[int, int, List[int]]] = None
    stdin: str = os.devnull
    here: bool = False
    """Whether the command is a script for the shell at the gate (see runs_here)."""
    limits: Optional[Dict[str, int]] = None
    """Soft limits of resources (see `rlimits`)."""
    private: Optional[Dict[str, Any]] = None
    """The fields of PrivateDirs, the launch's private folders."""


def install(path: str, script: str) -> None:
    """Write a shell script with which jobs begin, readable by every user."""
    import shutil  # shutil is large, and the supervisor does not need it

    setsid = shutil.which("setsid", path=SYSTEM_PATH) or "setsid"
    with open(path + ".new", "w", encoding="ascii") as file:
        for placeholder, value in (("@PATH@", SYSTEM_PATH), ("@SETSID@", setsid), ("@UMASK@", JOB_UMASK)):
            script = script.replace(placeholder, value)
        file.write(script)
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)


def runs_here(script: str) -> bool:
    """Return whether the shell at the gate can run the script itself, under the script's name.

    Starting another shell would cost as much as everything that this shell has done until then.
    """
    return script.partition("\n")[0] in OWN_SHELL


def start(order: LaunchOrder, script: str) -> Tuple[int, socket.socket]:
    """Start the process and return (pid, our end of the gate). Raises OSError; then there is no process."""
    ours, theirs = socket.socketpair()
    argv = _command(order, script)
    try:
        if order.account is None and order.private is None:
            streams = [
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ]
            pid = os.posix_spawn(
                argv[0], argv, order.env, file_actions=streams, setsid=True, setsigdef=ALL_SIGNALS
            )
        else:
            pid = _fork(order, argv, theirs.fileno(), cover=_covering(order))
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    if order.limits:
        impose(pid, order.limits)
    ours.setblocking(False)
    return pid, ours


def _command(order: LaunchOrder, script: str) -> List[str]:
    name, command = (order.argv[0], order.argv[1:]) if order.here else ("sh", order.argv)
    how = ["append" if order.append else "truncate", "here" if order.here else "exec"]
    files = [order.cwd, order.stdin, order.out, order.err]
    return ["/bin/sh", "-c", BEGIN, name, script, *files, *how, *command]


def _covering(order: LaunchOrder) -> Callable[[], None]:
    """Return the function that mounts the private folders in the new process.

    Few orders have any, so the module is imported on demand to keep the supervisor small.
    """
    if order.private is None:
        return lambda: None
    from warpdeck_agent.isolation.private_folders import cover, private_from

    made = private_from(order.private)
    assert made is not None
    return lambda: cover(made)


def _fork(order: LaunchOrder, argv: List[str], gate: int, *, cover: Callable[[], None]) -> int:
    """Fork a child that switches to the user before it runs a program with the user's environment."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in CHANGED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for stream in (0, 1):
            os.dup2(gate, stream)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        cover()
        if order.account is not None:
            uid, gid, groups = order.account
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.execve(argv[0], argv, order.env)
    except OSError as error:
        os.write(1, f"cannot start the job's first process: {error.strerror} ({error.filename})\n".encode())
    finally:
        os._exit(1)
