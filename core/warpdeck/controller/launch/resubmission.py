"""A job that a job submits: the code is the running job's own tree, and its folder the one that the tree was taken from. Pure.

What runs in a checkout sees paths that end with it. So a folder inside the checkout is named as the submit host has it, and the
new job gets the same snapshot, entered at that folder. A job that submits itself again runs the same code for ever, whatever is
edited meanwhile. From a folder outside the checkout there is nothing to carry on: the job runs there.
"""

from __future__ import annotations

import os.path

import msgspec

from warpdeck.model import Job, NodeName, Request


def carried_on(request: Request, job: Job, node: NodeName) -> Request:
    """The request of a process of that job on that node, as if it were made on the submit host."""
    here = next((share.work_dir for share in job.shares if share.node == node), "")
    top, root = _roots(job, here)
    if not here or request.snapshot is not None:
        return request
    folder = request.chdir or request.submit_dir
    inside = _below(folder, top)
    snapshot = job.request.snapshot
    if snapshot is not None and inside is not None:
        snapshot = msgspec.structs.replace(snapshot, subdir="" if inside == "." else inside)
    return msgspec.structs.replace(
        request,
        submit_dir=_moved(request.submit_dir, top, root),
        chdir=_moved(request.chdir, top, root),
        output=_moved(request.output, top, root),
        error=_moved(request.error, top, root),
        snapshot=snapshot if inside is not None else None,
        in_place=job.request.in_place,
    )


def _roots(job: Job, here: str) -> tuple[str, str]:
    """The top of what the job works in on the node, and the same folder on the submit host."""
    request = job.request
    snapshot = request.snapshot
    if snapshot is None:
        return here, request.chdir or request.submit_dir
    subdir = snapshot.subdir
    return (here.removesuffix("/" + subdir) if subdir else here), snapshot.root


def _below(path: str, top: str) -> str | None:
    """The path relative to the top, None for one that is not below it."""
    if path == top or path.startswith(top.rstrip("/") + "/"):
        return os.path.relpath(path, top)
    return None


def _moved(path: str, top: str, root: str) -> str:
    inside = _below(path, top) if path else None
    return path if inside is None else os.path.normpath(os.path.join(root, inside))
