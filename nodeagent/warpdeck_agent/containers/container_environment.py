"""The context in which a container runs: the node's folders that are mounted in it, and its variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Sequence

from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Container, Mount

NAME_PREFIX = "warpdeck-"
"""Prefix of the names of kept containers in the runtime's own list."""
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
"""Variables that refer to the node's file system."""
TASK_VARIABLES = ("SLURM_PROCID", "SLURM_LOCALID")
RANK_VARIABLES = ("RANK", "LOCAL_RANK")
"""Variables that the supervisor adds."""


@dataclass(frozen=True)
class ContainerContext:
    """The context in which a container runs.

    `paths` are files and folders of the node that are mounted in the container under the same paths.
    """

    launch: str
    """The name of the launch or step, which no other one on this node has."""
    work_dir: str
    home: str
    paths: Sequence[str]
    env: Sequence[str]
    gpus: bool
    pty: bool
    as_root: bool
    """Whether the job's user is root on the node."""
    tasks: int = 1
    """Number of processes on this node that start at once with the same container options."""


def mounts(spec: Container, context: ContainerContext, *, flags: str = "") -> List[str]:
    """Return the mounts as SRC:DST[:FLAGS] with comma-separated flags, which all three runtimes accept.

    Raises LaunchError.
    """
    own = [*context.paths, *([context.home] if spec.mount_home and context.home else [])]
    given = [Mount(each, each) for each in own] + list(spec.mounts)
    made = []
    for mount in given:
        source = os.path.normpath(os.path.join(context.work_dir, mount.source))
        if ":" in source or ":" in mount.target:
            raise LaunchError(f"cannot mount {source} in a container: the path contains a colon")
        options = [*mount.flags, *([flags] if flags else [])]
        made.append(f"{source}:{mount.target}" + (":" + ",".join(options) if options else ""))
    return made


def passed_variables(spec: Container, context: ContainerContext) -> List[str]:
    """Return the names of the variables that are passed into the container."""
    hidden = HOST_ONLY if spec.mount_home else HOST_ONLY | {"HOME"}
    wanted = {name for name in context.env if name not in hidden and name.isidentifier()}
    ranks = RANK_VARIABLES if "WORLD_SIZE" in wanted else ()
    return sorted(wanted.union(spec.env, TASK_VARIABLES, ranks))
