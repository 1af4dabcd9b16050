"""A job's command in a container of Podman's.

A single process has a container that is made and removed with it. The tasks of a step on a node share one, as pyxis has it:
whichever comes first makes it, around a shell that only waits; all of them enter it (`podman exec`), and the last removes it.
So it is with a container that has a name, which steps of one job may use at the same time: it is kept, and what was written
into it is an image that the next one with that name begins with.

The shell needs a /bin/sh in the image. An image's entrypoint belongs to one process: who wants it has a container for each.
"""

from __future__ import annotations

import os
import resource
from typing import List, Optional

from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Container

from .container_environment import NAMED, Setting, mounts, passed
from .images import Image, for_podman

MAX_PROCESSES = 32_768
"""Podman takes no more where it may not raise limits."""
CDI = ("/etc/cdi", "/var/run/cdi")
OF_HOLDER = ("WARPDECK_JOB", "WARPDECK_TOKEN", "WARPDECK_STEP")
"""Variables of the shell that only waits: with them it is found, and ended, as a process of the job's."""

LIVES = r"""lives() {
    while read -r key value rest; do
        if [ "$key" = State: ]; then [ "$value" != Z ]; return; fi
    done <"/proc/$1/status"
    return 1
} 2>/dev/null
"""
PODMAN_READY = (
    LIVES
    + r"""uid=$(id -u)
run=${XDG_RUNTIME_DIR:-/run/user/$uid}
if [ ! -d "$run" ] || [ ! -O "$run" ]; then
    run=/tmp/podman-run-$uid
    mkdir -m 700 "$run" 2>/dev/null
    if [ ! -O "$run" ] || [ -L "$run" ]; then echo "$run is somebody else's, and Podman's state must lie there" >&2; exit 125; fi
fi
export XDG_RUNTIME_DIR="$run"
runs_one() {
    for each in /proc/[0-9]*; do
        if [ -O "$each" ] && read -r name <"$each/comm" && [ "$name" = conmon ] && lives "${each#/proc/}"; then return 0; fi
    done
    return 1
} 2>/dev/null
pid=$(cat "$run/libpod/tmp/pause.pid" 2>/dev/null)
if [ -n "$pid" ] && ! lives "$pid" && ! runs_one; then
    rm -f "$run/libpod/tmp/pause.pid" "$run/libpod/tmp/alive"
fi
exec "$@"
"""
)
"""Before a user's own Podman. It keeps in its database where its state lies, for all times: that must not be the TMPDIR of one
job. And containers that were killed with their job run for ever in that database, so that none begins any more: without these
two files it looks anew, as after a reboot."""
DROP = r"""drop() { "$engine" rm --force --time 0 "$1" || "$engine" rm --force --time 0 "$1"; }
"""
"""Of one whose processes were killed the first attempt only finds out that it does not run."""
STALE = (
    LIVES
    + DROP
    + r"""engine=$1 age=$2
shift 2
{
    "$engine" ps --all --filter label=warpdeck=unnamed --filter "until=$age" --format "{{.ID}} {{.Pid}}" |
        while read -r id pid; do lives "$pid" || drop "$id" </dev/null; done
} </dev/null >/dev/null 2>&1 &
exec "$@"
"""
)
"""Beside what it begins: removes what is left of containers that were killed with their job, and had no name to be kept for."""
STALE_AFTER = "10m"
"""One that is only just made has no process either."""
SHARED = (
    LIVES
    + DROP
    + r"""engine=$1 name=$2 image=$3 mark=$4 kept=$5 count=$6 state=$TMPDIR/$2
shift 6
trap : TERM INT HUP QUIT USR1 USR2 ALRM
alive() {
    pid=$("$engine" container inspect --format "{{.State.Pid}}" "$name" 2>/dev/null) && [ "$pid" -gt 0 ] && lives "$pid"
}
create() {
    if "$engine" container exists "$name"; then
        [ -z "$kept" ] || "$engine" commit --quiet "$name" "localhost/$name" >/dev/null || return
        drop "$name" >/dev/null || return
    fi
    if [ -n "$kept" ] && "$engine" image exists "localhost/$name"; then image=localhost/$name; fi
    if [ -z "$image" ]; then echo "there is no container called ${name#warpdeck-} on this node" >&2; return 1; fi
    [ -p "$state.wait" ] || mkfifo -m 600 "$state.wait" || return
    place=0 all=$#
    while [ "$place" -lt "$all" ]; do
        word=$1
        shift
        [ "$word" != "$mark" ] || word=$image
        [ "$place" -ge "$count" ] || set -- "$@" "$word"
        place=$((place + 1))
    done
    "$engine" "$@" /bin/sh -c ": <\"\$0\"" "$state.wait" >/dev/null
}
exec 9>>"$state.lock" && flock 9 || exit 125
if ! alive; then
    : >"$state.users"
    create "$@" 9>&- || exit 125
elif [ ! -s "$state.users" ]; then
    echo "the container ${name#warpdeck-} is in use by another job of yours on this node" >&2
    exit 125
fi
echo one >>"$state.users"
exec 9>&-
shift "$count"
WARPDECK_DEAF=1 "$engine" "$@"
code=$?
exec 9>>"$state.lock" && flock 9
tail -n +2 "$state.users" >"$state.left" && mv "$state.left" "$state.users"
if [ ! -s "$state.users" ]; then
    if [ -n "$kept" ]; then "$engine" kill "$name"; else drop "$name"; fi >/dev/null 2>&1 9>&-
fi
exit "$code"
"""
)
"""For each task: run's words for the container, of which `mark` is to be the image, so many; then exec's.

Signals reach what runs inside by themselves, as processes of the job's. `podman exec` passes none on, but would end of them,
and the task with it: so it is deaf (processes.DEAF)."""


