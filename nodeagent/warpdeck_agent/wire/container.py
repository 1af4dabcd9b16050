"""What a job's or a step's processes run in, as pyxis has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List


@dataclass(frozen=True)
class Mount:
    """A path of the node (relative: to the job's working folder) at a place in a container."""

    source: str
    target: str
    flags: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Container:
    """What the job's processes run in. `image` as pyxis spells it; "" is that of an earlier container called `name`."""

    image: str = ""
    name: str = ""
    mounts: List[Mount] = field(default_factory=list)
    workdir: str = ""
    env: List[str] = field(default_factory=list)
    mount_home: bool = False
    remap_root: bool = False
    entrypoint: bool = False
    writable: bool = True
