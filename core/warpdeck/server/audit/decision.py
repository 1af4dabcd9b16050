"""Decides which requests get an entry in the audit log, and makes the text of the entry. Pure.

- A request that changes something gets one entry, or two if it was carried out for some of its jobs only.
- Any other request gets an entry if its caller had no right to it.

Texts of users are cut. Scripts, environments and command lines are not recorded, because they may contain secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from warpdeck.base.errors import UNCERTAIN, UserError
from warpdeck.ports.caller import DENIED_CODES, Caller
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.site_rows import AuditOutcome

MAX_TEXT = 200
"""Maximum number of characters of one text."""
MAX_ITEMS = 20
"""Maximum number of items of one list, and of objects of one entry."""
MAX_DEPTH = 5
"""Maximum depth of nested details."""
MAX_DETAILS_BYTES = 8 * 1024
"""Maximum size of an entry's details. Longer ones are replaced by their beginning."""


class Recorded(NamedTuple):
    """How a kind of request is recorded: the fields that name its objects, and the fields that describe the change."""

    objects: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


CHANGES: dict[type, Recorded] = {
    # Submissions. The objects are the new jobs.
    ask.Submit: Recorded(),
    ask.Rerun: Recorded(details=("job",)),
    ask.Run: Recorded(),
    ask.Session: Recorded(),
    ask.Srun: Recorded(),
    ask.Salloc: Recorded(),
    ask.PutTree: Recorded(("tree",), ("size_bytes",)),
    # Orders
    ask.Cancel: Recorded(("jobs",), ("signal", "whom", "waiting_only")),
    ask.Hold: Recorded(("jobs",), ("for_owner",)),
    ask.Release: Recorded(("jobs",)),
    ask.Requeue: Recorded(("jobs",), ("hold", "special_exit", "unfinished_only")),
    ask.Pause: Recorded(("jobs",), ("hold", "saving_s")),
    ask.Suspend: Recorded(("jobs",)),
    ask.Resume: Recorded(("jobs",)),
    ask.Tell: Recorded(("jobs",), ("text",)),
    ask.JobUpdate: Recorded(("jobs",), ("change",)),
    ask.JobAnnotate: Recorded(("ids",), ("annotating",)),
    ask.CodeRecorded: Recorded(("jobs",), ("note",)),
    # Access to the processes of jobs
    ask.Attach: Recorded(("job",), ("watch",)),
    ask.Tunnel: Recorded(("job",), ("node", "port", "forward")),
    ask.Forward: Recorded(("job",), ("node", "port", "local_port", "host", "purpose")),
    ask.ForwardEnd: Recorded(("number",)),
    # The site
    ask.NodeAdd: Recorded(("target",), ("name",)),
    ask.NodeDrain: Recorded(("name",), ("reason", "gpus")),
    ask.NodeResume: Recorded(("name",), ("gpus",)),
    ask.NodeRemove: Recorded(("name",), ("force",)),
    ask.ReservationMake: Recorded(("reservation.name",), ("reservation", "instead")),
    ask.ReservationRemove: Recorded(("name",)),
    ask.Amend: Recorded(("changes",), ("changes",)),
    ask.Reload: Recorded(),
    ask.Shutdown: Recorded(),
    ask.Takeover: Recorded(),
    ask.Recover: Recorded(("jobs",), ("discard",)),
    ask.StandbySet: Recorded(("target",), ("home", "mode", "keys")),
    ask.StandbyRemove: Recorded(),
    ask.Diagnosis: Recorded(details=("reset",)),
}
"""The requests that change something, with the form of their entries."""
OF_JOBS = frozenset(
    {ask.Submit, ask.Rerun, ask.Run, ask.Session, ask.Srun, ask.Salloc, ask.PutTree, ask.Cancel, ask.Hold, ask.Release}
    | {ask.Requeue, ask.Pause, ask.Suspend, ask.Resume, ask.Tell, ask.JobUpdate, ask.JobAnnotate, ask.CodeRecorded, ask.Attach}
    | {ask.Tunnel, ask.Forward, ask.ForwardEnd}
)  # fmt: skip
"""The requests that ordinary users may send as often as they like."""


class Finding(NamedTuple):
    """The part of an entry that describes the request and its outcome: everything but its number, time and user."""

    request: str
    objects: list[str]
    details: dict[str, Any]
    outcome: AuditOutcome
    reason: str = ""
    code: str = ""


def is_change(message: Any) -> bool:
    """Return whether the request changes something."""
    match message:
        case ask.JobAnnotate() | ask.Amend():
            return not message.only_asks
        case ask.Diagnosis():
            return message.reset
        case ask.Recover():
            return not message.dry_run
        case _:
            return type(message) in CHANGES


def is_of_site(finding: Finding, caller: Caller) -> bool:
    """Return whether an entry is about a change of the site, or about a change by an administrator.

    These entries are kept apart, so that the entries of ordinary users cannot displace them.
    """
    done = finding.outcome is AuditOutcome.DONE
    return done and (caller.who.admin or finding.request not in _TAGS_OF_JOBS)


