"""A job's command inside a container, by whichever runtime the node has: Enroot, Apptainer (Singularity) or Podman.

The runtime runs as the job's user under the job's supervisor, in the job's groups, and makes none of its own: limits, the
end of the job and its accounting are the same as without a container. Network and GPUs are the node's as the job may use
them. The job's working folder and its TMPDIR are there under their own names, and it begins in its working folder.

Of the job's environment everything is passed on but search paths, which the image knows better; --container-env names what
is passed on in any case. Values never stand on a command line. Options are pyxis'; where it differs from them it is said
in the README.
"""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence

from .images import Image, for_apptainer, for_enroot, for_podman, parse_image
from .program import SYSTEM_PATH
from .refusal import LaunchError
from .wire.messages import Container, Mount

PLACES = SYSTEM_PATH + ":/usr/local/bin"
TAKES = {
    "enroot": ("registry", "docker", "podman", "squashfs"),
    "apptainer": ("registry", "docker", "squashfs", "sif", "archive", "folder"),
    "singularity": ("registry", "docker", "squashfs", "sif", "archive", "folder"),
    "podman": ("registry", "docker", "podman", "archive", "folder"),
}
"""The runtimes in the order in which they are taken, and the kinds of image that each can run."""
HOST_ONLY = frozenset(
    [
        "PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONHOME",
        "PYTHONPATH",
        "MANPATH",
        "INFOPATH",
        "PKG_CONFIG_PATH",
        "XDG_RUNTIME_DIR",
    ]
)
"""Variables that are about the node's file system."""
OF_TASKS = ("SLURM_PROCID", "SLURM_LOCALID")
OF_RANKS = ("RANK", "LOCAL_RANK")
"""Variables that the supervisor adds."""
MAX_PROCESSES = 32_768
"""Podman takes no more where it may not raise limits."""
CDI = ("/etc/cdi", "/var/run/cdi")
NAMED = "warpdeck-"
"""What the names of kept containers begin with in the runtime's own list."""

PODMAN_READY = r"""uid=$(id -u)
run=${XDG_RUNTIME_DIR:-/run/user/$uid}
if [ ! -d "$run" ] || [ ! -O "$run" ]; then
    run=/tmp/podman-run-$uid
    mkdir -m 700 "$run" 2>/dev/null
    if [ ! -O "$run" ] || [ -L "$run" ]; then echo "$run is somebody else's, and Podman's state must lie there" >&2; exit 125; fi
fi
export XDG_RUNTIME_DIR="$run"
lives() {
    while read -r key value rest; do
        if [ "$key" = State: ]; then [ "$value" != Z ]; return; fi
    done <"/proc/$1/status"
    return 1
} 2>/dev/null
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
"""Before a user's own Podman. It keeps in its database where its state lies, for all times: that must not be the TMPDIR of one
job. And containers that were killed with their job run for ever in that database, so that none begins any more: without these
two files it looks anew, as after a reboot."""
PODMAN_NAMED = r"""engine=$1 name=$2 image=$3 mark=$4
shift 4
if "$engine" container exists "$name"; then
    "$engine" commit --quiet "$name" "localhost/$name" >/dev/null && "$engine" rm "$name" >/dev/null || exit 125
fi
if "$engine" image exists "localhost/$name"; then image=localhost/$name; fi
if [ -z "$image" ]; then echo "there is no container called ${name#warpdeck-} on this node" >&2; exit 125; fi
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    if [ "$word" = "$mark" ]; then word=$image mark=; fi
    set -- "$@" "$word"
    left=$((left - 1))
done
exec "$engine" "$@"
"""
APPTAINER_NAMED = r"""engine=$1 folder=$2 image=$3
shift 3
mkdir -p "${folder%/*}" && exec 9>>"$folder.lock" && flock 9 || exit 125
if [ ! -d "$folder" ]; then
    if [ -z "$image" ]; then echo "there is no container called ${folder##*/} on this node" >&2; exit 125; fi
    "$engine" build --sandbox "$folder" "$image" >&2 9>&- || exit 125