def podman(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    """The command that runs `command` in a container as asked. Raises LaunchError."""
    if "PMI_FD" in setting.env:
        raise LaunchError(
            "podman on this node does not pass on what --mpi=pmi2 needs: start the program with mpiexec in it, or use Apptainer"
        )
    ready = [] if setting.as_root else ["/bin/sh", "-c", PODMAN_READY, "podman"]
    ready += ["/bin/sh", "-c", STALE, "podman", engine, STALE_AFTER]
    words = [*_run(asked, setting), *([] if asked.entrypoint else ["--entrypoint="])]
    if not asked.name and (setting.tasks == 1 or asked.entrypoint):
        assert image is not None
        own = [*words, *_process(asked, setting), "--rm"]
        return [*ready, engine, *own, *for_podman(image), *command]
    if image is not None and image.kind == "folder" and asked.name:
        raise LaunchError("a folder as image cannot have a --container-name: it keeps its changes itself")
    if asked.entrypoint:
        raise LaunchError(
            "with podman, which this node has, a container that has a --container-name cannot run its image's entrypoint"
        )
    name, mark = NAMED + (asked.name or setting.launch), "image of " + setting.launch
    source = for_podman(image) if image is not None else [""]
    made = [
        *words,
        *(f"--env={each}" for each in OF_HOLDER),
        "--detach",
        f"--name={name}",
        *source[:-1],
        mark,
    ]
    entered = [*_GROUPS, "exec", *_process(asked, setting), name, *command]
    shared = ["/bin/sh", "-c", SHARED, "podman", engine, name, source[-1], mark, asked.name]
    return [*ready, *shared, str(len(made)), *made, *entered]


_GROUPS = ["--cgroup-manager=cgroupfs"]


def _run(asked: Container, setting: Setting) -> List[str]:
    """Of the container, whoever is in it."""
    words = [*_GROUPS, "run", "--cgroups=disabled", "--network=host", "--uts=host"]
    words += ["--ipc=host"] if os.path.isdir("/dev/mqueue") else ["--volume=/dev/shm:/dev/shm"]
    words += [*_limits(), *(f"--volume={mount}" for mount in mounts(asked, setting))]
    words += [] if asked.writable else ["--read-only"]
    if not setting.as_root:
        words += [] if asked.remap_root else ["--userns=keep-id"]
    if setting.gpus:
        _check_cdi()
        words += ["--device=nvidia.com/gpu=all"]  # others than the job's own are closed to it all the same
    return words + ([] if asked.name else ["--label=warpdeck=unnamed"])


def _process(asked: Container, setting: Setting) -> List[str]:
    """Of one process in it."""
    words = [f"--workdir={asked.workdir or setting.work_dir}", "--interactive"]
    words += [f"--env={name}" for name in passed(asked, setting)]
    return words + (["--tty"] if setting.pty else [])


def _limits() -> List[str]:
    """The job's own limits in place of the engine's, which nobody may raise who is held to less."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = MAX_PROCESSES if most == resource.RLIM_INFINITY else min(most, MAX_PROCESSES)
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


def _check_cdi() -> None:
    for folder in CDI:
        if os.path.isdir(folder) and any("nvidia" in name for name in os.listdir(folder)):
            return
    raise LaunchError(
        "podman on this node knows no GPUs: its administrator may run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
    )
