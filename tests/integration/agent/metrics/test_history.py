"""History of a node and its GPUs.

The tests read it from the agent's memory, from the file that outlives the agent, and from a real agent.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
from pathlib import Path

import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.support.waiting import eventually

from warpdeck_agent.gpu.foreign_users import MOST_MINUTES, MOST_USERS, ForeignUseHistory
from warpdeck_agent.metrics import minute_history
from warpdeck_agent.metrics.minute_history import MOST, MinuteHistory
from warpdeck_agent.metrics.node_history import NodeHistory
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire import json_frame
from warpdeck_agent.wire import messages as wire

MIB = 1 << 20
BEGIN = 60.0 * 25_000_000
DAY_S = 86_400.0
GPUS = [wire.GpuInfo(index=at, uuid=f"GPU-{at}", name="H100", mem_bytes=80 << 30) for at in (0, 1)]


def history(folder: Path, now: float = BEGIN) -> NodeHistory:
    new_history = NodeHistory(Folder(str(folder)))
    new_history.set_gpus(GPUS, now)
    return new_history


def live(known: NodeHistory, begin: float, seconds: int) -> None:
    """Add one reading per second.

    The utilization of the first GPU equals the second of the minute. The second GPU does not answer.
    """
    for second in range(seconds):
        own: dict[str, float | None] = {"cpu_pct": 800.0, "mem_bytes": 5.0 * MIB}
        now = begin + second
        util = int(now % 60)
        busy = wire.GpuSample(index=0, util_pct=util, mem_used_bytes=9 * MIB, power_w=300.06, temp_c=61)
        known.add_reading(own, [busy, wire.GpuSample(index=1, error="the driver hangs")], now)


def at(known: NodeHistory, moment: float) -> wire.Moment:
    return known.moment(wire.AskMoment(ask=7, at_unix=moment), cpus=16)


def test_a_moment_has_the_finest_available_resolution(short_tmp: Path) -> None:
    known = history(short_tmp)
    live(known, BEGIN, 9000)
    end = BEGIN + 9000
    for before_s, step_s in ((30.0, 1.0), (1200.0, 10.0), (8000.0, 60.0)):
        reported = at(known, end - before_s + 0.5)
        assert (reported.ask, reported.step_s, reported.since_unix) == (7, step_s, BEGIN)
        assert reported.begin_unix <= end - before_s + 0.5 < reported.begin_unix + step_s
        (first, other) = reported.gpus
        middle = reported.begin_unix % 60 + (step_s - 1) / 2
        assert first == wire.GpuSample(
            index=0, util_pct=round(middle), mem_used_bytes=9 * MIB, power_w=300.1, temp_c=61
        )
        assert other == wire.GpuSample(index=1)
        assert (reported.cpu_pct, reported.mem_used_bytes) == (50.0, 5 * MIB)


def test_the_current_second_is_answered_with_the_previous_one(short_tmp: Path) -> None:
    known = history(short_tmp)
    live(known, BEGIN, 20)
    assert at(known, BEGIN + 19.5).begin_unix == BEGIN + 18


@pytest.mark.parametrize("moment", [BEGIN - 5.0, BEGIN + 500.0, 0.0, -1e12, 1e18])
def test_a_moment_without_measurements_is_unknown(short_tmp: Path, moment: float) -> None:
    known = history(short_tmp)
    live(known, BEGIN, 100)
    reported = at(known, moment)
    assert reported == wire.Moment(ask=7, since_unix=BEGIN)


# ---- GPU processes outside of jobs


def see(known: NodeHistory, now: float, *processes: wire.GpuProcess, unexplained: int = 0) -> None:
    """Add one reading in which the second GPU does not answer."""
    first = wire.GpuSample(index=0, util_pct=3, processes=list(processes), unexplained_bytes=unexplained)
    known.add_reading(
        {"cpu_pct": 1.0, "mem_bytes": 1.0}, [first, wire.GpuSample(index=1, error="hangs")], now
    )


def stranger(user: str, mib: int, *, job: int = 0) -> wire.GpuProcess:
    return wire.GpuProcess(pid=mib, mem_bytes=mib * MIB, job_id=job, user=user, command="python")


def test_the_peak_memory_of_each_foreign_user_is_kept_per_minute(
    short_tmp: Path,
) -> None:
    known = history(short_tmp)
    see(known, BEGIN)
    see(known, BEGIN + 60, stranger("bob", 300), stranger("bob", 500), stranger("ann", 70, job=4))
    see(known, BEGIN + 61, stranger("bob", 100), stranger("eve", 10), unexplained=7 * MIB)
    see(known, BEGIN + 62)
    see(known, BEGIN + 120)
    was = {moment: at(known, BEGIN + moment).strangers for moment in (0.5, 60.5, 62.5, 120.0)}
    both = wire.Strangers(0, {"bob": 800 * MIB, "eve": 10 * MIB}, 7 * MIB)
    assert was == {0.5: [wire.Strangers(0)], 60.5: [both], 62.5: [both], 120.0: [wire.Strangers(0)]}


def test_a_later_agent_knows_recorded_foreign_users(short_tmp: Path) -> None:
    known = history(short_tmp)
    for minute in range(3):
        see(known, BEGIN + 60 * minute, stranger("bob", 300), unexplained=minute)
    file = short_tmp / minute_history.FILE
    first, second = [json.loads(line) for line in file.read_text().splitlines()]
    del first[1]["GPU-0"]["strangers"]
    file.write_text("".join(json.dumps(line) + "\n" for line in (first, second)))
    later = history(short_tmp, BEGIN + 200)
    reported = at(later, BEGIN + 30)
    assert reported.step_s == 60 and reported.strangers == [], "the agent did not look for foreign processes"
    assert at(later, BEGIN + 90).strangers == [wire.Strangers(0, {"bob": 300 * MIB}, 1)]


def test_few_foreign_users_are_kept_and_equal_minutes_share_one_record(short_tmp: Path) -> None:
    seen = ForeignUseHistory()
    for minute in range(MOST_MINUTES + 50):
        for at_s in (0, 30):
            crowd = [stranger(f"user{number}", number) for number in range(1, 40)]
            now = BEGIN + 60 * minute + at_s
            seen.add_reading("GPU-0", wire.GpuSample(index=0, processes=crowd), now)
        kept = seen.close(int(now // 60))
    users = ("user39", "user38", "user37", "user36")
    assert len(users) == MOST_USERS and [user for user, _ in kept["GPU-0"].users] == list(users)
    assert seen.at("GPU-0", BEGIN + 60 * 49) is None, "older than a day"
    assert seen.at("GPU-0", BEGIN + 60 * 50) is kept["GPU-0"], "the record is kept once"


def test_the_answer_for_eight_gpus_is_small(short_tmp: Path) -> None:
    known = NodeHistory(Folder(str(short_tmp)))
    gpus = [wire.GpuInfo(index=at, uuid=f"GPU-{at}", name="H100", mem_bytes=80 << 30) for at in range(8)]
    known.set_gpus(gpus, BEGIN)
    busy = [
        wire.GpuSample(index=at, util_pct=100, mem_used_bytes=80 << 30, power_w=699.9, temp_c=83)
        for at in range(8)
    ]
    for second in (0, 1):
        known.add_reading({"cpu_pct": 1234.5, "mem_bytes": 2e12}, busy, BEGIN + second)
    reported = at(known, BEGIN)
    assert [gpu.util_pct for gpu in reported.gpus] == [100] * 8
    assert len(json_frame(wire.encode(reported))) < 1_000


def test_an_agent_without_measurements_reports_unknown(short_tmp: Path) -> None:
    assert at(history(short_tmp), BEGIN) == wire.Moment(ask=7)


def test_a_later_agent_knows_the_minutes_of_the_last_day(short_tmp: Path) -> None:
    live(history(short_tmp), BEGIN, 600)
    later = history(short_tmp, BEGIN + 700)
    live(later, BEGIN + 700, 30)
    reported = at(later, BEGIN + 100)
    assert (reported.begin_unix, reported.step_s, reported.since_unix) == (BEGIN + 60, 60.0, BEGIN)
    assert (reported.gpus[0].util_pct, reported.gpus[0].temp_c) == (30, 61)
    assert at(later, BEGIN + 650).step_s == 0, "no agent ran then"
    assert at(later, BEGIN + 710.5).step_s == 1
    (mode,) = {stat.S_IMODE(os.stat(short_tmp / name).st_mode) for name in os.listdir(short_tmp)}
    assert mode == 0o600


def test_records_older_than_a_day_or_in_the_future_are_dropped(short_tmp: Path) -> None:
    live(history(short_tmp), BEGIN, 600)
    assert at(history(short_tmp, BEGIN + DAY_S + 3600), BEGIN + 100).since_unix == 0
    assert at(history(short_tmp, BEGIN - 3600), BEGIN + 100).since_unix == 0


@pytest.mark.parametrize(
    "strange",
    [
        "",
        "{",
        "[]",
        "[1]",
        "7",
        '["x", {}]',
        "[1e999, {}]",
        '[1, {"": 3}]',
        '[1, {"": {"cpu_pct": "x"}}]',
        '[1, {"GPU-0": {"strangers": 3}}]',
        '[1, {"GPU-0": {"strangers": {"ann": "x"}}}]',
        "\udcff",
    ],
)
def test_an_invalid_line_does_not_affect_other_lines(short_tmp: Path, strange: str) -> None:
    live(history(short_tmp), BEGIN, 130)
    file = short_tmp / minute_history.FILE
    whole = file.read_text().splitlines()
    file.write_text("\n".join([whole[0], strange, *whole[1:], "[2500000"]), errors="surrogateescape")
    known = [minute for minute, *_ in MinuteHistory(Folder(str(short_tmp))).read(BEGIN + 200)]
    assert known == [BEGIN / 60, BEGIN / 60 + 1]


def test_records_in_the_future_are_dropped_when_the_clock_goes_back(short_tmp: Path) -> None:
    known = history(short_tmp)
    live(known, BEGIN, 120)
    live(known, BEGIN + DAY_S, 120)
    live(known, BEGIN + 240, 120)
    assert at(known, BEGIN + 270.5).step_s == 1.0 and at(known, BEGIN + 270.5).gpus[0].util_pct == 30
    assert at(known, BEGIN + 30.5).step_s == 60.0, "earlier records are read from the file"
    assert at(known, BEGIN + DAY_S + 30.5).step_s == 0.0
    later = history(short_tmp, BEGIN + 420)
    live(later, BEGIN + 420, 1)
    assert at(later, BEGIN + 250.0).step_s == 60.0, "its minutes are written again"


def test_the_files_are_bounded_and_hold_at_least_a_day(short_tmp: Path) -> None:
    kept = MinuteHistory(Folder(str(short_tmp)))
    for minute in range(2 * MOST + 700):
        kept.add(minute, {"": {"cpu_pct": 1.04}, "GPU-0": {}}, {})
    lines = {name: (short_tmp / name).read_text().splitlines() for name in os.listdir(short_tmp)}
    assert {name: len(found) for name, found in lines.items()} == {
        minute_history.FILE: 700,
        minute_history.OLD: MOST,
    }
    assert json.loads(lines[minute_history.FILE][-1]) == [2 * MOST + 699, {"": {"cpu_pct": 1.0}}]
    later = MinuteHistory(Folder(str(short_tmp)))
    assert len(later.read((2 * MOST + 700) * 60.0)) == MOST
    for minute in range(MOST - 699):
        later.add(minute, {}, {})
    assert len((short_tmp / minute_history.FILE).read_text().splitlines()) == 1, (
        "records of an earlier agent count"
    )


def test_an_oversized_file_is_not_read(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live(history(short_tmp), BEGIN, 130)
    monkeypatch.setattr(minute_history, "MOST_BYTES", 100)
    assert MinuteHistory(Folder(str(short_tmp))).read(BEGIN + 200) == []


# ---- a real agent


@pytest.mark.lab
def test_an_agent_reports_past_moments_of_its_predecessor_too(make_agent: MakeAgent, gpus: Gpus) -> None:
    gpus.show(f"gpu 0 uuid=GPU-0 util=40 power=100000 temp=55 used={9 * MIB} mem={80 << 30}")
    agent = make_agent(**gpus.environ)
    hour_ago = int(time.time() // 60) - 60
    then = {"gpu_util_pct": 97.0, "gpu_mem_bytes": 5.0 * MIB, "gpu_power_w": 650.0, "gpu_temp_c": 70.0}
    (agent.folder / minute_history.FILE).parent.mkdir(parents=True, exist_ok=True)
    (agent.folder / minute_history.FILE).write_text(
        json.dumps([hour_ago, {"": {"cpu_pct": 1.0}, "GPU-0": then}]) + "\n"
    )
    agent.start()

    def ask(at_unix: float) -> wire.Moment:
        agent.link.send(wire.AskMoment(ask=3, at_unix=at_unix))
        return agent.link.expect(wire.Moment)

    began = time.time()
    eventually(
        lambda: ask(time.time() - 1).step_s == 1.0 and ask(time.time() - 1).begin_unix > began - 2,
        what="a reading",
    )
    (now,) = ask(time.time() - 1).gpus
    assert now == wire.GpuSample(index=0, util_pct=40, mem_used_bytes=9 * MIB, power_w=100.0, temp_c=55)
    reported = ask(hour_ago * 60.0 + 30)
    assert (reported.begin_unix, reported.step_s, reported.since_unix) == (
        hour_ago * 60.0,
        60.0,
        hour_ago * 60.0,
    )
    assert reported.gpus == [
        wire.GpuSample(index=0, util_pct=97, mem_used_bytes=5 * MIB, power_w=650.0, temp_c=70)
    ]
    assert ask(hour_ago * 60.0 + 90).step_s == 0


@pytest.mark.lab
def test_an_agent_reports_foreign_gpu_users_of_its_predecessor_too(make_agent: MakeAgent, gpus: Gpus) -> None:
    gpus.show(
        f"gpu 0 uuid=GPU-0 used={300 * MIB} mem={80 << 30}",
        f"proc 0 pid={os.getpid()} mem={300 * MIB} type=C",
    )
    agent = make_agent(**gpus.environ)
    hour_ago = int(time.time() // 60) - 60
    then = {"gpu_util_pct": 97.0, "strangers": {"bob": 5 * MIB}, "unexplained_bytes": 7}
    agent.folder.mkdir(parents=True, exist_ok=True)
    (agent.folder / minute_history.FILE).write_text(
        json.dumps([hour_ago, {"": {"cpu_pct": 1.0}, "GPU-0": then}]) + "\n"
    )
    agent.start()

    def strangers(at_unix: float) -> list[wire.Strangers]:
        agent.link.send(wire.AskMoment(ask=3, at_unix=at_unix))
        return agent.link.expect(wire.Moment).strangers

    me = pwd.getpwuid(os.getuid()).pw_name
    seen = [wire.Strangers(0, {me: 300 * MIB})]
    eventually(lambda: strangers(time.time() - 1) == seen, what="the process of this test is measured")
    assert strangers(hour_ago * 60.0 + 30) == [wire.Strangers(0, {"bob": 5 * MIB}, 7)]
