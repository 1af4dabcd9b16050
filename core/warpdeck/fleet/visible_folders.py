"""Decides whether a folder of the submit host is the same folder on a node, and remembers the answer with the node's connection."""

from __future__ import annotations

import contextlib
import logging
from pathlib import PurePath

from warpdeck_agent.wire import messages as wire

from .channel import PROBE_S
from .node_connection import NodeConnection
from .userfiles import UserFiles

log = logging.getLogger("warpdeck.fleet")


async def sees_folder(link: NodeConnection, launch: wire.Launch, files: UserFiles) -> bool:
    """Return whether the launch's working folder is the same folder on the node.

    A folder that does not exist is the same if the nearest existing folder above it is. A launch with a
    code snapshot runs in a checkout then.
    """
    for folder in (launch.cwd, *map(str, PurePath(launch.cwd).parents)):
        with contextlib.suppress(FileNotFoundError):
            return await _is_visible(link, folder, launch.uid, files)
        if launch.tree is not None:
            break
    return False


async def _is_visible(link: NodeConnection, folder: str, uid: int, files: UserFiles) -> bool:
    """Return whether the folder is the same folder on the node.

    A helper process makes a file in it here as the user, and the node looks for it. Raises FileNotFoundError.
    """
    if link.transport is not None and link.transport.is_local:
        return True
    known = link.visible.get((folder, uid))
    if known is None:
        try:
            found = await _probe(link, folder, uid, files)
        except TimeoutError:
            return False  # Only for this launch: a node that is slow now is asked again for the next one.
        if found is None:
            return True
        known = link.visible[folder, uid] = found
    return known


async def _probe(link: NodeConnection, folder: str, uid: int, files: UserFiles) -> bool | None:
    """Return whether the node sees the folder, or None if the folder does not answer there.

    Raises TimeoutError if the node, or this host's own file system, does not answer, and FileNotFoundError
    if the folder does not exist here.
    """
    try:
        async with files.probe(folder, uid=uid, answer_s=PROBE_S) as name:
            return link.channel is not None and await link.channel.probe(folder, name, uid=uid)
    except (TimeoutError, FileNotFoundError):
        raise
    except OSError as error:
        log.debug("no probe in %s: %s", folder, error)
        return False
