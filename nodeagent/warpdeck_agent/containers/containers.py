"""Runs a job's command in a container, with a runtime of the node: Enroot, Apptainer (Singularity) or Podman.

The runtime runs as the job's user under the job's supervisor and in the job's cgroups, and creates none of
its own. So limits, the end of the job and its accounting are the same as without a container. The network is
the node's, and so are the GPUs that the job may use. The job's working folder and its TMPDIR have the same
paths in the container, and the command starts in the working folder.

The job's environment is passed on, except search paths, which the image sets itself; --container-env names
variables that are always passed on. Values never appear on a command line. The options are those of pyxis;
the README lists the differences.
"""

from __future__ import annotations

import os
import shutil
from typing import Callable, Dict, List, Optional

from warpdeck_agent.linux.own_program import SYSTEM_PATH
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Container

from .container_environment import HOST_ONLY, NAMED, Setting, mounts, passed
from .images import Image, for_apptainer, for_enroot, parse_image
from .podman import podman

PLACES = SYSTEM_PATH + ":/usr/local/bin"
TAKES = {
    "enroot": ("registry", "docker", "podman", "squashfs"),
    "apptainer": ("registry", "docker", "squashfs", "sif", "archive", "folder"),
    "singularity": ("registry", "docker", "squashfs", "sif", "archive", "folder"),
    "podman": ("registry", "docker", "podman", "archive", "folder"),
}
"""The runtimes in order of preference, with the kinds of image that each can run."""
APPTAINER = r"""engine=$1
shift
exec "$engine" "$@"
"""
APPTAINER_NAMED = r"""engine=$1 folder=$2 image=$3
shift 3
mkdir -p "${folder%/*}" && exec 9>>"$folder.lock" && flock 9 || exit 125
if [ ! -d "$folder" ]; then
    if [ -z "$image" ]; then echo "there is no container called ${folder##*/} on this node" >&2; exit 125; fi
    "$engine" build --sandbox "$folder" "$image" >&2 9>&- || exit 125
fi
for word; do
    case $word in
        "$folder") break ;;
        --bind=*) word=${word#--bind=} from=${word%%:*} word=${word#*:} to=$folder${word%%:*} ;;
        *) continue ;;
    esac
    [ ! -e "$to" ] || continue
    if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}" && : >"$to"; fi || exit 125
done
exec 9>&-
exec "$engine" "$@"
"""
"""Shell script that runs a named Apptainer container. It creates missing mount points, because Apptainer does
not do that in a writable container.
"""
ENROOT = r"""engine=$1 name=$2 image=$3 keep=$4 users=$TMPDIR/$2.users
shift 4
trap : TERM INT HUP QUIT USR1 USR2 ALRM
run=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
if [ ! -d "$run" ] || [ ! -O "$run" ]; then run=$TMPDIR/.enroot; fi
export XDG_RUNTIME_DIR="$run"
[ "$keep" = keep ] || export ENROOT_DATA_PATH="$TMPDIR/.enroot/data"
(umask 077 && mkdir -p "$TMPDIR/.enroot") || exit 125
exec 9>>"$users.lock" && flock 9 || exit 125
if ! "$engine" list 9>&- | grep -Fqx -- "$name"; then
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
"""Shell script that runs a task with Enroot. It replaces Enroot's default folder for runtime data, which
belongs
to root.

A container without a name is stored in the job's TMPDIR, so it is removed with the job even if no process is
left to remove it.
"""
FSTAB = {ord(each): f"\\{ord(each):03o}" for each in "\\ \t\n"}
"""Escapes of fstab(5) for characters that would end a field, as Enroot reads its mounts."""


def find_runtimes(path: str = PLACES) -> List[str]:
    """Return the runtimes that this node has."""
    return [name for name in TAKES if shutil.which(name, path=path)]


def contained(command: List[str], asked: Container, setting: Setting, *, path: str = PLACES) -> List[str]:
    """Return the command that runs `command` in the container. Raises LaunchError."""
    there = find_runtimes(path)
    if not there:
        raise LaunchError("this node has no container runtime: install Enroot, Apptainer or Podman")
    image = parse_image(asked.image, work_dir=setting.work_dir) if asked.image else None
    fitting = [name for name in there if image is None or image.kind in TAKES[name]]
    if image is not None and not fitting:
        raise LaunchError(
            f"{' and '.join(there)} on this node cannot run an image of the kind {image.kind}: {asked.image}"
        )
    engine = shutil.which(fitting[0], path=path) or fitting[0]
    return _BUILD[fitting[0]](engine, command, asked, setting, image)


def _apptainer(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    words = ["run" if asked.entrypoint else "exec", f"--pwd={asked.workdir or setting.work_dir}"]
    words += [f"--bind={mount}" for mount in mounts(asked, setting)]
    words += [] if asked.mount_home else ["--no-home"]
    words += ["--fakeroot"] if asked.remap_root and not setting.as_root else []
    words += ["--nv"] if setting.gpus else []
    source = for_apptainer(image) if image is not None else ""
    shell = ["/bin/sh", "-c"]
    variables = _search_paths(os.path.basename(engine), asked)
    if not asked.name:
        words += ["--writable-tmpfs"] if asked.writable else []
        return [*shell, variables + APPTAINER, "apptainer", engine, *words, source, *command]
    folder = os.path.join(setting.home, ".local/share/warpdeck/containers", asked.name)
    words += ["--writable"] if asked.writable else []
    script = [*shell, variables + APPTAINER_NAMED, "apptainer", engine, folder, source]
    return [*script, *words, folder, *command]


def _search_paths(engine: str, asked: Container) -> str:
    """Return shell lines that handle the search paths and other variables in HOST_ONLY.

    Apptainer passes on all variables except PATH and LD_LIBRARY_PATH, which it takes from APPTAINERENV_*
    variables. So the variables in HOST_ONLY are unset. If --container-env names one, it is set as APPTAINERENV_*.
    """
    lines = []
    for name in sorted(HOST_ONLY):
        if name in asked.env:
            lines.append(f'[ -z "${{{name}+x}}" ] || export {engine.upper()}ENV_{name}="${name}"\n')
        if name != "PATH":  # Apptainer needs PATH to find its own helpers
            lines.append(f"unset {name}\n")
    return "".join(lines)


def _enroot(
    engine: str, command: List[str], asked: Container, setting: Setting, image: Optional[Image]
) -> List[str]:
    name = NAMED + (asked.name or setting.launch)
    words = ["--rw"] if asked.writable else []
    words += ["--root"] if asked.remap_root and not setting.as_root else []
    for mount in mounts(asked, setting, flags="rbind,x-create=auto"):
        words += ["--mount", mount.translate(FSTAB)]
    words += [part for each in passed(asked, setting) for part in ("--env", each)]
    source = for_enroot(image) if image is not None else ""
    keep = "keep" if asked.name else "drop"
    inside = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', asked.workdir or setting.work_dir, *command]
    return ["/bin/sh", "-c", ENROOT, "enroot", engine, name, source, keep, *words, name, *inside]


_BUILD: Dict[str, Callable[[str, List[str], Container, Setting, Optional[Image]], List[str]]] = {
    "podman": podman,
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "enroot": _enroot,
}
