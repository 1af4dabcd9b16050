"""The CPUs, memory and GPUs that jobs have on each node, as `scontrol --oneliner --details show job` prints them.

A record of a job begins with "JobId=12 " at the start of a line. It contains a block such as "Nodes=n[1-2] CPU_IDs=0-3
Mem=200 GRES=gpu:a100:2(IDX:0-1)" for each group of nodes, between texts that users choose: names and comments may hold
line breaks, whole records and blocks. A GPU of a job therefore counts as known only if all of these are true:

1. Exactly one record of the output begins with the number of the job. Slurm prints each job once, so this one is Slurm's.
2. No block outside of this record names the GPU. Each job that has GPUs has a block of Slurm, and no user can remove it.
   A job that claims a GPU of another job therefore gets nothing.
3. The blocks of the record name each node of the job once, and as many GPUs as squeue tells.
4. The node reports the GPU as in use (GresUsed), so a job cannot claim a free one instead of its own.

With such texts a user can prevent that a GPU becomes known, but cannot make a wrong one known. The CPUs and the memory
count if their sums over the nodes are those that squeue tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import UNKNOWN_GPU, Allocation, Job, JobId, NodeName, Share
from warpdeck.notation.values.hostlist import expand

MIB = 1024 * 1024
MAX_NODES = 300_000
"""Maximum number of nodes in all blocks together. A user may write a hostlist of any length into a comment."""
MAX_NUMBERS = 4096
"""Maximum number of CPUs or GPUs of a job on one node."""
_START = re.compile(r"JobId=(\d{1,18}) ")
_BLOCK = re.compile(r"(?:^| )Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d{1,18}) GRES=(\S*)")
_GPU = re.compile(r"(?:^|,)gpu(?::[^:(,]+)?:(\d{1,9})\(IDX:([0-9,-]+)\)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class NodeClaim(NamedTuple):
    """The resources of a job on a node, as a block of its record names them."""

    node: NodeName
    cpus: int
    mem_bytes: int
    gpus: tuple[int, ...]


class Claims(NamedTuple):
    """The blocks of the records that are unambiguous, and the GPUs (node and index) that several records name."""

    jobs: Mapping[JobId, tuple[NodeClaim, ...]]
    disputed: Collection[tuple[NodeName, int]]


NO_CLAIMS = Claims({}, frozenset())


class AllocationReader:
    """Reads the output in pieces, because it has 1,300 bytes for each job of the queue."""

    def __init__(self) -> None:
        self._rest = ""
        """Text behind the last complete line."""
        self._record = 0
        self._begun: set[int] = set()
        self._ambiguous: set[int] = set()
        """Numbers with which several records begin."""
        self._blocks: dict[int, list[tuple[str, str, str, str]]] = {}

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)

    def close(self) -> Claims:
        """Return what the complete output says."""
        self._line(self._rest)
        owners: dict[tuple[NodeName, int], int] = {}
        disputed: set[tuple[NodeName, int]] = set()
        jobs: dict[JobId, tuple[NodeClaim, ...]] = {}
        left = MAX_NODES
        for number, blocks in self._blocks.items():
            claims = []
            for block in blocks:
                some = _claims(*block)
                left -= len(some)
                if left < 0:
                    return NO_CLAIMS
                claims += some
            for claim in claims:
                for gpu in claim.gpus:
                    if owners.setdefault((claim.node, gpu), number) != number:
                        disputed.add((claim.node, gpu))
            if number in self._begun and number not in self._ambiguous:
                jobs[JobId(number)] = tuple(claims)
        return Claims(jobs, frozenset(disputed))

    def _line(self, line: str) -> None:
        if match := _START.match(line):
            self._record = int(match[1])
            if self._record in self._begun:
                self._ambiguous.add(self._record)
            self._begun.add(self._record)
        if " CPU_IDs=" in line and (found := _BLOCK.findall(line)):
            self._blocks.setdefault(self._record, []).extend(found)


def confirmed(
    job: Job, claims: Claims, in_use: Mapping[NodeName, Collection[int]] | None
) -> Allocation | None:
    """Return the allocation of a running job with all facts that are sure.

    `in_use` has the GPUs in use by node. None means that `claims` come from an answer about this job alone, in which only
    its own user could have written anything.
    """
    if job.allocation is None:
        return None
    found = {claim.node: claim for claim in claims.jobs.get(job.id, ())}
    shares = job.allocation.shares
    if len(found) != len(claims.jobs.get(job.id, ())) or found.keys() != {share.node for share in shares}:
        return job.allocation
    ordered = [found[share.node] for share in shares]
    if sum(claim.cpus for claim in ordered) == sum(share.cpus for share in shares):
        shares = _replaced(shares, [{"cpus": claim.cpus} for claim in ordered])
    # The memory of the shares was divided evenly, so its sum may be smaller by a remainder.
    surplus = sum(claim.mem_bytes for claim in ordered) - sum(share.mem_bytes for share in shares)
    if 0 <= surplus < len(shares):
        shares = _replaced(shares, [{"mem_bytes": claim.mem_bytes} for claim in ordered])
    if _are_sure(ordered, job.allocation.gpu_count(), claims.disputed, in_use):
        uuid = next(each for share in shares for each in share.gpu_uuids)
        named = [{"gpus": claim.gpus, "gpu_uuids": (uuid,) * len(claim.gpus)} for claim in ordered]
        shares = _replaced(shares, named)
    return Allocation(shares=shares)


def has_unknown_gpus(job: Job) -> bool:
    """Return whether only the number of GPUs is known that the job has."""
    return job.allocation is not None and any(UNKNOWN_GPU in share.gpus for share in job.allocation.shares)


def _are_sure(
    claims: Sequence[NodeClaim],
    count: int,
    disputed: Collection[tuple[NodeName, int]],
    in_use: Mapping[NodeName, Collection[int]] | None,
) -> bool:
    named = [(claim.node, gpu) for claim in claims for gpu in claim.gpus]
    if not count or len(named) != count or len(set(named)) != count:
        return False
    if in_use is None:
        return True
    return all(gpu in in_use.get(node, ()) and (node, gpu) not in disputed for node, gpu in named)


def _replaced(shares: Sequence[Share], changes: Iterable[Mapping[str, object]]) -> tuple[Share, ...]:
    return tuple(
        msgspec.structs.replace(share, **fields) for share, fields in zip(shares, changes, strict=True)
    )


def _claims(nodes: str, cpus: str, mem: str, gres: str) -> list[NodeClaim]:
    """Return the claims of a block. One that Slurm cannot have printed has none."""
    try:
        names = expand(nodes)
        cpu_count = len(numbers(cpus))
        gpus = tuple(gpu for _, indexes in _GPU.findall(gres) for gpu in numbers(indexes))
    except (UserError, ValueError):
        return []
    return [NodeClaim(NodeName(name), cpu_count, int(mem) * MIB, gpus) for name in names]


def numbers(text: str) -> list[int]:
    """Return the numbers of a list such as 0-3,8. Raises ValueError for too many."""
    found: list[int] = []
    for low, high in _RANGE.findall(text):
        first, last = int(low), int(high or low)
        if last - first + len(found) >= MAX_NUMBERS:
            raise ValueError(f"{text[:80]!r} has more than {MAX_NUMBERS} numbers")
        found += range(first, last + 1)
    return found
