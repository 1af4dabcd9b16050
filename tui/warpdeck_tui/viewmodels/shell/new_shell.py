"""The size of a new interactive shell, what is free for it, and the wait for its start. Pure functions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from warpdeck.client.submission import command_options
from warpdeck.notation.request.job_request import build_request
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.start_text import about
from warpdeck_tui.viewmodels.cells import age, plural
from warpdeck_tui.viewmodels.jobs.waiting import why_words
from warpdeck_tui.widgets.form_fields import FormField

OPEN_STATES = ("idle", "mixed", "allocated")
"""States of nodes on which jobs start."""
MAX_NODES = 4
"""Largest number of nodes that are named with their free GPUs."""


def check_option(option: str, text: str) -> None:
    """Raise UserError if the text is not a value of the option."""
    if text:
        build_request(command_options([f"--{option}={text}"], {}, now=time.time()), {})


FIELDS = (
    FormField("gpus", "GPUs", "e.g. 1, or h100:2", check=lambda text: check_option("gpus", text)),
    FormField("time", "time limit", "e.g. 4:00:00", check=lambda text: check_option("time", text)),
    FormField("partition", "partition", check=lambda text: check_option("partition", text)),
)


def options_of(values: Mapping[str, str]) -> list[str]:
    """Return the options that request a shell of this size."""
    return [f"--{field.id}={values[field.id]}" for field in FIELDS if values.get(field.id)]


def values_of(options: Iterable[str]) -> dict[str, str]:
    """Return the fields for these options. Options without a field are left out."""
    pairs = (option.removeprefix("--").partition("=") for option in options)
    known = {field.id for field in FIELDS}
    return {name: value for name, _, value in pairs if name in known}


def free_words(nodes: Iterable[NodeRow]) -> str:
    """Return what is free, such as "gpu03 has 3 free GPUs, gpu05 1"."""
    rows = list(nodes)
    open_nodes = [node for node in rows if node.state in OPEN_STATES]
    if not any(node.gpus for node in rows):
        cpus = sum(node.cpus - node.cpus_used for node in open_nodes)
        return f"{plural(cpus, 'CPU')} of {sum(node.cpus for node in rows)} free"
    free = {
        node.name: sum(not (gpu.job or gpu.blocked or gpu.error) for gpu in node.gpus) for node in open_nodes
    }
    found = sorted(
        ((count, name) for name, count in free.items() if count), key=lambda each: (-each[0], each[1])
    )
    if not found:
        return "No GPU is free; the shell waits until one is"
    first, *others = found[:MAX_NODES]
    words = f"{first[1]} has {plural(first[0], 'free GPU')}"
    words += "".join(f", {name} {count}" for count, name in others)
    more = len(found) - MAX_NODES
    return f"{words}, and {plural(more, 'node')} more" if more > 0 else words


def wait_lines(row: JobRow | None, label: str, *, now: float) -> list[str]:
    """Return the lines that say why the session waits, when it is expected to start, and for how long it waits."""
    if row is None or row.state != "PENDING":
        return [f"Starting session {label}"]
    waits = f"waiting for {age(now - row.submit)}"
    if row.why is None:
        return [waits]
    expected = row.why.expected_start
    starts = f"starts {about(expected, now)}" if expected is not None else "expected start unknown"
    return [why_words(row.why), starts, waits]


def command(options: Sequence[str]) -> str:
    """Return the equivalent command line."""
    return " ".join(["warpdeck run --pty", *options, "$SHELL"])
