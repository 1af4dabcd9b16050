"""One site gateway for the gateways of all users, over a real Slurm with real accounts."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.engines.site_rig import (
    OFTEN,
    USERS,
    SiteRig,
    ask,
    engine_row,
    job_names,
    screen,
    site_rig,
)
from tests.integration.engines.slurm_rig import GRES, NODE, SITE, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS, RealSlurm
from tests.support.waiting import WAIT_S, eventually, eventually_async

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.site_gateway.client import AGAIN_S, REPLY_S
from warpdeck.engines.slurm.site_gateway.server import MAX_CONNECTIONS_OF_USER, MAX_QUESTIONS, QUESTION_S
from warpdeck.engines.slurm.site_gateway.wire import Outcome

pytestmark = pytest.mark.slurm
SCREENS = 10
"""Number of open screens of each user."""
ENOUGH_S = 200.0
"""Enough for two more looks at the queue, of which one is due every 40 seconds."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with small_slurm() as running:
        yield running


@pytest.fixture
def rig(slurm: RealSlurm) -> Iterator[SiteRig]:
    with site_rig(slurm) as made:
        yield made


def submit(slurm: RealSlurm, name: str, user: str = "root") -> None:
    done = slurm.run(["sbatch", "--hold", f"--job-name={name}", "--wrap=true"], user=user, cwd=Path("/tmp"))
    assert done.rc == 0, done.err


def uses_site_gateway(paths: Paths) -> bool:
    row = engine_row(paths).site_gateway
    return row is not None and not row.problem


@pytest.mark.parametrize("version", ["22.05", "26.05"])
async def test_the_screens_of_all_users_cause_six_requests_a_minute_together(version: str) -> None:
    with small_slurm(version) as slurm, site_rig(slurm) as rig:
        submit(slurm, "first")
        site = rig.site_gateway()
        homes = [rig.gateway(user, site=site) for user in USERS]
        seen = [set[str]() for _ in range(SCREENS * len(homes))]
        screens = [
            asyncio.create_task(screen(home, names))
            for home, names in zip(homes * SCREENS, seen, strict=True)
        ]
        await eventually_async(
            lambda: all("first" in names for names in seen), what="all screens show the queue"
        )
        slurm.ok("sdiag", "--reset")
        begun = time.monotonic()
        submit(slurm, "second")
        await eventually_async(
            lambda: all("second" in names for names in seen),
            timeout_s=ENOUGH_S,
            what="all screens show the new job",
        )
        read_at = [await asyncio.to_thread(lambda home=home: engine_row(home).read_at) for home in homes]
        await eventually_async(
            lambda: time.monotonic() - begun > 2 * 60.0, timeout_s=ENOUGH_S, what="two minutes"
        )
        minutes = math.ceil((time.monotonic() - begun) / 60.0)
        rpcs = await asyncio.to_thread(slurm.rpcs) - 1  # sbatch of this test
        rows = [await asyncio.to_thread(engine_row, home) for home in homes]
        for task in screens:
            task.cancel()
        await asyncio.wait(screens)
        print(
            f"Slurm {version}: {rpcs} requests in {time.monotonic() - begun:.0f} s for {len(screens)} screens"
        )
        assert rpcs <= 6 * minutes
        for before, row in zip(read_at, rows, strict=True):
            assert (
                row.site_gateway is not None
                and row.site_gateway.owner == "daemon"
                and not row.site_gateway.own
            )
            assert row.requests_a_minute == 0.0 and before is not None
            assert (row.read_at or 0.0) > before, "the queue is read again and again"


