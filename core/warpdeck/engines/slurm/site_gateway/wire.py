"""The messages between a user's gateway and the site gateway: one question and one answer on each connection.

The question is a line of JSON. The reply is a line of JSON too, and the compressed output of the command may follow it.
Ages are used instead of times, so that neither side depends on the clock of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

MAX_QUESTION_BYTES = 512
"""Largest size of a question with its line break. The fields have fixed names and short values."""
MAX_REPLY_BYTES = 16 * 1024
"""Largest size of the first line of a reply. It may contain an error of Slurm."""
MAX_REASON = 2000
"""Number of characters of an error that are sent."""

Age = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Word = Annotated[str, msgspec.Meta(max_length=40)]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a user's gateway."""

    question: Word
    """The name of a question. A later version may have other ones, so it is text."""
    form: Word
    """Identifies the command line, because another version of warpdeck may ask in another way."""
    newer_than_s: Age | None = None
    """Age of the answer that the user's gateway has. Only a newer one is sent."""
    looking: bool = False
    """Whether a user looks at the cluster now."""
    urgent: bool = False
    """Whether a user has just begun to look."""


class Outcome(StrEnum):
    """The kind of a reply."""

    ANSWER = "answer"
    NOTHING_NEW = "nothing_new"
    WITHHELD = "withheld"
    """Slurm does not show the same to all users, so each gateway asks Slurm itself."""
    OTHER_VERSION = "other_version"
    """The two versions of warpdeck do not ask this in the same way."""
    BUSY = "busy"
    """The user asks too often."""
    PROBLEM = "problem"
    """Slurm does not answer."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a reply."""

    outcome: Outcome
    reason: str = ""
    hint: str = ""
    cluster: str = ""
    """Identifies the cluster. A user may use another one than the site gateway."""
    requests_a_minute: float = 0.0
    """Number of requests to slurmctld in the last minute."""
    age_s: Age = 0.0
    """Seconds since the command was started, or since the problem began."""
    took_s: Age = 0.0
    """Duration of the command."""
    mark: str = ""
    """The end of each field, if the answer is a table of squeue."""
    size_bytes: int = 0
    """Number of compressed bytes that follow."""


def cluster_of(config: Mapping[str, str]) -> str:
    """Return the identity of the cluster that this configuration of slurmctld describes; "" if it is not known yet."""
    hosts = [value for name, value in sorted(config.items()) if name.startswith("SlurmctldHost")]
    name = config.get("ClusterName", "")
    return f"{name} on {', '.join(hosts)} port {config.get('SlurmctldPort', '')}" if name else ""
