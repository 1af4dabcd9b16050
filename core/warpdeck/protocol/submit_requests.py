"""Requests that submit jobs and their code; part of the protocol."""

from __future__ import annotations

from warpdeck.model import Request

from .request_base import Creating, Name, RequestMessage, Size
from .results import Result, StoredTree, SubmittedJob
from .site_rows import ForecastRow


class Submit(Creating[SubmittedJob], frozen=True, kw_only=True, tag="submit"):
    """Submit a job. It is answered after the database commit.

    Answer: {"job_id": int, "label": str, "tasks": int, "notes": [str]}
    """

    request: Request
    components: tuple[Request, ...] = ()
    """The second and later components of a heterogeneous job. All components are submitted or none."""


class DryRun(RequestMessage[ForecastRow], frozen=True, kw_only=True, tag="dry_run"):
    """Ask for the expected outcome of a Submit now.

    Nothing is submitted, and the snapshot need not be uploaded.

    Answer: site_rows.ForecastRow
    """

    request: Request
    components: tuple[Request, ...] = ()


class HaveTree(RequestMessage[StoredTree], frozen=True, kw_only=True, tag="have_tree"):
    """Ask whether this user's packed tree is in the controller's cache.

    Answer: {"have": bool, "sha256": str, "size_bytes": int}
    """

    tree: Name


class PutTree(RequestMessage[Result], frozen=True, kw_only=True, tag="put_tree"):
    """Upload a packed tree (tar.gz) in data frames on stream `id`, followed by {"t": "end", "stream": id}.

    Answer, when the tree is stored: {}
    """

    tree: Name
    sha256: Name
    size_bytes: Size
