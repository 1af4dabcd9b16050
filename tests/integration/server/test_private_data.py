"""PrivateData: the rows that a stranger, a coordinator, an operator, an administrator and root get from every request."""

from __future__ import annotations

import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.served import Raw, Served, served

from warpdeck.config import decode
from warpdeck.protocol.request_base import RequestMessage, message_kinds
from warpdeck.server.audit.decision import CHANGES

pytestmark = pytest.mark.root

OWNER, STRANGER, COORDINATOR, OPERATOR, ADMINISTRATOR, ROOT = (
    "nobody",
    "daemon",
    "mail",
    "games",
    "man",
    "root",
)
SECRET = "owners-secret-job"
TABLES = """
[accounts.lab]
coordinators = ["mail"]
[accounts.lab.users.nobody]
[accounts.lab.users.mail]
[accounts.sub]
parent = "lab"
[accounts.other.users.daemon]
[accounts.other.users.games]
[accounts.other.users.man]
[users.games]
admin_level = "operator"
[users.man]
admin_level = "administrator"
[reservations.forlab]
accounts = ["lab"]
start = 2035-01-01T00:00:00
[reservations.forroot]
users = ["root"]
start = 2036-01-01T00:00:00
"""
REQUEST = {
    "script": f"#!/bin/sh\n# {SECRET}\n",
    "name": SECRET,
    "submit_dir": "/",
    "time_limit_s": 60,
    "resources": {"gpus": {"per_node": 1}},
}


@asynccontextmanager
async def private_site(home: Path, *private: str) -> AsyncIterator[Served]:
    """A site with private data and a running, a held and a canceled job of the owner."""
    listed = ", ".join(f'"{each}"' for each in private)
    config = decode(f"{TABLES}[access]\nprivate_data = [{listed}]\n", "config.toml").config
    async with served(home, config=config) as site:
        agent = await site.add_node("a")
        owner = await connect(site, OWNER)
        for number, more in enumerate(({}, {"hold": True}, {"hold": True}), start=1):
            answer = await owner.request("submit", request=REQUEST | more, number=number)
            assert answer["t"] == "ok", answer
        await owner.request("cancel", jobs=["3"], number=9)
        await owner.close()
        await site.until(lambda: bool(site.fleet.launches))
        await site.report("a", agent.begin((1, 0)))
        yield site


async def connect(site: Served, user: str) -> Raw:
    return await Raw.connect(site.paths, uid=pwd.getpwnam(user).pw_uid)


