"""Adapt the request of a job that was submitted by a process of another job. Pure functions.

A process that runs in a checkout of a code snapshot uses paths inside the checkout. Each of these paths is
replaced by the path on the submit host from which the snapshot was taken. The new job gets the same snapshot
and starts in the same folder of it. A job that submits itself therefore always runs the same code, even if
the user edits the code in the meantime. A job submitted from a folder outside the checkout gets no snapshot
and runs in that folder.
"""

from __future__ import annotations

import os.path

import msgspec

from warpdeck.model import Job, NodeName, Request


def nested_submission(request: Request, job: Job, node: NodeName) -> Request:
    """Return the request that a process of that job made on that node, as if it had been made on the submit
    host.
    """
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
        submit_dir=_on_submit_host(request.submit_dir, top, root),
        chdir=_on_submit_host(request.chdir, top, root),
        output=_on_submit_host(request.output, top, root),
        error=_on_submit_host(request.error, top, root),
        snapshot=snapshot if inside is not None else None,
        in_place=job.request.in_place,
    )


def _roots(job: Job, here: str) -> tuple[str, str]:
    """Return the top folder of the job's code on the node, and the matching folder on the submit host."""
    request = job.request
    snapshot = request.snapshot
    if snapshot is None:
        return here, request.chdir or request.submit_dir
    subdir = snapshot.subdir
    return (here.removesuffix("/" + subdir) if subdir else here), snapshot.root


def _below(path: str, top: str) -> str | None:
    """Return the path relative to the top folder; None if it is not below it."""
    if path == top or path.startswith(top.rstrip("/") + "/"):
        return os.path.relpath(path, top)
    return None


def _on_submit_host(path: str, top: str, root: str) -> str:
    inside = _below(path, top) if path else None
    return path if inside is None else os.path.normpath(os.path.join(root, inside))
