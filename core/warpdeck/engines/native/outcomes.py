"""The outcomes of events, as requests use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Event
from warpdeck.model import Job

Apply = Callable[[Event], Awaitable[Outcome]]
"""Passes an event to the controller and returns its outcome after the commit. Raises UserError or StoreError."""


def known_job(outcome: Outcome) -> Job:
    """Return the job that the request made.

    Raises UserError if it was made by an earlier copy and is no longer in memory.
    """
    if outcome.job is None:
        label = outcome.created.label if outcome.created is not None else ""
        raise UserError(f"job {label} has already ended", "see `warpdeck show`", code="not_found")
    return outcome.job
