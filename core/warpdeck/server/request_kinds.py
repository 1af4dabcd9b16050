"""The kinds of requests that are counted differently from short requests."""

from __future__ import annotations

from warpdeck.protocol import requests

STREAMS = (
    requests.PutTree,
    requests.Log,
    requests.Attach,
    requests.Tunnel,
    requests.Forward,
    requests.Subscribe,
    requests.AwaitEnds,
    requests.Run,
    requests.Srun,
    requests.SrunAttach,
    requests.Salloc,
    requests.SallocAttach,
    requests.Command,
)
"""Requests that open a stream."""
PAGED = (
    requests.Jobs,
    requests.Records,
    requests.Nodes,
    requests.NodesAt,
    requests.Steps,
    requests.Priorities,
    requests.Audit,
)
"""Requests that are answered in pages."""
