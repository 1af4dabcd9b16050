"""The context in which a container runs: the node's folders that are mounted in it, and its variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Sequence

from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import Container, Mount

NAMED = "warpdeck-"
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
OF_TASKS = ("SLURM_PROCID", "SLURM_LOCALID")
OF_RANKS = ("RANK", "LOCAL_RANK")
"""Variables that the supervisor adds."""


@dataclass(frozen=True)
class Setting:
    """The context in which a container runs.

    `paths` are the files and folders that it needs under their own names.
    """

    launch: str
    """A name that is unique to the launch."""
    work_dir: str
    home: str
    paths: Sequence[str]
    env: Sequence[str]
    gpus: bool
    pty: bool
    as_root: bool
    """Whether the job's user is root on the node."""
    tasks: int = 1
    """Number of containers like this that start at once on this node."""


def mounts(asked: Container, setting: Setting, *, flags: str = "") -> List[str]:
    """Return the mounts as SRC:DST[:FLAGS] with comma-separated flags, which all three runtimes accept.

    Raises LaunchError.
    """
    own = [*setting.paths, *([setting.home] if asked.mount_home and setting.home else [])]
    given = [Mount(each, each) for each in own] + list(asked.mounts)
    made = []
    for mount in given:
        source = os.path.normpath(os.path.join(setting.work_dir, mount.source))
        if ":" in source or ":" in mount.target:
            raise LaunchError(f"cannot mount {source} in a container: the path contains a colon")
        options = [*mount.flags, *([flags] if flags else [])]
        made.append(f"{source}:{mount.target}" + (":" + ",".join(options) if options else ""))
    return made


def passed(asked: Container, setting: Setting) -> List[str]:
    """Return the names of the variables that are passed into the container."""
    hidden = HOST_ONLY if asked.mount_home else HOST_ONLY | {"HOME"}
    wanted = {name for name in setting.env if name not in hidden and name.isidentifier()}
    ranks = OF_RANKS if "WORLD_SIZE" in wanted else ()
    return sorted(wanted.union(asked.env, OF_TASKS, ranks))
