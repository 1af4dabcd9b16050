"""Reads the measurements that jobstats (Princeton's job statistics) leaves in a job's AdminComment.

The comment is JS1: followed by base64 of gzip of JSON, with the GPUs' mean utilization in percent by node and GPU, and
the memory in bytes. Source: https://github.com/PrincetonUniversity/jobstats.
"""

from __future__ import annotations

import base64
import binascii
import zlib

import msgspec

from warpdeck.model import GpuUsage

PREFIX = "JS1:"
MAX_JSON_BYTES = 4 * 1024 * 1024
IDLE_PCT = 5.0


class _Node(msgspec.Struct):
    gpu_utilization: dict[str, float] = {}
    gpu_used_memory: dict[str, float] = {}


class _Statistics(msgspec.Struct):
    nodes: dict[str, _Node] = {}
    total_time: float = 0.0
    """Run time of the job in seconds."""


_DECODER = msgspec.json.Decoder(_Statistics)


def gpu_usage(comment: str) -> GpuUsage | None:
    """Return the GPU usage that the comment holds, or None. A damaged comment counts as none."""
    if not comment.startswith(PREFIX):
        return None
    try:
        packed = base64.b64decode(comment[len(PREFIX) :], validate=True)
        text = zlib.decompressobj(wbits=31).decompress(packed, MAX_JSON_BYTES)
        found = _DECODER.decode(text)
    except (binascii.Error, zlib.error, msgspec.MsgspecError, ValueError):
        return None
    utils = [util for node in found.nodes.values() for util in node.gpu_utilization.values()]
    if not utils:
        return None
    seconds = max(0.0, found.total_time)
    return GpuUsage(
        seconds=seconds * len(utils),
        busy_s=sum(seconds * min(100.0, max(0.0, util)) / 100 for util in utils),
        idle_s=sum(seconds for util in utils if util < IDLE_PCT),
        mem_peak_bytes=int(
            max((sum(node.gpu_used_memory.values()) for node in found.nodes.values()), default=0)
        ),
        source="jobstats",
    )
