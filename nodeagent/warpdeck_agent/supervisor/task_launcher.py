"""Starts several tasks of one launch on this node, with a POSIX shell script.

The shell (0.1 MB) starts each task in a session of its own and waits for all of them. It ends like the task
with the worst end: with the highest exit code, or by the same signal.
"""

from __future__ import annotations

FANOUT = r"""# number of tasks, rank of the first; then the command. The variables must not be called as the tasks' own
WARPDECK_TASKS=$1 WARPDECK_RANK=$2
shift 2
trap : TERM INT HUP QUIT USR1 USR2 ALRM PIPE
# What a shell starts with & ignores two signals for ever, but for this program (coreutils 8.31).
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