def test_a_site_gateway_that_is_killed_is_replaced_without_a_problem_on_screen(
    slurm: RealSlurm, rig: SiteRig
) -> None:
    site = rig.site_gateway(settings=OFTEN)
    home = rig.gateway(USERS[0], site=site, settings=OFTEN)
    eventually(lambda: uses_site_gateway(home), what="the site gateway is used")
    rig.kill(site.home)
    submit(slurm, "after-kill")
    problems = set[str]()

    def shows(name: str) -> bool:
        problems.add(engine_row(home).problem)
        return name in job_names(home)

    eventually(lambda: shows("after-kill"), what="the gateway asks Slurm itself")
    row = engine_row(home).site_gateway
    assert row is not None and row.problem, "it is told why the site gateway is left out"
    rig.start("warpdeck.daemon.site_gateway_process", site, "daemon")
    submit(slurm, "after-restart")
    eventually(
        lambda: shows("after-restart") and uses_site_gateway(home),
        timeout_s=AGAIN_S + WAIT_S,
        what="the site gateway is used again",
    )
    assert problems == {""}


def test_a_site_gateway_that_hangs_is_left_out(slurm: RealSlurm, rig: SiteRig) -> None:
    site = rig.site_gateway(settings=OFTEN)
    home = rig.gateway(USERS[0], site=site, settings=OFTEN)
    eventually(lambda: uses_site_gateway(home), what="the site gateway is used")
    rig.signal(site.home, signal.SIGSTOP)
    submit(slurm, "while-it-hangs")
    eventually(
        lambda: "while-it-hangs" in job_names(home),
        timeout_s=REPLY_S + WAIT_S,
        what="the gateway asks Slurm itself",
    )
    row = engine_row(home)
    assert row.problem == "" and row.site_gateway is not None
    assert "did not answer within" in row.site_gateway.problem


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answers_of_each_version_are_shared_unless_a_partition_is_closed(version: str) -> None:
    with small_slurm(version) as slurm, site_rig(slurm) as rig:
        submit(slurm, "shown")
        site = rig.site_gateway(settings=OFTEN)
        home = rig.gateway(USERS[0], site=site, settings=OFTEN)
        assert {ask(site, each).outcome for each in Question} == {Outcome.ANSWER}
        assert job_names(home) == {"shown"}
        row = eventually(lambda: engine_row(home).site_gateway, what="the site gateway is used")
        assert not row.problem and not row.own
    closed = SITE.strip() + f"\nPartitionName=closed Nodes={NODE} AllowGroups=root State=UP\n"
    with RealSlurm(closed, nodes=(NODE,), gres=GRES, version=version) as slurm, site_rig(slurm) as rig:
        site = rig.site_gateway(settings=OFTEN)
        replies = {each: ask(site, each) for each in Question}
        reasons = {each: reply.reason for each, reply in replies.items() if reply.outcome is Outcome.WITHHELD}
        hidden = (Question.NODES, Question.ALLOCATIONS, Question.PARTITIONS)
        assert reasons == dict.fromkeys(hidden, "partition closed has AllowGroups")
        assert replies[Question.QUEUE].outcome is Outcome.ANSWER


def test_jobs_that_slurm_hides_are_never_shared() -> None:
    """The site gateway of this test is root, which sees the jobs of all users."""
    with (
        RealSlurm(f"PrivateData=jobs\n{SITE.strip()}\n", nodes=(NODE,), gres=GRES) as slurm,
        site_rig(slurm) as rig,
    ):
        for user in USERS:
            submit(slurm, f"of-{user}", user)
        site = rig.site_gateway(account="root", settings=OFTEN)
        homes = {user: rig.gateway(user, site=site, settings=OFTEN) for user in USERS}
        for user, home in homes.items():
            eventually(lambda home=home: job_names(home), what="the jobs of the user")
            assert job_names(home) == {f"of-{user}"}
            row = eventually(lambda home=home: engine_row(home).site_gateway, what="the site gateway is used")
            assert row.own["queue"] == "PrivateData=jobs" and "nodes" not in row.own
        for question in (Question.QUEUE, Question.ALLOCATIONS):
            reply = ask(site, question)
            assert (reply.outcome, reply.reason, reply.size_bytes) == (
                Outcome.WITHHELD,
                "PrivateData=jobs",
                0,
            )
        assert ask(site, Question.NODES).outcome is Outcome.ANSWER


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_a_reconfiguration_that_hides_jobs_is_noticed_soon(version: str) -> None:
    with (
        RealSlurm(f"PrivateData=usage\n{SITE.strip()}\n", nodes=(NODE,), gres=GRES, version=version) as slurm,
        site_rig(slurm) as rig,
    ):
        site = rig.site_gateway(account="root", settings=OFTEN)
        assert ask(site, Question.QUEUE).outcome is Outcome.ANSWER
        conf = Path(slurm.folder) / "slurm.conf"
        conf.write_text(conf.read_text().replace("PrivateData=usage", "PrivateData=jobs"))
        slurm.ok("scontrol", "reconfigure")
        eventually(
            lambda: ask(site, Question.QUEUE).outcome is Outcome.WITHHELD, what="the queue is withheld"
        )


