"""Print a forecast, for `warpdeck why` and for `warpdeck submit --dry-run`."""

from __future__ import annotations

from typing import Any

from warpdeck.base.output import clean
from warpdeck.protocol.start_text import starts_in_words


def print_forecast(found: dict[str, Any], *, now: float) -> None:
    """Print the expected start, the reason for waiting, the jobs ahead, and the changes that would start the
    job now.
    """
    lines = [
        starts_in_words(
            found["verdict"],
            node_list=found["node_list"],
            expected_start=found["expected_start"],
            sentence=found["sentence"],
            now=now,
            rough=found["rough"],
            untold=found["untold"],
        )
    ]
    if found["code"]:
        lines.append(f"{found['code']}" + (f": {found['sentence']}" if found["verdict"] == "later" else ""))
    if found["hint"]:
        lines.append(found["hint"])
    if found["ahead"]:
        lines.append(f"ahead in the queue: {ahead_in_words(found)}")
    lines += [f"it {change}" for change in found["changes"]]
    for line in lines:
        print(clean(line))


def ahead_in_words(found: dict[str, Any]) -> str:
    """Return for example "3 jobs (12 of ann, 13 of bob, 14 of ann)", or "" if no job is ahead."""
    if not found["ahead"]:
        return ""
    named = ", ".join(f"{each['label']} of {each['user']}" for each in found["leaders"])
    count, left = found["ahead"], found["ahead"] - len(found["leaders"])
    jobs = "1 job" if count == 1 else f"{count:,} jobs"
    return f"{jobs} ({named}{', and others' if left else ''})"
