"""The rights of a stranger, a coordinator, an operator, an administrator and root: who may send which request about the site.

tests/slurm_parity/administration/test_rights.py compares the commands with Slurm.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integration.server.test_private_data import (
    ADMINISTRATOR,
    COORDINATOR,
    OPERATOR,
    OWNER,
    ROOT,
    STRANGER,
    TABLES,
    connect,
    private_site,
)
from tests.support.served import Raw, Served
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.root

EVERYONE = (STRANGER, OWNER, COORDINATOR, OPERATOR, ADMINISTRATOR, ROOT)
OPERATORS, ADMINISTRATORS, ROOTS = EVERYONE[3:], EVERYONE[4:], EVERYONE[5:]
RESERVATION = {"name": "r", "nodes": ["a"], "start_unix": 2.5e9, "end_unix": 2.6e9, "users": ["root"]}
OF_LAB = (OWNER, *EVERYONE[2:])
RIGHTS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("node_add", {"target": "-x"}, ROOTS),
    ("node_drain", {"name": "a", "reason": "x"}, ADMINISTRATORS),
    ("node_resume", {"name": "a"}, ADMINISTRATORS),
    ("node_rm", {"name": "nosuch"}, ADMINISTRATORS),
    ("reload", {}, ADMINISTRATORS),
    ("shutdown", {}, ADMINISTRATORS),
    ("reservation_make", {"reservation": RESERVATION, "instead": True}, OPERATORS),
    ("reservation_rm", {"name": "nosuch"}, OPERATORS),
    ("diagnosis", {"reset": True}, OPERATORS),
    ("config", {}, EVERYONE[2:]),
    ("audit", {}, ADMINISTRATORS),
    ("standby_set", {"target": "-x"}, ROOTS),
    ("standby_rm", {}, ROOTS),
    ("takeover", {}, ROOTS),
    ("hold", {"jobs": ["2"]}, OF_LAB),
    ("job_update", {"jobs": ["2"], "change": {"comment": "x"}}, OF_LAB),
    ("job_update", {"jobs": ["2"], "change": {"nice": -5}}, OPERATORS),
    ("job_update", {"jobs": ["2"], "change": {"admin_comment": "x"}}, ADMINISTRATORS),
    ("job_update", {"jobs": ["2"], "change": {"output": "/x"}}, (OWNER, ROOT)),
    ("job_update", {"jobs": ["2"], "change": {"chdir": "/x"}}, (OWNER, ROOT)),
    ("suspend", {"jobs": ["1"]}, OPERATORS),
    ("tell", {"jobs": ["1"], "text": "x"}, (OWNER, ROOT)),
    ("job", {"job": "1"}, (OWNER, *OPERATORS)),
    ("job_environment", {"job": "1"}, (OWNER,)),
    ("rerun", {"job": "1"}, (OWNER,)),
    ("log", {"job": "1"}, (OWNER, ROOT)),
    ("attach", {"job": "1"}, (OWNER, ROOT)),
    ("tunnel", {"job": "1", "argv": ["id"]}, (OWNER, ROOT)),
    ("forward", {"job": "1", "port": 22, "local_port": 22}, (OWNER, ROOT)),
    ("srun", {"words": ["--jobid", "1", "--overlap", "id"], "cwd": "/"}, (OWNER, ROOT)),
    ("code_recorded", {"jobs": ["2"], "note": "x"}, (OWNER, ROOT)),
    ("cancel", {"jobs": ["2"]}, OF_LAB),
]
DENIED = ("not_admin", "not_owner", "denied", "not_yours", "nice")


@pytest.mark.parametrize(("kind", "fields", "allowed"), RIGHTS, ids=lambda value: str(value)[:40])
async def test_each_level_may_send_its_requests(
    short_tmp: Path, kind: str, fields: dict[str, Any], allowed: tuple[str, ...]
) -> None:
    found = set()
    for number, user in enumerate(EVERYONE):
        async with private_site(short_tmp / f"h{number}") as site:
            Path(site.paths.config).write_text(f"{TABLES}[access]\n")
            raw = await connect(site, user)
            try:
                if not is_denied(await first_answer(site, raw, kind, fields)):
                    found.add(user)
            finally:
                await raw.close()
    assert found == set(allowed)


async def first_answer(site: Served, raw: Raw, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the answer, or the first sign that the request was accepted: progress, or a stream from the node."""
    raw.send(kind, id=1, **fields)
    answer = asyncio.ensure_future(raw.next())
    await eventually_async(lambda: answer.done() or bool(site.fleet.joined), what="an answer or a stream")
    if answer.done():
        return answer.result()
    answer.cancel()
    return {"t": "stream"}


def is_denied(answer: dict[str, Any]) -> bool:
    if answer["t"] != "error":
        return False
    return answer["code"] in DENIED or "belongs to" in answer["message"]


async def test_a_right_that_is_taken_away_ends_at_once(short_tmp: Path) -> None:
    async with private_site(short_tmp / "h") as site:
        Path(site.paths.config).write_text(f"{TABLES}[access]\n")
        raw = await connect(site, OPERATOR)
        assert (await raw.request("diagnosis", reset=True))["t"] == "ok"
        Path(site.paths.config).write_text(TABLES.replace("operator", "none"))
        await site.controller.reload(site.paths.config)
        assert (await raw.request("diagnosis", reset=True, number=2))["code"] == "not_admin"
        await raw.close()
