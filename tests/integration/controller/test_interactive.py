"""The site's settings for terminal sessions: permission to watch, idle time, and the display of idle jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.core import ANN, BOB, NEW_ANN, ROOT, Core, make_request
from tests.support.served import served

from warpdeck.config import Config
from warpdeck.config.tables import Account, Interactive, User
from warpdeck.controller.launch.launching import build_launch
from warpdeck.controller.presenters.terminal_watchers import may_watch
from warpdeck.model import PtySize
from warpdeck.protocol import requests
from warpdeck_agent.wire import messages as wire

LAB = {"lab": Account(users={"ann": User(), "bob": User()}), "other": Account(users={"ann": User()})}


@pytest.mark.parametrize(
    ("watch", "account", "allowed"),
    [
        ("owner", "lab", False),
        ("account", "lab", True),
        ("account", "other", False),
        ("account", "", False),
        ("all", "", True),
    ],
)
def test_the_site_decides_who_may_watch_a_terminal(watch: str, account: str, allowed: bool) -> None:
    core = Core("a")
    job = core.job(core.submit(make_request(account=account)))
    config = Config(interactive=Interactive(watch=watch), accounts=LAB)  # type: ignore[arg-type]
    assert may_watch(BOB, job, config) is allowed
    assert may_watch(NEW_ANN, job, config) is (watch == "all")
    assert may_watch(ANN, job, config) and may_watch(ROOT, job, config)


def test_a_launch_carries_the_idle_limit_of_the_site() -> None:
    core = Core("a")
    job = core.submit(make_request(pty=PtySize(rows=24, cols=80)))
    core.plan()
    config = Config(interactive=Interactive(idle_limit_s=7200, idle_warning_s=60))
    launch = build_launch(core.job(job), 0, submit_host="h", config=config)
    assert (launch.idle_limit_s, launch.idle_warning_s) == (7200.0, 60.0)
    assert build_launch(core.job(job), 0, submit_host="h", config=Config()).idle_limit_s == 0.0


async def test_an_idle_session_is_shown_until_it_is_used_again(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site, await site.client() as client:
        agent = await site.add_node("a")
        session = requests.Submit(request=make_request(pty=PtySize(rows=24, cols=80)))
        job = (await client.ask(session)).job_id
        await site.until(lambda: bool(site.fleet.launches))
        await site.report("a", agent.begin((job, 0)))
        for idle in ([wire.IdleSession(job_id=job, since_unix=77.0)], []):
            sample = wire.Sample(at_unix=1.0, cpu_pct=0.0, mem_used_bytes=0, idle=idle)
            site.controller.nodes.post((agent.name, sample))
            [row] = (await client.ask(requests.Jobs())).jobs
            assert row.idle_since == (77.0 if idle else None)
