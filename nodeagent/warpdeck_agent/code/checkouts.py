"""Work folders of launches: a checkout of the submitted tree, or an empty folder.

The agent creates the folder and never looks into it. A child process that runs as the job's user unpacks the
tree (see `unpacking`).
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Dict

from warpdeck_agent.isolation.containment_handle import ContainmentHandle
from warpdeck_agent.linux.own_program import OWN, SYSTEM_PATH, own_command
from warpdeck_agent.linux.refusals import full_disk
from warpdeck_agent.users.accounts import UserIds, groups_of
from warpdeck_agent.users.user_children import ChildFailed, UserChild, UserChildren
from warpdeck_agent.wire.jsontext import dumps, loads
from warpdeck_agent.wire.messages import Launch

from .trees import TreeError, TreeStore

UNPACK_S = 300.0
"""How long a tree of the largest size may take on a slow disk, in seconds."""
MAX_ANSWER_BYTES = 64 * 1024
NO_FOLDER = "no folder"
"""Content of a workspace's ".ready" file if the tree does not contain the submit folder."""


class Checkouts:
    """Creates work folders. `children` runs the processes that unpack. `identity` is the agent's identity."""

    def __init__(self, trees: TreeStore, children: UserChildren, *, identity: str) -> None:
        self._trees = trees
        self._children = children
        self._identity = identity
        self._unpacking: Dict[str, asyncio.Lock] = {}

    def empty(self, request: Launch, user_ids: UserIds) -> str:
        """Return a new folder for a launch that has no tree."""
        return self._trees.empty(f"{request.workspace}-{request.job_id}", uid=user_ids.uid, gid=user_ids.gid)

    async def folder(self, request: Launch, user_ids: UserIds, containment: ContainmentHandle) -> str:
        """Return the submit folder in the checkout.

        If the tree does not contain that folder, return the checkout itself. The tree is unpacked unless an
        earlier task of the array did so. Raises TreeError, LaunchError or OSError.
        """
        assert request.tree is not None
        async with self._unpacking.setdefault(request.workspace, asyncio.Lock()):
            target = self._trees.empty(request.workspace, uid=user_ids.uid, gid=user_ids.gid)
            folder = os.path.normpath(os.path.join(target, request.tree.subdir))
            if folder != target and not folder.startswith(target + os.sep):
                raise TreeError("the submit folder is outside of the snapshot")
            state = "" if request.restarts else _read(target + ".ready")
            if not state:
                state = await self._unpack(request, user_ids, containment, target=target, folder=folder)
                with open(target + ".ready", "w", encoding="ascii") as file:
                    file.write(state)
        return target if state == NO_FOLDER else folder

    async def _unpack(
        self, request: Launch, user_ids: UserIds, containment: ContainmentHandle, *, target: str, folder: str
    ) -> str:
        """Unpack the tree and return the content of the ".ready" file.

        Other files that jobs wrote there stay.
        """
        tree = request.tree
        assert tree is not None
        order = {
            "target": target,
            "folder": folder,
            "root": tree.root,
            "links": tree.links if request.cwd_visible else [],
            "account": None
            if user_ids.uid == os.geteuid()
            else [user_ids.uid, user_ids.gid, groups_of(request.user, gid=user_ids.gid)],
        }
        packed = os.open(self._trees.path(tree.sha256), os.O_RDONLY | os.O_CLOEXEC)
        try:
            child = UserChild(
                argv=[*own_command(), "unpack"],
                env={"PATH": SYSTEM_PATH, OWN: self._identity},
                order=dumps(order).encode("utf-8", "surrogatepass") + b"\n",
                containment=containment,
                limit_s=UNPACK_S,
                most_bytes=MAX_ANSWER_BYTES,
                stdin=packed,
            )
            output = await self._children.prepare(
                child, key=(request.job_id, request.restarts), uid=user_ids.uid
            )
        except ChildFailed as error:
            raise TreeError(f"cannot unpack the snapshot: the process that unpacks it {error}") from error
        finally:
            os.close(packed)
        answer = _parsed(output)
        if answer.get("full"):
            raise full_disk(os.path.dirname(target))
        if answer.get("error"):
            raise TreeError(str(answer["error"]))
        return "folder" if answer.get("has_folder") else NO_FOLDER


def _parsed(output: bytes) -> Dict[str, Any]:
    """Return the child's answer. Raises TreeError if the child gave no valid one."""
    try:
        found = loads(output.decode())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TreeError("cannot unpack the snapshot: the process that unpacks it sent no answer")
    return found


def _read(path: str) -> str:
    """Return the text of a small file, "" if it does not exist."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""
