"""`sacctmgr modify job [where] CONDITION=VALUE... set KEY=VALUE...`: changes job records.

Users may set Comment and DerivedExitCode of their own jobs; administrators may also set AdminComment and
SystemComment. Conditions, abbreviations, messages and exit codes are those of 22.05's sacctmgr.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_uid
from warpdeck.notation.values.time_points import parse_moment
from warpdeck.slurm.console.command_options import INVALID_TIME, split_list
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.format.units import moment

from .abbreviations import meant, names
from .change_messages import NOTHING_TO_SET, ChangeRefused, no_condition, no_option

CONDITIONS = names("accounts:1 cluster:1 endtime:1 jobid:1 starttime:1 users:1")
SETTINGS = names(
    "admincomment:12=admin_comment comment:7 derivedes:9=comment derivedexitcode:12=derived_exit "
    "systemcomment:13=system_comment"
)
NONE_FOUND = (
    "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_modify_job: Request didn't affect anything or your user "
    "doesn't have privilege to perform this action\n"
)
AT_ONCE = 1000
"""Number of records in one transaction (protocol.job_requests)."""
_NUMBER = re.compile(r"[ \t]*([+-]?\d+)")
_JOB = re.compile(r"(\d+(?:[_+]\d+)?)(?:\..*)?")


class CommentOptions(NamedTuple):
    """The jobs to change and the new values.

    `unknown` holds the messages about unknown settings, `complaint` the messages about invalid values.
    """

    where: dict[str, str]
    values: dict[str, str | int]
    unknown: str
    complaint: str


def parse_arguments(words: Sequence[str]) -> CommentOptions:
    """Parse the arguments. Raises ChangeRefused."""
    where: dict[str, str] = {}
    values: dict[str, str | int] = {}
    unknown, complaint, invalid = "", "", ""
    sets = False
    for word in words:
        key, equals, text = word.partition("=")
        lowered = key.lower().rstrip("+-") if sets else key.lower()
        setting = meant(lowered, SETTINGS).replace(" ", "_")
        condition = meant(lowered, CONDITIONS)
        if lowered in ("set", "where") and not equals:
            sets = lowered == "set"
        elif sets and setting and not equals:
            raise ChangeRefused(f" Bad format on {key}: End your option with an '=' sign\n")
        elif sets and setting == "derived_exit" and text and not _NUMBER.match(text):
            invalid += f"sacctmgr: error: Invalid value for DerivedExitCode ({text})\n"
        elif sets and setting:
            values[setting] = _number(text) if setting == "derived_exit" else _unquoted(text)
        elif sets:
            unknown += no_option(word)
        elif condition and equals:
            where[condition] = text.strip("'\"")
        else:
            complaint += no_condition(word)
    if complaint:
        raise ChangeRefused(complaint + invalid, output=unknown)
    if not values:
        raise ChangeRefused(invalid + NOTHING_TO_SET, output=unknown)
    return CommentOptions(where, values, unknown, invalid)


def _number(text: str) -> int:
    found = _NUMBER.match(text)
    number = int(found[1]) if found else 0
    return max(-(2**31), min(number, 2**32 - 1))


def _unquoted(text: str) -> str:
    """Return the text within its enclosing quotes.

    Quotes inside unquoted text become backquotes, as in Slurm.
    """
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    return re.sub("['\"]", "`", text)


def found_jobs(client: Any, where: dict[str, str]) -> list[dict[str, Any]]:
    """Return the records to change. Raises ChangeRefused."""
    if where.get("cluster", CLUSTER_NAME) != CLUSTER_NAME:
        return []
    times = {
        name: _moment(where[key])
        for key, name in (("starttime", "since"), ("endtime", "until"))
        if key in where
    }
    users = split_list(where.get("users", ""))
    unknown = next((user for user in users if existing_uid(user) is None), None)
    if unknown is not None:
        raise ChangeRefused(f"sacctmgr: error: Invalid user id: {unknown}\n")
    return list(
        client.call(
            "records",
            ids=_ids(where["jobid"]) if "jobid" in where else [],
            users=users,
            accounts=split_list(where.get("accounts", "")),
            ended=True,
            fields=["id", "submit", "user"],
            **times,
        )["jobs"]
    )


def _moment(text: str) -> float:
    try:
        return parse_moment(text, time.time())
    except UserError as error:
        raise ChangeRefused(f"{INVALID_TIME}{text}\n") from error


def _ids(text: str) -> list[str]:
    words = split_list(text)
    if not words:
        raise ChangeRefused("Invalid job id(s)  specified\n")
    for word in words:
        if not _JOB.fullmatch(word):
            base = re.match(r"(\d+)_", word)
            what = f"job array element specified: {base[1]}" if base else f"job/step specified: {word}"
            raise ChangeRefused(f"sacctmgr: fatal: Bad {what}\n")
    return [found[1] for word in words if (found := _JOB.fullmatch(word))]


def jobs_text(jobs: Sequence[dict[str, Any]]) -> str:
    """Return the list of the changed jobs for output."""
    return "".join(
        (" Modified jobs...\n", *(f"  {job['id']} submitted at {moment(job['submit'])}\n" for job in jobs))
    )


def annotate(
    console: Console, jobs: Sequence[dict[str, Any]], values: dict[str, Any], *, only_asks: bool
) -> None:
    """Set the values in the records, or only check the permission with `only_asks`. Raises UserError."""
    with console.controller.connect() as client:
        ids = [job["id"] for job in jobs]
        for at in range(0, len(ids), AT_ONCE):
            some = ids[at : at + AT_ONCE]
            client.call("job_annotate", ids=some, annotating=values, only_asks=only_asks)
