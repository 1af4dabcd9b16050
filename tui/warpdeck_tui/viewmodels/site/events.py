"""The events of the site: those of jobs, of nodes (drains, outages, faulty GPUs) and of config.toml, as one list with a filter.

A filter is words that an event must contain, such as "drain gpu03"; "!job" leaves out events that contain the word.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck.protocol.site_rows import AuditEntry
from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

COLUMNS = (Column("TIME", 12), Column("KIND", 7), Column("JOB OR NODE", 14), Column("EVENT", 0, flex=1))
KINDS = {
    "drain": ("drain", "drained", "warn"),
    "resume": ("drain", "resumed", "accent"),
    "down": ("outage", "down", "FAILED"),
    "up": ("outage", "back", "accent"),
    "gpu_drain": ("fault", "drained", "warn"),
    "gpu_resume": ("fault", "resumed", "accent"),
}
"""Maps the kind of a node's event to the kind in the list, the word for the event, and its style."""
CONFIG = "config"
FILTER_EXAMPLE = "words such as drain, outage, fault, config, gpu03; !job leaves out jobs"


class SiteEvent(NamedTuple):
    """One event. `job` is the id of the job that it is about, or 0. `key` identifies its row."""

    at: float
    key: str
    kind: str
    subject: str
    text: str
    style: str = ""
    job: int = 0


def job_events(events: Sequence[EventRow]) -> list[SiteEvent]:
    """Return the events of jobs. Each key begins with the job's id."""
    return [
        SiteEvent(
            event.at,
            f"{event.job} {len(events) - at}",
            "job",
            event.label or str(event.job),
            event.text,
            job=event.job,
        )
        for at, event in enumerate(events)
    ]


def node_events(events: Iterable[NodeEventRow]) -> list[SiteEvent]:
    """Return the events of nodes. The starts of jobs are left out, because they are among the events of jobs."""
    found = []
    for event in events:
        if event.kind not in KINDS:
            continue
        kind, word, style = KINDS[event.kind]
        what = f"{plural(event.gpus, 'GPU')} {word}" if event.gpus else word
        what = f"{what} by {event.user}" if event.user else what
        text = f"{what}: {event.text}" if event.text else what
        found.append(SiteEvent(event.at, f"node {event.node} {event.at}", kind, event.node, text, style))
    return found


def config_events(changes: Iterable[tuple[float, str]]) -> list[SiteEvent]:
    """Return the changes of config.toml, given as their times and command lines."""
    return [
        SiteEvent(at, f"config {at}", CONFIG, "config.toml", command.partition("# ")[2] or "loaded", "accent")
        for at, command in changes
    ]


def audited_events(entries: Iterable[AuditEntry]) -> list[SiteEvent]:
    """Return the changes of config.toml by anybody, as the audit log has them, with the settings that changed."""
    found = []
    for entry in entries:
        settings = entry.details.get("settings")
        changed = "; ".join(map(str, settings)) if isinstance(settings, list) else ", ".join(entry.objects)
        by = "a signal" if entry.origin == "signal" else entry.user
        text = f"changed by {by}: {changed}" if changed else f"loaded by {by}; nothing has changed"
        found.append(SiteEvent(entry.at, f"audit {entry.number}", CONFIG, "config.toml", text, "accent"))
    return found


def filtered(events: Iterable[SiteEvent], text: str) -> list[SiteEvent]:
    """Return the events that match the filter, the latest first."""
    words = text.lower().split()
    wanted = [word for word in words if not word.startswith("!")]
    unwanted = [word[1:] for word in words if len(word) > 1 and word.startswith("!")]
    return sorted((each for each in events if _holds(each, wanted, unwanted)), key=lambda each: -each.at)


def _holds(event: SiteEvent, wanted: Sequence[str], unwanted: Sequence[str]) -> bool:
    text = f"{event.kind} {event.subject} {event.text}".lower()
    return all(word in text for word in wanted) and not any(word in text for word in unwanted)


def event_rows(events: Iterable[SiteEvent]) -> list[tuple[str, Line]]:
    """Return the rows of the table."""
    return [
        (
            event.key,
            (
                Cell(time.strftime("%a %H:%M:%S", time.localtime(event.at)), "muted"),
                Cell(event.kind, event.style or "muted"),
                Cell(printable(event.subject), "accent"),
                Cell(printable(event.text)),
            ),
        )
        for event in events
    ]
