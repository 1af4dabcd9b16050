"""Runs a job's command in a Podman container.

A single process has a container that is created and removed with it. The tasks of a step on a node share one
container, as in pyxis. The first task creates it, around a shell that only waits. All tasks enter it with
`podman exec`, and the last one removes it. A container with a name, which several steps of one job may use at
the same time, works in the same way. It is kept, and its changes are saved as an image from which the next
container with that name starts.

The shell needs a /bin/sh in the image. An image's entrypoint belongs to one process, so tasks that use it
have a container each.
"""

from __future__ import annotations

import os
import resource
from typing import List, Optional

from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Container

from .container_environment import NAME_PREFIX, ContainerContext, mounts, passed_variables
from .images import Image, for_podman

MAX_PROCESSES = 32_768
"""Podman's maximum number of processes if it may not raise limits."""
CDI = ("/etc/cdi", "/var/run/cdi")
"""The folders in which Podman finds descriptions of GPUs (Container Device Interface)."""
HOLDER_VARIABLES = ("WARPDECK_JOB", "WARPDECK_TOKEN", "WARPDECK_STEP")
"""Variables of the waiting shell. They allow it to be found, and ended, as a process of the job."""

LIVES = r"""lives() {
    while read -r key value rest; do
        if [ "$key" = State: ]; then [ "$value" != Z ]; return; fi
    done <"/proc/$1/status"
    return 1
} 2>/dev/null
"""
"""Shell function that returns whether a process exists and is not a zombie."""
PODMAN_READY = (
    LIVES
    + r"""uid=$(id -u)
run=${XDG_RUNTIME_DIR:-/run/user/$uid}
if [ ! -d "$run" ] || [ ! -O "$run" ]; then
    run=/tmp/podman-run-$uid
    mkdir -m 700 "$run" 2>/dev/null
    if [ ! -O "$run" ] || [ -L "$run" ]; then
        echo "Podman cannot keep its state in $run: it belongs to another user or is a link" >&2
        exit 125
    fi
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
"""Shell script that repairs the state of a user's own Podman before it runs.

Podman stores the path of its state in its database permanently, so that must not be the TMPDIR of one job.
Containers that were killed with their job also stay "running" in that database, so that no new one starts.
Without these two files, Podman checks again, as after a reboot.
"""
DROP = r"""drop() { "$engine" rm --force --time 0 "$1" || "$engine" rm --force --time 0 "$1"; }
"""
"""Shell function that removes a container. It tries twice: if the processes of a container were killed, the
first attempt only detects that it does not run.
"""
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
"""Shell script that runs a command, and in parallel removes the remains of unnamed containers that were
killed with their job.
"""
STALE_AFTER = "10m"
"""Minimum age of a container that STALE removes. A container that was just created has no process yet
either.
"""
SHARED = (
    LIVES
    + DROP
    + r"""engine=$1 name=$2 image=$3 placeholder=$4 kept=$5 count=$6 state=$TMPDIR/$2
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
    index=0 all=$#
    while [ "$index" -lt "$all" ]; do
        argument=$1
        shift
        [ "$argument" != "$placeholder" ] || argument=$image
        [ "$index" -ge "$count" ] || set -- "$@" "$argument"
        index=$((index + 1))
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
"""Shell script of each task in a shared container.

Its arguments are `count` arguments of `podman run`, in which `placeholder` is replaced by the image, then the
arguments of `podman exec`. Signals reach the processes in the container directly, because they are processes
of the job. `podman exec` does not forward signals: a signal would only end it, and the task with it. So it
has the variable `job_processes.DEAF`.
"""


def podman(
    engine: str, command: List[str], spec: Container, context: ContainerContext, image: Optional[Image]
) -> List[str]:
    """Return the command that runs `command` in the requested container. Raises LaunchError."""
    if "PMI_FD" in context.env:
        raise LaunchError(
            "Podman, this node's container runtime, does not support --mpi=pmi2: run mpiexec inside the container, or use Apptainer"
        )
    ready = [] if context.as_root else ["/bin/sh", "-c", PODMAN_READY, "podman"]
    ready += ["/bin/sh", "-c", STALE, "podman", engine, STALE_AFTER]
    options = [*_run(spec, context), *([] if spec.entrypoint else ["--entrypoint="])]
    if not spec.name and (context.tasks == 1 or spec.entrypoint):
        assert image is not None
        run = [*options, *_process(spec, context), "--rm"]
        return [*ready, engine, *run, *for_podman(image), *command]
    if image is not None and image.kind == "folder" and spec.name:
        raise LaunchError(
            "--container-name cannot be used with a folder as the image: changes are kept in the folder itself"
        )
    if spec.entrypoint:
        raise LaunchError(
            "Podman, this node's container runtime, cannot run the image's entrypoint in a container with a --container-name"
        )
    name, placeholder = NAME_PREFIX + (spec.name or context.launch), "image of " + context.launch
    source = for_podman(image) if image is not None else [""]
    made = [
        *options,
        *(f"--env={each}" for each in HOLDER_VARIABLES),
        "--detach",
        f"--name={name}",
        *source[:-1],
        placeholder,
    ]
    entered = [*_GROUPS, "exec", *_process(spec, context), name, *command]
    shared = ["/bin/sh", "-c", SHARED, "podman", engine, name, source[-1], placeholder, spec.name]
    return [*ready, *shared, str(len(made)), *made, *entered]


_GROUPS = ["--cgroup-manager=cgroupfs"]


def _run(spec: Container, context: ContainerContext) -> List[str]:
    """Return the arguments for creating the container."""
    options = [*_GROUPS, "run", "--cgroups=disabled", "--network=host", "--uts=host"]
    options += ["--ipc=host"] if os.path.isdir("/dev/mqueue") else ["--volume=/dev/shm:/dev/shm"]
    options += [*_limits(), *(f"--volume={mount}" for mount in mounts(spec, context))]
    options += [] if spec.writable else ["--read-only"]
    if not context.as_root:
        options += [] if spec.remap_root else ["--userns=keep-id"]
    if context.gpus:
        _check_cdi()
        options += ["--device=nvidia.com/gpu=all"]  # GPUs of other jobs stay closed to it nevertheless
    return options + ([] if spec.name else ["--label=warpdeck=unnamed"])


def _process(spec: Container, context: ContainerContext) -> List[str]:
    """Return the arguments for one process in the container."""
    options = [f"--workdir={spec.workdir or context.work_dir}", "--interactive"]
    options += [f"--env={name}" for name in passed_variables(spec, context)]
    return options + (["--tty"] if context.pty else [])


def _limits() -> List[str]:
    """Return the job's own limits as options, which replace the engine's defaults.

    A process with lower limits could not set the defaults.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = MAX_PROCESSES if most == resource.RLIM_INFINITY else min(most, MAX_PROCESSES)
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


def _check_cdi() -> None:
    for folder in CDI:
        if os.path.isdir(folder) and any("nvidia" in name for name in os.listdir(folder)):
            return
    raise LaunchError(
        "Podman on this node does not know its GPUs: an administrator can run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
    )
