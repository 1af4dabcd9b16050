"""The supervisor of a batch job: a POSIX shell, 0.1 MB, that outlives the agent and writes how the job ended.

It runs as the job's user from its first instruction. It holds the job folder's lock on its standard input, waits at the
gate (standard error) until the agent has put it into its group, writes its pid, opens the output, starts the tasks in
sessions of their own, waits for them whatever signal comes, and writes the exit status in one short write. Nothing runs
where the agent went away before the gate was opened, or where the pid cannot be written: then the launch never was.
"""

from __future__ import annotations

import os
import shutil

from .spool import write_all

SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Where our own tools are: a job's PATH is its user's affair."""

WRAPPER = r"""# folder, stdout, stderr ("" joins it), append|truncate, working folder, tasks, first rank; then the command
dir=$1 out=$2 err=$3 mode=$4 cwd=$5 tasks=$6 rank=$7
shift 7
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
read -r go <&2 && [ "$go" = go ] || exit 1
exec 2>/dev/null
echo "$$" 1<>"$dir/pid" || exit 1
fail() {
    echo "$1" 1<>"$dir/message"
    echo "1 0 end" 1<>"$dir/rc"
    exit 1
}
ready() {
    folder=${1%/*}/
    [ -d "$folder" ] || PATH=@PATH@ mkdir -p "$folder" 2>/dev/null || fail "cannot make the folder $folder for the output"
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
    @SETSID@ "$@" </dev/null &
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
echo "$code 0 end" 1<>"$dir/rc"
"""


def install_wrapper(path: str) -> None:
    """Writes the wrapper script, readable by every job's user."""
    setsid = shutil.which("setsid", path=SYSTEM_PATH) or "setsid"
    text = WRAPPER.replace("@PATH@", SYSTEM_PATH).replace("@SETSID@", setsid)
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