fi
exec 9>&-
exec "$engine" "$@"
"""
ENROOT = r"""engine=$1 name=$2 image=$3 keep=$4 users=$TMPDIR/$2.users
shift 4
exec 9>>"$users.lock" && flock 9 || exit 125
if ! "$engine" list | grep -Fqx -- "$name"; then
    case $image in
        "") echo "there is no container called ${name#warpdeck-} on this node" >&2; exit 125 ;;
        /*) file=$image ;;
        *) file=$TMPDIR/$name.sqsh; "$engine" import --output "$file" "$image" >&2 9>&- || exit 125 ;;
    esac
    "$engine" create --name "$name" "$file" >&2 9>&- || exit 125
fi
if [ "$keep" = keep ]; then exec 9>&-; exec "$engine" start "$@"; fi
echo one >>"$users"
exec 9>&-
"$engine" start "$@"
code=$?
exec 9>>"$users.lock" && flock 9
tail -n +2 "$users" >"$users.left" && mv "$users.left" "$users"
[ -s "$users" ] || "$engine" remove --force "$name" >/dev/null 2>&1 9>&-
exit "$code"
"""


@dataclass(frozen=True)
class Setting:
    """Where the container is to run. `paths` are the files and folders that it needs under their own names."""

    launch: str
    """A name that no other launch has."""
    work_dir: str
    home: str
    paths: Sequence[str]
    env: Sequence[str]
    gpus: bool
    pty: bool
    as_root: bool
    """The job's user is root on the node."""
    tasks: int = 1
    """So many of these containers begin at once here."""


def find_runtimes(path: str = PLACES) -> List[str]:
    """The runtimes that this node has."""
    return [name for name in TAKES if shutil.which(name, path=path)]


def contained(command: List[str], asked: Container, setting: Setting, *, path: str = PLACES) -> List[str]:
    """The command that runs `command` in the container. Raises LaunchError."""
    there = find_runtimes(path)
    if not there:
        raise LaunchError("this node has no container runtime: neither Enroot, Apptainer nor Podman")
    image = parse_image(asked.image, work_dir=setting.work_dir) if asked.image else None
    fitting = [name for name in there if image is None or image.kind in TAKES[name]]
    if image is not None and not fitting:
        raise LaunchError(
            f"{' and '.join(there)} on this node cannot run an image of the kind {image.kind}: {asked.image}"
        )
    engine = shutil.which(fitting[0], path=path) or fitting[0]
    return _BUILD[fitting[0]](engine, command, asked, setting, image)


def _podman(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    words = ["--cgroup-manager=cgroupfs", "run", "--cgroups=disabled", "--network=host", "--uts=host"]
    words += ["--ipc=host"] if os.path.isdir("/dev/mqueue") else ["--volume=/dev/shm:/dev/shm"]
    words += [f"--workdir={asked.workdir or setting.work_dir}", *_podman_limits()]
    words += [f"--volume={mount}" for mount in _mounts(asked, setting)]
    words += [f"--env={name}" for name in _passed(asked, setting)]
    words += [] if asked.entrypoint else ["--entrypoint="]
    words += [] if asked.writable else ["--read-only"]
    words += ["--interactive", "--tty"] if setting.pty else []
    if not setting.as_root:
        words += [] if asked.remap_root else ["--userns=keep-id"]
    if setting.gpus:
        _check_cdi()
        words += ["--device=nvidia.com/gpu=all"]  # others than the job's own are closed to it all the same
    if "PMI_FD" in setting.env:
        raise LaunchError(
            "podman on this node does not pass on what --mpi=pmi2 needs: start the program with mpiexec in it, or use Apptainer"
        )
    ready = [] if setting.as_root else ["/bin/sh", "-c", PODMAN_READY, "podman"]
    if not asked.name:
        assert image is not None
        return [*ready, engine, *words, "--rm", *for_podman(image), *command]
    if image is not None and image.kind == "folder":
        raise LaunchError("a folder as image cannot have a --container-name: it keeps its changes itself")
    if setting.tasks > 1:
        raise LaunchError(
            "with podman, which this node has, only one task on a node can be in a container that has a --container-name"
        )
    name, mark = NAMED + asked.name, "image of " + setting.launch
    source = for_podman(image)[0] if image is not None else ""
    script = ["/bin/sh", "-c", PODMAN_NAMED, "podman", engine, name, source, mark]
    return [*ready, *script, *words, f"--name={name}", mark, *command]


def _apptainer(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    words = ["run" if asked.entrypoint else "exec", f"--pwd={asked.workdir or setting.work_dir}"]
    words += [f"--bind={mount}" for mount in _mounts(asked, setting)]
    words += [] if asked.mount_home else ["--no-home"]
    words += ["--fakeroot"] if asked.remap_root and not setting.as_root else []
    words += ["--nv"] if setting.gpus else []
    source = for_apptainer(image) if image is not None else ""
    if not asked.name:
        words += ["--writable-tmpfs"] if asked.writable else []
        return [engine, *words, source, *command]
    folder = os.path.join(setting.home, ".local/share/warpdeck/containers", asked.name)
    words += ["--writable"] if asked.writable else []
    script = ["/bin/sh", "-c", APPTAINER_NAMED, "apptainer", engine, folder, source]
    return [*script, *words, folder, *command]


def _enroot(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    name = NAMED + (asked.name or setting.launch)
    words = ["--rw"] if asked.writable else []
    words += ["--root"] if asked.remap_root and not setting.as_root else []
    words += [part for mount in _mounts(asked, setting, flags="x-create=auto") for part in ("--mount", mount)]
    words += [part for each in _passed(asked, setting) for part in ("--env", each)]
    source = for_enroot(image) if image is not None else ""
    keep = "keep" if asked.name else "drop"
    inside = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', asked.workdir or setting.work_dir, *command]
    return ["/bin/sh", "-c", ENROOT, "enroot", engine, name, source, keep, *words, name, *inside]


_BUILD: Dict[str, Callable[[str, List[str], Container, Setting, Optional[Image]], List[str]]] = {
    "podman": _podman,
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "enroot": _enroot,
}


def _mounts(asked: Container, setting: Setting, *, flags: str = "") -> List[str]:
    """SRC:DST[:FLAGS] with flags joined by commas, as all three take them. Raises LaunchError."""
    own = [*setting.paths, *([setting.home] if asked.mount_home and setting.home else [])]
    given = [Mount(each, each) for each in own] + list(asked.mounts)
    made = []
    for mount in given:
        source = os.path.normpath(os.path.join(setting.work_dir, mount.source))
        if ":" in source or ":" in mount.target:
            raise LaunchError(f"the path {source} with a colon cannot be mounted in a container")
        options = [*mount.flags, *([flags] if flags else [])]
        made.append(f"{source}:{mount.target}" + (":" + ",".join(options) if options else ""))
    return made


def _passed(asked: Container, setting: Setting) -> List[str]:
    """The names of the variables that go along."""
    hidden = HOST_ONLY if asked.mount_home else HOST_ONLY | {"HOME"}
    wanted = {name for name in setting.env if name not in hidden and name.isidentifier()}
    ranks = OF_RANKS if "WORLD_SIZE" in wanted else ()
    return sorted(wanted.union(asked.env, OF_TASKS, ranks))


def _podman_limits() -> List[str]:
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
