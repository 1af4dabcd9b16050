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

from .container_environment import HOST_ONLY, NAME_PREFIX, ContainerContext, mounts, passed_variables
from .images import Image, for_apptainer, for_enroot, parse_image
from .podman import podman

SEARCH_PATH = SYSTEM_PATH + ":/usr/local/bin"
IMAGE_KINDS = {
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
"""Shell script that runs a task with Enroot.

It replaces Enroot's default folder for runtime data, which belongs to root. A container without a name is
stored in the job's TMPDIR, so it is removed with the job even if no process is left to remove it.
"""
FSTAB = {ord(each): f"\\{ord(each):03o}" for each in "\\ \t\n"}
"""Escapes of fstab(5) for characters that would end a field, as Enroot reads its mounts."""


def find_runtimes(path: str = SEARCH_PATH) -> List[str]:
    """Return the runtimes that this node has."""
    return [name for name in IMAGE_KINDS if shutil.which(name, path=path)]


def container_command(
    command: List[str], spec: Container, context: ContainerContext, *, path: str = SEARCH_PATH
) -> List[str]:
    """Return the command that runs `command` in the container. Raises LaunchError."""
    there = find_runtimes(path)
    if not there:
        raise LaunchError("this node has no container runtime: install Enroot, Apptainer or Podman")
    image = parse_image(spec.image, work_dir=context.work_dir) if spec.image else None
    fitting = [name for name in there if image is None or image.kind in IMAGE_KINDS[name]]
    if image is not None and not fitting:
        raise LaunchError(
            f"{' and '.join(there)} on this node cannot run an image of the kind {image.kind}: {spec.image}"
        )
    engine = shutil.which(fitting[0], path=path) or fitting[0]
    return _BUILD[fitting[0]](engine, command, spec, context, image)


def _apptainer(
    engine: str, command: List[str], spec: Container, context: ContainerContext, image: Optional[Image]
) -> List[str]:
    options = ["run" if spec.entrypoint else "exec", f"--pwd={spec.workdir or context.work_dir}"]
    options += [f"--bind={mount}" for mount in mounts(spec, context)]
    options += [] if spec.mount_home else ["--no-home"]
    options += ["--fakeroot"] if spec.remap_root and not context.as_root else []
    options += ["--nv"] if context.gpus else []
    source = for_apptainer(image) if image is not None else ""
    shell = ["/bin/sh", "-c"]
    variables = _search_paths(os.path.basename(engine), spec)
    if not spec.name:
        options += ["--writable-tmpfs"] if spec.writable else []
        return [*shell, variables + APPTAINER, "apptainer", engine, *options, source, *command]
    folder = os.path.join(context.home, ".local/share/warpdeck/containers", spec.name)
    options += ["--writable"] if spec.writable else []
    script = [*shell, variables + APPTAINER_NAMED, "apptainer", engine, folder, source]
    return [*script, *options, folder, *command]


def _search_paths(engine: str, spec: Container) -> str:
    """Return shell lines that handle the search paths and other variables in HOST_ONLY.

    Apptainer passes on all variables except PATH and LD_LIBRARY_PATH, which it takes from APPTAINERENV_*
    variables. So the variables in HOST_ONLY are unset. If --container-env names one, it is set as APPTAINERENV_*.
    """
    lines = []
    for name in sorted(HOST_ONLY):
        if name in spec.env:
            lines.append(f'[ -z "${{{name}+x}}" ] || export {engine.upper()}ENV_{name}="${name}"\n')
        if name != "PATH":  # Apptainer needs PATH to find its own helpers
            lines.append(f"unset {name}\n")
    return "".join(lines)


def _enroot(
    engine: str, command: List[str], spec: Container, context: ContainerContext, image: Optional[Image]
) -> List[str]:
    name = NAME_PREFIX + (spec.name or context.launch)
    options = ["--rw"] if spec.writable else []
    options += ["--root"] if spec.remap_root and not context.as_root else []
    for mount in mounts(spec, context, flags="rbind,x-create=auto"):
        options += ["--mount", mount.translate(FSTAB)]
    options += [part for each in passed_variables(spec, context) for part in ("--env", each)]
    source = for_enroot(image) if image is not None else ""
    keep = "keep" if spec.name else "drop"
    inside = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', spec.workdir or context.work_dir, *command]
    return ["/bin/sh", "-c", ENROOT, "enroot", engine, name, source, keep, *options, name, *inside]


_BUILD: Dict[str, Callable[[str, List[str], Container, ContainerContext, Optional[Image]], List[str]]] = {
    "podman": podman,
    "apptainer": _apptainer,
    "singularity": _apptainer,
    "enroot": _enroot,
}