def findings(message: Any, answer: object) -> list[Finding]:
    """Return the description of a request and its answer for the log. The answer is a result, an error, or None if unknown."""
    if isinstance(answer, UserError) and not _is_question(answer):
        return _of_error(message, answer)
    if isinstance(answer, UserError) or not is_change(message):
        return []
    tag, details = _tag(message), _details(message)
    match answer:
        case None:
            reason = "the caller left before the answer"
            return [Finding(tag, _objects(message), details, AuditOutcome.UNCERTAIN, reason)]
        case results.Changed(jobs=done, refused=refused, errors=errors) if errors:
            return _in_parts(tag, details, done, refused, reason=errors[0], codes=answer.codes)
        case results.Reloaded(changes=changes):
            settings = {"settings": _cut(changes)} if changes else {}
            return [Finding(tag, _objects(message), {**details, **settings}, AuditOutcome.DONE)]
        case _:
            return [Finding(tag, _new_objects(answer) or _objects(message), details, AuditOutcome.DONE)]


def _in_parts(
    tag: str, details: dict[str, Any], done: list[str], refused: list[str], *, reason: str, codes: list[str]
) -> list[Finding]:
    """Return an entry for the changed jobs of an order, and another one for the unchanged jobs."""
    denied = next((code for code in codes if code in DENIED_CODES), "")
    outcome = AuditOutcome.REFUSED if denied else AuditOutcome.FAILED
    found = [Finding(tag, cut_names(done), details, AuditOutcome.DONE)] if done else []
    code = denied or next(iter(codes), "")
    return [*found, Finding(tag, cut_names(refused), details, outcome, cut_text(reason), code)]


def _of_error(message: Any, error: UserError) -> list[Finding]:
    code = _code_of(error)
    denied = code in DENIED_CODES
    if not denied and not is_change(message):
        return []
    outcome = AuditOutcome.REFUSED if denied else AuditOutcome.FAILED
    if error.code == UNCERTAIN:
        outcome = AuditOutcome.UNCERTAIN
    reason = cut_text(error.message)
    return [Finding(_tag(message), _objects(message), _details(message), outcome, reason, code)]


def _code_of(error: BaseException | None) -> str:
    """Return the code of an error, or of the error that it puts into the words of a command."""
    while isinstance(error, UserError):
        if error.code in DENIED_CODES or error.__cause__ is None:
            return error.code
        error = error.__cause__
    return ""


def _is_question(error: UserError) -> bool:
    """Return whether the error only asks the client to send the request again, with a file or in another form."""
    return error.code in ("steps", "host_key", "answered") or not error.details.keys().isdisjoint(
        ("file", "writes")
    )


def _tag(message: Any) -> str:
    return str(message.__struct_config__.tag)


_TAGS_OF_JOBS = frozenset(str(kind.__struct_config__.tag) for kind in OF_JOBS)
READ_OBJECTS = ("job", "name", "number", "step")
"""The fields of reading requests that name an object."""


def _objects(message: Any) -> list[str]:
    form = CHANGES.get(type(message))
    names = READ_OBJECTS if form is None else form.objects
    return cut_names(_words(message, names))


def _words(message: Any, names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        value: Any = message
        for part in name.split("."):
            value = getattr(value, part, "")
        if isinstance(value, tuple):
            found += [".".join(each.path) if hasattr(each, "path") else str(each) for each in value]
        elif value != "":
            found.append(str(value))
    return found


def _new_objects(answer: object) -> list[str]:
    """Return the names of the objects that a request has made."""
    match answer:
        case results.SubmittedJob(label=label):
            return [label]
        case results.OpenedJob(job_id=number):
            return [str(number)]
        case {"job_id": number, "step": step}:
            return [f"{number}.{step}"]
        case {"job_id": number}:
            return [str(number)]
        case _:
            return []


def _details(message: Any) -> dict[str, Any]:
    form = CHANGES.get(type(message), Recorded())
    found: dict[str, Any] = {}
    for name in form.details:
        value = msgspec.to_builtins(getattr(message, name))
        if value not in (None, "", 0, False, [], (), {}):
            found[name] = _cut(value)
    text = msgspec.json.encode(found)
    if len(text) > MAX_DETAILS_BYTES:
        return {"cut": text[:MAX_TEXT].decode(errors="replace")}
    return found


def _cut(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value of JSON with its texts and lists cut to their limits."""
    if isinstance(value, str):
        return cut_text(value)
    if isinstance(value, dict | list | tuple) and not depth:
        return "..."
    if isinstance(value, dict):
        items = list(value.items())[:MAX_ITEMS]
        return {cut_text(str(key)): _cut(each, depth - 1) for key, each in items}
    if isinstance(value, list | tuple):
        more = [f"... {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []
        return [*(_cut(each, depth - 1) for each in value[:MAX_ITEMS]), *more]
    return value


def cut_names(names: list[str]) -> list[str]:
    """Return the first objects. A last item tells how many others there are."""
    more = [f"... {len(names) - MAX_ITEMS} more"] if len(names) > MAX_ITEMS else []
    return [*map(cut_text, names[:MAX_ITEMS]), *more]


def cut_text(text: str) -> str:
    """Return at most MAX_TEXT characters of a text that can be encoded."""
    short = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
    return short.encode(errors="replace").decode()
