"""What clients ask of the site, its policy and its past; a part of protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from warpdeck.model.amendment import MAX_CHANGES, Amendment
from warpdeck.model.past import PastQuery

from .request_base import Message, References

MAX_EVENTS = 500
"""Lines of one answer: some screens."""


class Priorities(Message, frozen=True, kw_only=True, tag="priorities"):
    """-> {"jobs": [siterows.PriorityRow], "weights": {factor: most}, "queue_order": str}: the jobs that wait, highest first;
    all without `ids`. Jobs of equal priority go by `queue_order`: submission, response, promised."""

    ids: References = ()


class Shares(Message, frozen=True, kw_only=True, tag="shares"):
    """-> {"shares": [siterows.ShareRow], "half_life_s": float | None}"""


class LimitUse(Message, frozen=True, kw_only=True, tag="limit_use"):
    """-> {"uses": [siterows.UseRow]}: what counts now against the limits of each association and each QoS."""


class Diagnosis(Message, frozen=True, kw_only=True, tag="diagnosis"):
    """-> what the controller has done, see controller.diagnosis; `reset` sets it to 0, for admins alone."""

    reset: bool = False


class Partitions(Message, frozen=True, kw_only=True, tag="partitions"):
    """-> {"partitions": [siterows.PartitionRow], "configured": bool}; without any in config.toml one of all nodes."""


class Reservations(Message, frozen=True, kw_only=True, tag="reservations"):
    """-> {"reservations": [siterows.ReservationRow]}"""


class QosList(Message, frozen=True, kw_only=True, tag="qos"):
    """-> {"qos": [siterows.QosRow]}"""


class PluginOptions(Message, frozen=True, kw_only=True, tag="plugin_options"):
    """-> {"options": {name: "required", "none" or "optional"}}: what job scripts may name beside Slurm's options."""


class Amend(Message, frozen=True, kw_only=True, tag="amend"):
    """-> {"changes": [str], "warnings": [str]}: config.toml says all of this, and it is in force; or nothing of it, with the error
    that a reload has. Only for the controller's own user and root."""

    changes: Annotated[tuple[Amendment, ...], msgspec.Meta(min_length=1, max_length=MAX_CHANGES)]


class Licenses(Message, frozen=True, kw_only=True, tag="licenses"):
    """-> {"licenses": [{"name", "total", "used"}]}"""


class Settings(Message, frozen=True, kw_only=True, tag="settings"):
    """-> {"settings": {name: text}}: what the configuration in force comes to in slurm.conf's words."""


class Past(Message, frozen=True, kw_only=True, tag="past"):
    """-> {"jobs": [JobRow], "total": int | None}: a page of the jobs that have ended; `total` of how many, where it is asked.

    The code "moved" says that the job beside which the page stands is in the queue again."""

    query: PastQuery = PastQuery()
    counted: bool = False


class PastCosts(Message, frozen=True, kw_only=True, tag="past_costs"):
    """-> {"groups": [model.past.GroupCost]}: what the jobs of the question have cost."""

    query: PastQuery = PastQuery()


class Events(Message, frozen=True, kw_only=True, tag="events"):
    """-> {"events": [rows.EventRow]}: what happened to jobs lately, the latest first."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_EVENTS)] = MAX_EVENTS
