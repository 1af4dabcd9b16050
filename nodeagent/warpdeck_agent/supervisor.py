"""The supervisor of a batch job: a POSIX shell, 0.1 MB, that outlives the agent and writes how the job ended.

It holds the job folder's lock on its standard input, writes its pid, opens the output as the job's user, starts the
tasks in sessions of their own, waits for them whatever signal comes, and writes the exit status in one short write.
"""

from __future__ import annotations

import os
from typing import List

WRAPPER = r"""# folder, stdout, stderr ("" joins it), append|truncate, working folder, tasks, first rank; then the command
dir=$1 out=$2 err=$3 mode=$4 cwd=$5 tasks=$6 rank=$7
shift 7
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
echo "$$" >"$dir/pid"
fail() {
    echo "$1" >"$dir/message"
    echo "1 0 end" >"$dir/rc"
    exit 1
}
ready() {
    case $1 in */*) [ -d "${1%/*}" ] || mkdir -p "${1%/*}" 2>/dev/null || fail "cannot make the folder ${1%/*} for the output" ;; esac
    if [ "$mode" = append ]; then
        true 2>/dev/null >>"$1" || fail "cannot write the output file $1"
    else
        true 2>/dev/null >"$1" || fail "cannot write the output file $1"
    fi
}
cd "$cwd" 2>/dev/null || fail "cannot enter the folder $cwd"
export PWD="$cwd"
ready "$out"
[ -z "$err" ] || ready "$err"
exec >>"$out"
if [ -z "$err" ]; then exec 2>&1; else exec 2>>"$err"; fi
i=0 pids=
while [ "$i" -lt "$tasks" ]; do
    export SLURM_PROCID=$((rank + i)) SLURM_LOCALID=$i
    setsid "$@" </dev/null &
    pids="$pids $!"
    i=$((i + 1))
done
code=0
for pid in $pids; do
    while :; do
        wait "$pid"
        ended=$?
        kill -0 "$pid" 2>/dev/null || break
    done
    [ "$ended" -le "$code" ] || code=$ended
done
echo "$code 0 end" >"$dir/rc"
"""


def install_wrapper(path: str) -> None:
    """Writes the wrapper script, readable by every job's user."""
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, WRAPPER.encode())
    finally:
        os.close(descriptor)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def as_user(argv: List[str], *, uid: int, gid: int, cgroup: str) -> List[str]:
    """The command line that first joins the cgroup (as the agent), then drops to the user, then runs `argv`.

    setpriv in place of Popen(user=...): that would fork for real, and cost ten times as much.
    """
    if os.geteuid() == 0 and uid != 0:
        argv = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--init-groups", "--", *argv]
    if cgroup:
        join = 'echo $$ >"$0/cgroup.procs" 2>/dev/null; exec "$@"'
        argv = ["/bin/sh", "-c", join, cgroup, *argv]
    return argv
