"""Several tasks of one launch on this node: a POSIX shell, 0.1 MB, starts each in a session of its own and waits for all.

It ends as the task did that ended worst: with the highest exit code, or by the same signal.
"""

from __future__ import annotations

FANOUT = r"""# number of tasks, rank of the first; then the command
tasks=$1 rank=$2
shift 2
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
# What a shell starts with & ignores two signals for ever, but for this program (coreutils 8.31).
listens="env --default-signal=INT,QUIT"
$listens true 2>/dev/null || listens=
case $1 in *=*) listens= ;; esac
i=0 pids=
while [ "$i" -lt "$tasks" ]; do
    export SLURM_PROCID=$((rank + i)) SLURM_LOCALID=$i
    [ -z "${LOCAL_WORLD_SIZE-}" ] || export RANK=$SLURM_PROCID LOCAL_RANK=$i
    @SETSID@ $listens "$@" &
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
if [ "$code" -gt 128 ] && [ "$code" -le 192 ]; then
    ulimit -c 0
    trap - $((code - 128)) 2>/dev/null
    kill -$((code - 128)) $$ 2>/dev/null
fi
exit "$code"
"""
