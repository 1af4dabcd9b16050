"""Parses --dependency: "afterok:12:13_2,afterany:14", with "?" instead of "," if any one is enough, and
"singleton".
"""

from __future__ import annotations

import re
from typing import Any

from warpdeck.base.errors import UserError

KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
_TARGET = re.compile(r"\s*0*([1-9]\d{0,17})(?:_(?:(\d{1,9})|\*))?(?:\+(\d{1,6}))?")


def parse_dependencies(text: str) -> dict[str, Any]:
    """Return the dependencies in the JSON form of `model.Dependencies`. Raises UserError."""
    if "?" in text and "," in text:
        raise UserError(f"--dependency={text} contains both , and ?", "use , for all or ? for any")
    clauses: list[dict[str, Any]] = []
    for item in re.split(r"[,?]", text):
        kind, *targets = item.split(":")
        kind = kind.lower()
        if kind == "singleton" and not targets:
            clauses.append({"kind": kind})
        elif kind in KINDS and targets:
            clauses += [_clause(kind, target, text) for target in dict.fromkeys(targets)]
        else:
            known = ", ".join((*KINDS, "singleton"))
            raise UserError(
                f"--dependency={text}: {item!r} is not a dependency", f"write KIND:JOBID with one of {known}"
            )
    return {"clauses": clauses, "any_of": "?" in text}


def _clause(kind: str, target: str, text: str) -> dict[str, Any]:
    match = _TARGET.fullmatch(target)
    if match is None:
        raise UserError(
            f"--dependency={text}: {target!r} is not a job ID", "write 12, or 12_3 for a task of an array"
        )
    clause: dict[str, Any] = {"kind": kind, "job_id": int(match[1]), "delay_s": int(match[3] or 0) * 60}
    if match[2]:
        clause["task"] = int(match[2])
    return clause


def format_dependencies(value: dict[str, Any] | None) -> str:
    """Format the JSON form of `model.Dependencies` as a value of --dependency."""
    if not value:
        return ""
    words = []
    for clause in value["clauses"]:
        task = "" if clause.get("task") is None else f"_{clause['task']}"
        delay = f"+{clause['delay_s'] // 60}" if clause.get("delay_s") else ""
        whom = "" if clause["kind"] == "singleton" else f":{clause['job_id']}{task}{delay}"
        words.append(clause["kind"] + whom)
    return ("?" if value.get("any_of") else ",").join(words)
