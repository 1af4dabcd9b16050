"""The container in which a job's or a step's processes run, with the same options as pyxis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List


@dataclass(frozen=True)
class Mount:
    """A path of the node that is mounted at a path in a container.

    A relative `source` is relative to the job's working folder.
    """

    source: str
    target: str
    flags: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Container:
    """A container specification.

    `image` is spelled as for pyxis; "" means the image of an earlier container called `name`.
    """

    image: str = ""
    name: str = ""
    mounts: List[Mount] = field(default_factory=list)
    workdir: str = ""
    env: List[str] = field(default_factory=list)
    mount_home: bool = False
    remap_root: bool = False
    entrypoint: bool = False
    writable: bool = True