async def answer_of(site: Served, user: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return the answer, with the rows of all pages."""
    raw = await connect(site, user)
    try:
        raw.send(kind, id=1, **fields)
        rows: dict[str, list[Any]] = {}
        while (message := await raw.next())["t"] in ("rows", "progress"):
            for key, part in message.get("part", {}).items():
                rows.setdefault(key, []).extend(part)
        for key, part in rows.items():
            message["result"][key] = [*part, *message["result"][key]]
        return message
    finally:
        await raw.close()


JOB_REQUESTS: dict[str, list[dict[str, Any]]] = {
    "jobs": [
        {},
        {"ids": ["1", "2"], "finished": True},
        {"users": [OWNER]},
        {"fields": ["id", "user", "name", "why"], "finished": True},
    ],
    "steps": [{}],
    "records": [{"ended": True, "scripts": True, "steps": True, "runs": True}],
    "past": [{}, {"counted": True, "query": {"user": OWNER}}],
    "past_costs": [{}],
    "events": [{}],
    "priorities": [{}],
    "nodes": [{}],
    "nodes_at": [],
    "timeline": [],
    "node_check": [{}],
    "partitions": [{}],
    "diagnosis": [{}],
    "shares": [{}],
    "limit_use": [{}],
    "reservations": [{}],
    "licenses": [{}],
    "status": [{}],
    "dry_run": [{"request": {"script": "#!/bin/sh\n", "resources": {"gpus": {"per_node": 4}}, "time_limit_s": 60}}],
}  # fmt: skip
NAMED = ("job", "job_environment", "forecast", "curves", "rerun")
"""Requests that name one job."""


@pytest.mark.parametrize(
    ("user", "sees"),
    [
        (STRANGER, False),
        (OWNER, True),
        (COORDINATOR, True),
        (OPERATOR, True),
        (ADMINISTRATOR, True),
        (ROOT, True),
    ],
)
async def test_jobs_of_others_do_not_exist_for_a_user_who_may_not_see_them(
    short_tmp: Path, user: str, sees: bool
) -> None:
    async with private_site(short_tmp / "h", "jobs", "users", "usage") as site:
        found = {}
        for kind, messages in JOB_REQUESTS.items():
            for fields in messages:
                answer = await answer_of(site, user, kind, **fields)
                assert answer["t"] == "ok", (kind, answer)
                found[kind, str(fields)] = str(answer["result"])
        for kind in NAMED:
            answer = await answer_of(site, user, kind, job="1")
            assert (answer.get("code") == "not_found") is not sees, (kind, answer)
    shows_secret = {kind for (kind, _), text in found.items() if SECRET in text}
    if sees:
        assert {"jobs", "records"} <= shows_secret
    else:
        assert not shows_secret
        leaks = {kind: text for kind, text in found.items() if f"'{OWNER}'" in text}
        assert not leaks, leaks
        assert "'job': 'private'" in found["nodes", "{}"] and "'job': '1'" not in found["nodes", "{}"]


async def test_a_subscription_shows_the_same_jobs(short_tmp: Path) -> None:
    async with private_site(short_tmp / "h", "jobs") as site:
        seen = {}
        for user in (STRANGER, OWNER, COORDINATOR, OPERATOR):
            raw = await connect(site, user)
            raw.send("subscribe", id=1)
            jobs: list[Any] = []
            nodes: list[Any] = []
            while (message := await raw.next())["t"] != "delta" or not message["ready"]:
                jobs += message.get("jobs", [])
                nodes += message.get("nodes", [])
            nodes += message["nodes"]
            seen[user] = len(jobs + message["jobs"]), nodes[0]["jobs"], OWNER in str(nodes)
            await raw.close()
    assert seen == {
        STRANGER: (0, [], False),
        OWNER: (3, ["1"], True),
        COORDINATOR: (3, ["1"], True),
        OPERATOR: (3, ["1"], True),
    }


async def test_ends_of_hidden_jobs_have_no_rows(short_tmp: Path) -> None:
    async with private_site(short_tmp / "h", "jobs") as site:
        raw = await connect(site, STRANGER)
        raw.send("await_ends", id=1, jobs=[3])
        while (message := await raw.next())["t"] != "ends":
            continue
        await raw.close()
    assert message["ended"] == [] and message["done"] == [3]


REFUSED: dict[str, dict[str, dict[str, Any]]] = {
    "nodes": {
        "nodes": {},
        "nodes_at": {"at": 1.0},
        "timeline": {"since": 1.0, "until": 2.0},
        "node_check": {},
        "curves": {"node": "a"},
    },
    "partitions": {"partitions": {}},
    "events": {"nodes_at": {"at": 1.0}, "timeline": {"since": 1.0, "until": 2.0}},
}  # fmt: skip


@pytest.mark.parametrize("subject", REFUSED)
async def test_requests_about_a_private_part_of_the_site_are_refused(short_tmp: Path, subject: str) -> None:
    async with private_site(short_tmp / "h", subject) as site:
        for kind, fields in REFUSED[subject].items():
            codes = {
                user: (await answer_of(site, user, kind, **fields)).get("code", "") == "private"
                for user in (STRANGER, COORDINATOR, OPERATOR, ADMINISTRATOR, ROOT)
            }
            assert codes == {
                STRANGER: True, COORDINATOR: True, OPERATOR: False, ADMINISTRATOR: False, ROOT: False
            }, kind  # fmt: skip


@pytest.mark.parametrize(
    ("user", "names"),
    [
        (STRANGER, set()),
        (OWNER, {"forlab"}),
        (COORDINATOR, {"forlab"}),
        (OPERATOR, {"forlab", "forroot"}),
        (ROOT, {"forlab", "forroot"}),
    ],
)
async def test_users_see_the_reservations_that_they_may_use(
    short_tmp: Path, user: str, names: set[str]
) -> None:
    async with private_site(short_tmp / "h", "reservations") as site:
        answer = await answer_of(site, user, "reservations")
    assert {row["name"] for row in answer["result"]["reservations"]} == names


ALL = {"lab/", "lab/mail", "lab/nobody", "sub/", "other/", "other/daemon", "other/games", "other/man"}
OF_LAB = {"lab/", "lab/mail", "lab/nobody", "sub/"}


@pytest.mark.parametrize(
    ("subject", "user", "lines"),
    [
        ("usage", STRANGER, {"other/daemon"}),
        ("usage", OWNER, {"lab/nobody"}),
        ("usage", COORDINATOR, OF_LAB),
        ("usage", OPERATOR, ALL),
        ("users", STRANGER, {"lab/", "sub/", "other/", "other/daemon"}),
        ("users", COORDINATOR, OF_LAB | {"other/"}),
        ("users", OPERATOR, ALL),
        ("accounts", STRANGER, {each for each in ALL if not each.endswith("/")}),
        ("accounts", COORDINATOR, ALL - {"other/"}),
        ("accounts", ADMINISTRATOR, ALL),
    ],
)
async def test_users_see_their_part_of_the_account_tree(
    short_tmp: Path, subject: str, user: str, lines: set[str]
) -> None:
    async with private_site(short_tmp / "h", subject) as site:
        answer = await answer_of(site, user, "shares")
    assert {f"{row['account']}/{row['user']}" for row in answer["result"]["shares"]} == lines


def test_each_reading_request_is_part_of_these_tests() -> None:
    """A new request that shows data of others needs a decision here."""
    tested = {*JOB_REQUESTS, *NAMED, "subscribe", "await_ends"}
    without_data_of_others = {
        "audit", "config", "settings", "qos", "plugin_options", "have_tree", "forwards", "forward_page", "settle",
        "standby",
    }  # fmt: skip
    of_the_owner_and_root = {"log", "attach", "tunnel", "forward", "srun_attach", "salloc_attach", "command"}
    tags = {kind: str(kind.__struct_config__.tag) for kind in message_kinds(RequestMessage)}
    changes = {tag for kind, tag in tags.items() if kind in CHANGES}
    assert set(tags.values()) - changes == (tested | without_data_of_others | of_the_owner_and_root) - changes
