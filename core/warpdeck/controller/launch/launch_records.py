"""The proof and the record that a node keeps with each launch (`warpdeck_agent.wire.past_launches`).

The proof shows that a controller of this site made the launch, and of which submission it is. The record holds the job as
it was committed, without its script and its environment, which may contain secrets. Both are sealed with the secret of the
site, so that a compromised node can neither invent a launch nor change the user of a job.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import zlib
from typing import NamedTuple

import msgspec

from warpdeck.base.site_seal import SiteSeal
from warpdeck.model import Job, NodeName
from warpdeck_agent.wire import messages as wire

IDENTITY_CHARS, SEAL_CHARS = 8, 12
"""Lengths of the two parts of a proof. A node with wrong proofs can only stop the start of jobs for a while."""
MAX_RECORD_CHARS = 8_000
"""Maximum length of a record. The node keeps it in a table with records of a fixed size."""
MAX_COMMAND_CHARS = 1024
MAX_JOB_BYTES = 256 * 1024
LOST_SCRIPT = (
    "#!/bin/sh\necho 'The script of this job was lost with the database of the controller.' >&2\nexit 1\n"
)
"""Script of a recovered job. It never runs, because such a job is not requeued."""
_JOB = msgspec.msgpack.Decoder(Job)
_ENCODER = msgspec.msgpack.Encoder()


class Proof(NamedTuple):
    """A proof in its parts."""

    identity: str
    """Name of the submission."""
    seal: str


def identity_of(job: Job) -> str:
    """Return the name of the job's submission, which two jobs with the same id do not share."""
    text = f"{job.array_job_id} {job.uid} {job.submit_at_unix!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:IDENTITY_CHARS]


def parse_proof(proof: str) -> Proof:
    identity, _, seal = proof.partition("-")
    return Proof(identity, seal)


def is_proven(seal: SiteSeal, proof: str, *, node: NodeName, job_id: int, restarts: int) -> bool:
    """Return whether a controller of this site made the launch. A simulation without a secret trusts its nodes."""
    if not seal.has_secret:
        return True
    identity, shown = parse_proof(proof)
    return seal.is_valid(shown, *_launch_parts(node, job_id, restarts, identity), chars=SEAL_CHARS)


def with_record(launch: wire.Launch, job: Job, node: NodeName, seal: SiteSeal) -> wire.Launch:
    """Return the launch with its proof and its record."""
    identity = identity_of(job)
    shown = seal.sign(*_launch_parts(node, job.id, job.restarts, identity))[:SEAL_CHARS]
    record = _pack(job, seal)
    return dataclasses.replace(
        launch,
        proof=f"{identity}-{shown}",
        record=record if len(record) <= MAX_RECORD_CHARS else "",
    )


def open_record(record: str, seal: SiteSeal, *, node: NodeName, job_id: int, restarts: int) -> Job | None:
    """Return the job of a record, or None if the record is missing, was changed, or belongs to another launch."""
    shown, _, text = record.partition(".")
    if not text or (seal.has_secret and not seal.is_valid(shown, "record", text)):
        return None
    try:
        unpack = zlib.decompressobj()
        job = _JOB.decode(unpack.decompress(base64.b64decode(text), MAX_JOB_BYTES))
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None
    is_same = (job.id, job.restarts) == (job_id, restarts) and job.allocation is not None
    return job if is_same and job.allocation is not None and node in job.allocation.node_names() else None


def _pack(job: Job, seal: SiteSeal) -> str:
    request = msgspec.structs.replace(
        job.request,
        env={},
        parts=None,
        requeue=False,
        script=LOST_SCRIPT if job.request.script else "",
        script_args=(),
        submit_line=job.request.submit_line[:MAX_COMMAND_CHARS],
    )
    data = _ENCODER.encode(msgspec.structs.replace(job, request=request))
    text = base64.b64encode(zlib.compress(data, 1)).decode()
    return f"{seal.sign('record', text)}.{text}"


def _launch_parts(node: NodeName, job_id: int, restarts: int, identity: str) -> tuple[object, ...]:
    return "launch", job_id, restarts, node, identity
