"""How often the site gateway asks Slurm in an hour, with programs that stand for Slurm's commands and a clock of the test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.waiting import WAIT_S, eventually_async

from warpdeck.engines.slurm.cluster.polling import MINUTE_S, Allowance
from warpdeck.engines.slurm.cluster.questions import Question, form_of
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.engines.slurm.site_gateway.answers import SiteAnswers
from warpdeck.engines.slurm.site_gateway.wire import Asked, Outcome, Reply

HOUR_S = 3600
FIRST_RPCS = 12
"""Requests of the first answers to all questions, which come at once."""
SDIAG = "Server thread count:  3\nAgent queue size:     0\n"
SCONTROL = """\
#!/bin/sh
[ ! -e "$0.broken" ] || { echo "slurm_load_ctl_conf error: Unable to contact slurm controller" >&2; exit 1; }
case "$*" in
*config*) printf 'ClusterName = atlas\\nSlurmctldHost[0] = a(10.0.0.1)\\nSlurmctldPort = 6817\\nPrivateData = none\\n' ;;
*partition*) echo 'PartitionName=gpu AllowGroups=ALL Hidden=NO State=UP' ;;
*) echo "$*" ;;
esac
"""


@dataclass
class Hour:
    """A site gateway with a clock of the test, and the requests that it has sent."""

    folder: Path
    now: float = 0.0
    sent: dict[int, int] = field(default_factory=dict)
    """Second -> requests in the minute before it."""

    def __post_init__(self) -> None:
        for name, text in (
            ("squeue", "#!/bin/sh\n"),
            ("scontrol", SCONTROL),
            ("sdiag", f"#!/bin/sh\nprintf '{SDIAG}'"),
        ):
            program = self.folder / name
            program.write_text(text)
            program.chmod(0o755)
        self.conf.write_text("ClusterName=atlas\nInclude more.conf\n")
        self.conf.with_name("more.conf").write_text("# nothing\n")
        environ = {"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_CONF": str(self.conf)}
        commands = SlurmCommands(environ, clock=lambda: self.now)
        self.allowance = Allowance(SlurmSettings())
        self.answers = SiteAnswers(commands, self.allowance, monotonic=lambda: self.now)
        self.ages: dict[Question, float] = {}
        """Greatest age of the answer to each question."""

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def reconfigure(self) -> None:
        """Let slurmctld hide jobs."""
        (self.folder / "scontrol").write_text(SCONTROL.replace("PrivateData = none", "PrivateData = jobs"))

    async def hidden_at(self, *, until: int) -> int:
        """Ask for the queue every five seconds, and return the time from which on it is withheld."""
        for second in range(int(self.now), until, 5):
            self.now = float(second)
            reply = await self.ask(Question.QUEUE, looking=True)
            self.sent[second] = self.allowance.sent(self.now)
            if reply.outcome is Outcome.WITHHELD:
                assert reply.reason == "PrivateData=jobs"
                return second
        raise AssertionError("the change was not noticed")

    async def ask(self, question: Question, *, looking: bool, urgent: bool = False) -> Reply:
        """Ask for any answer, and note its age."""
        asked = Asked(question=question, form=form_of(question), looking=looking, urgent=urgent)
        reply, _ = await self.answers.reply(asked)
        if reply.outcome is Outcome.ANSWER:
            self.ages[question] = max(self.ages.get(question, 0.0), reply.age_s)
        await self.settled()
        return reply

    async def settled(self) -> None:
        """Wait until the command that runs has ended, because it takes no time by the clock of the test."""
        await eventually_async(lambda: not self.answers.is_busy, what="the command has ended")

    def seconds(self, step_s: int) -> Iterator[int]:
        """Let an hour pass."""
        for second in range(0, HOUR_S, step_s):
            self.now = float(second)
            yield second
            self.sent[second] = self.allowance.sent(self.now)

    def busiest_minute(self) -> int:
        return max(self.sent.values())

    def total(self) -> int:
        return sum(count for second, count in self.sent.items() if second % int(MINUTE_S) == 0)


@pytest_asyncio.fixture
async def hour(tmp_path: Path) -> AsyncIterator[Hour]:
    made = Hour(tmp_path)
    yield made
    await made.answers.close()


async def test_three_users_who_look_cause_six_requests_a_minute_at_most(hour: Hour) -> None:
    for _ in hour.seconds(5):
        for question in Question:
            for _ in range(3):
                await hour.ask(question, looking=True)
    assert max(count for second, count in hour.sent.items() if second > MINUTE_S) <= 6
    assert hour.ages[Question.QUEUE] <= 90.0 and hour.ages[Question.NODES] <= 180.0


async def test_gateways_of_which_nobody_looks_cause_one_request_a_minute_at_most(hour: Hour) -> None:
    for _ in hour.seconds(20):
        for question in (Question.QUEUE, Question.NODES):
            await hour.ask(question, looking=False)
    assert hour.total() <= HOUR_S / MINUTE_S + FIRST_RPCS


async def test_without_questions_slurm_is_not_asked(hour: Hour) -> None:
    for _ in hour.seconds(60):
        pass
    assert hour.busiest_minute() == 0


async def test_a_user_who_always_claims_to_have_just_begun_to_look_delays_no_other_question(
    hour: Hour,
) -> None:
    for second in hour.seconds(1):
        for question in (Question.QUEUE, Question.NODES, Question.RESERVATIONS, Question.LICENSES):
            await hour.ask(question, looking=True, urgent=True)
        if second % 5 == 0:
            for question in Question:
                await hour.ask(question, looking=True)
    assert max(count for second, count in hour.sent.items() if second > MINUTE_S) <= 6
    assert hour.ages[Question.QUEUE] <= 90.0
    assert hour.ages[Question.NODES] <= 240.0 and hour.ages[Question.ALLOCATIONS] <= 600.0


async def test_an_error_of_slurm_is_told_with_its_age_and_asked_again_ever_less_often(hour: Hour) -> None:
    (hour.folder / "scontrol.broken").touch()
    reply = await hour.ask(Question.NODES, looking=True)
    assert reply.outcome is Outcome.PROBLEM and "Unable to contact" in reply.reason
    assert "asks again by itself" in reply.hint and reply.age_s == 0.0
    hour.now = 4.0
    assert (await hour.ask(Question.NODES, looking=True)).age_s == 4.0
    assert hour.allowance.sent(hour.now) == 1, "the next attempt comes after five seconds"
    (hour.folder / "scontrol.broken").unlink()
    hour.now = 70.0
    assert (await hour.ask(Question.NODES, looking=True)).outcome is Outcome.ANSWER


async def test_only_a_newer_answer_is_sent(hour: Hour) -> None:
    first, kept = await hour.answers.reply(
        Asked(question="nodes", form=form_of(Question.NODES), looking=True)
    )
    assert first.outcome is Outcome.ANSWER and kept is not None
    hour.now = 5.0
    known = Asked(question="nodes", form=form_of(Question.NODES), newer_than_s=5.0, looking=True)
    again, kept = await hour.answers.reply(known)
    assert again.outcome is Outcome.NOTHING_NEW and kept is None
    older = Asked(question="nodes", form=form_of(Question.NODES), newer_than_s=5.5, looking=True)
    assert (await hour.answers.reply(older))[0].outcome is Outcome.ANSWER


async def test_another_version_of_warpdeck_is_refused_by_name(hour: Hour) -> None:
    for asked in (Asked(question="weather", form=""), Asked(question="queue", form="other")):
        reply, kept = await hour.answers.reply(asked)
        assert (reply.outcome, reply.reason, kept) == (
            Outcome.OTHER_VERSION,
            "it is another version of warpdeck",
            None,
        )
    assert hour.allowance.sent(hour.now) == 0


@pytest.mark.parametrize("changed", ["slurm.conf", "more.conf"])
async def test_a_setting_that_hides_jobs_withholds_at_once_what_was_shared_before(
    hour: Hour, changed: str
) -> None:
    assert (await hour.ask(Question.QUEUE, looking=True)).outcome is Outcome.ANSWER
    hour.now = 90.0
    assert (await hour.ask(Question.QUEUE, looking=True)).outcome is Outcome.ANSWER
    (hour.folder / changed).write_text("PrivateData=jobs\n")
    hour.reconfigure()
    hour.now = 95.0
    assert await hour.hidden_at(until=200) <= 110


async def test_a_setting_is_noticed_within_a_minute_if_slurm_is_reconfigured_long_after_its_file(
    hour: Hour,
) -> None:
    await hour.ask(Question.QUEUE, looking=True)
    hour.now = 90.0
    hour.conf.write_text("PrivateData=jobs\n")
    with pytest.raises(AssertionError, match="not noticed"):
        await hour.hidden_at(until=1500)
    assert max(count for second, count in hour.sent.items() if second > 2 * MINUTE_S) <= 6
    hour.reconfigure()
    assert await hour.hidden_at(until=1700) <= 1500 + MINUTE_S + 10
    read = hour.allowance.sent(hour.now)
    hour.now += MINUTE_S
    assert read and not hour.allowance.sent(hour.now), (
        "slurmctld has taken over the change, so it is not asked again"
    )


async def test_without_a_file_a_setting_is_noticed_within_a_minute(hour: Hour) -> None:
    hour.conf.unlink()
    await hour.ask(Question.QUEUE, looking=True)
    hour.now = 300.0
    await hour.ask(Question.QUEUE, looking=True)
    hour.reconfigure()
    assert await hour.hidden_at(until=500) <= 300 + MINUTE_S + 15
    assert max(count for second, count in hour.sent.items() if second > 2 * MINUTE_S) <= 6


async def test_an_unchanged_configuration_is_read_every_ten_minutes(hour: Hour) -> None:
    log = hour.folder / "asked"
    (hour.folder / "scontrol").write_text(SCONTROL.replace("case", f'echo "$*" >>{log}\ncase', 1))
    for _ in hour.seconds(5):
        await hour.ask(Question.QUEUE, looking=True)
    assert log.read_text().count("config") <= 1 + HOUR_S / 600


async def test_closing_ends_a_command_that_runs(hour: Hour) -> None:
    started = hour.folder / "started"
    (hour.folder / "squeue").write_text(
        f"#!/bin/sh\necho $$ >{started}.new; mv {started}.new {started}; exec sleep 600\n"
    )
    asked = Asked(question="queue", form=form_of(Question.QUEUE), looking=True)
    waiting = asyncio.create_task(hour.answers.reply(asked))
    await eventually_async(started.exists, what="squeue runs")
    async with asyncio.timeout(WAIT_S):
        await hour.answers.close()
    assert (await waiting)[0].outcome is Outcome.NOTHING_NEW
    assert not os.path.exists(f"/proc/{started.read_text().strip()}")