FAKE = """\
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/answers.sock")
os.chmod(sys.argv[1] + "/answers.sock", 0o666)
listener.listen()
while True:
    client, _ = listener.accept()
    open(sys.argv[1] + "/asked", "ab").write(b"c" + client.recv(1000))
    client.close()
"""


def test_a_socket_of_another_user_is_ignored_and_told_nothing(slurm: RealSlurm, rig: SiteRig) -> None:
    submit(slurm, "real")
    attacker, user = USERS
    fake = Paths(rig.home("fake", attacker, ""))
    rig.processes["fake"] = rig.spawn(slurm.python("-c", FAKE, fake.home, user=attacker), home=fake.home)
    eventually(lambda: os.path.exists(f"{fake.home}/answers.sock"), what="the fake listens")
    home = rig.gateway(user, site=fake, owner="", settings=OFTEN)
    eventually(lambda: engine_row(home).site_gateway, what="the fake was noticed")
    row = engine_row(home)
    assert row.site_gateway is not None
    assert row.site_gateway.problem == f"it is ignored, because it belongs to {attacker}"
    assert row.problem == "" and "real" in job_names(home)
    asked = Path(fake.home) / "asked"
    eventually(asked.exists, what="the fake saw a connection")
    assert asked.read_bytes().strip(b"c") == b""


HOSTILE = """\
import socket, sys, time
path, kept = sys.argv[1], []
for number in range(300):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(5)
    try:
        client.connect(path)
        client.sendall((b"\\xff" * 600, b"{}\\n", b'{"question":"queue"', b"GET / HTTP/1.1\\r\\n\\r\\n")[number % 4])
    except OSError:
        pass
    kept.append(client)
print("sent", flush=True)
time.sleep(600)
"""


def test_hostile_clients_neither_stop_the_site_gateway_nor_delay_others(
    slurm: RealSlurm, rig: SiteRig
) -> None:
    submit(slurm, "shown")
    site = rig.site_gateway(settings=OFTEN)
    assert ask(site, Question.QUEUE).outcome is Outcome.ANSWER
    home = rig.home("hostile", USERS[1], "")
    rig.processes[home] = rig.spawn(slurm.python("-c", HOSTILE, site.socket, user=USERS[1]), home=home)
    for _ in range(20):
        begun = time.monotonic()
        assert ask(site, Question.QUEUE).outcome is Outcome.ANSWER
        assert time.monotonic() - begun < QUESTION_S
    assert rig.processes[site.home].poll() is None
    assert "Traceback" not in rig.log(site)


def test_a_user_has_a_limited_number_of_connections_and_questions(slurm: RealSlurm, rig: SiteRig) -> None:
    site = rig.site_gateway(settings=OFTEN)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS_OF_USER + 1)]
    for client in clients:
        client.settimeout(WAIT_S)
        client.connect(site.socket)
    assert clients[-1].recv(1) == b"", "one connection too many is closed"
    assert clients[0].recv(1) == b"", "a client without a question is disconnected"
    for client in clients:
        client.close()
    outcomes = [ask(site, Question.LOAD).outcome for _ in range(2 * MAX_QUESTIONS)]
    assert outcomes[0] is Outcome.ANSWER and Outcome.BUSY in outcomes
