"""The Python library: clients and executor, on this machine's own node with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import (
    FIRST_EXCEPTION,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.e2e.local import typed_program
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually, eventually_async

import warpdeck
from warpdeck.library.callfutures import CallFuture

LONG_S = 60.0
"""Time limit for work of about a second, such as a job on a busy machine."""
SUBMISSION_S = 0.03
"""Approximate duration of a submission, from the first await to the answer."""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller and one node for all tests here."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


@pytest.fixture
def deck(site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[warpdeck.Client]:
    """A client of the site in the test's own folder."""
    monkeypatch.chdir(short_tmp)
    with warpdeck.Client(site.path, start=False) as client:
        yield client


@pytest.fixture
async def adeck(
    site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[warpdeck.AsyncClient]:
    monkeypatch.chdir(short_tmp)
    async with warpdeck.AsyncClient(site.path) as client:
        yield client


@pytest.fixture
def pool(deck: warpdeck.Client) -> Iterator[warpdeck.Executor]:
    with warpdeck.Executor(deck, time=5, snapshot="none") as executor:
        yield executor


@pytest.fixture
def held_pool(deck: warpdeck.Client) -> Iterator[warpdeck.Executor]:
    """An executor with held jobs."""
    executor = warpdeck.Executor(deck, chunksize=3, hold=True, snapshot="none")
    yield executor
    executor.shutdown(cancel_futures=True)


def test_importing_warpdeck_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import warpdeck; dir(warpdeck)\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "print(warpdeck.Outcome.__name__, 'asyncio' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "warpdeck warpdeck._version\nOutcome False\n"


# ---- the client


def test_a_script_can_be_submitted_followed_and_read(deck: warpdeck.Client) -> None:
    Path("train.sh").write_text("#!/bin/sh\n#SBATCH -J learns\necho lr $2\necho $SLURM_CPUS_PER_TASK\n")
    job = deck.submit("train.sh", "--lr", "0.1", cpus_per_task=2, time="10")
    assert list(job.logs()) == ["lr 0.1", "2"]
    outcome = job.wait(timeout_s=LONG_S).check()
    assert [(row.label, row.name, row.state) for row in outcome.rows] == [(job.id, "learns", "COMPLETED")]
    assert job.output() == Path(f"slurm-{job.id}.out").read_bytes() == b"lr 0.1\n2\n"
    assert (job.state(), job.detail().script.splitlines()[1]) == ("COMPLETED", "#SBATCH -J learns")
    assert [row.id for row in deck.jobs(ids=[job.id])] == [int(job.id)]


def test_checking_a_failed_job_raises_its_exit_code(deck: warpdeck.Client) -> None:
    outcome = deck.submit(command=["sh", "-c", "exit 3"]).wait(timeout_s=LONG_S)
    assert (outcome.ok, outcome.exit_code, outcome.rows[0].name) == (False, 3, "sh")
    with pytest.raises(warpdeck.JobFailed, match=r"ended as FAILED, exit code 3:0$"):
        outcome.check()
    assert deck.submit(command="kill -9 $$").wait(timeout_s=LONG_S).exit_code == 137


def test_an_array_can_be_awaited_completely_or_by_task(deck: warpdeck.Client) -> None:
    job = deck.submit(
        text="#!/bin/sh\necho task $SLURM_ARRAY_TASK_ID\nexit $SLURM_ARRAY_TASK_ID\n", array="0-3%2"
    )
    first_task, whole_array = deck.wait([job.task(0), job], timeout_s=LONG_S)
    assert (first_task.ok, [row.array_task_id for row in first_task.rows]) == (True, [0])
    assert (whole_array.ok, whole_array.exit_code, [row.array_task_id for row in whole_array.rows]) == (
        False,
        3,
        [0, 1, 2, 3],
    )
    assert list(job.task(2).logs(follow=False)) == ["task 2"]
    with pytest.raises(warpdeck.JobFailed, match=r"_1 ended as FAILED.*and 2 more of its array"):
        whole_array.check()


def test_waiting_for_an_ended_job_returns_at_once(site: Home, deck: warpdeck.Client) -> None:
    job = deck.submit(command="true")
    job.wait(timeout_s=LONG_S)
    with warpdeck.Client(site.path) as later:
        assert later.job(job.id).wait(timeout_s=LONG_S).ok


def test_a_wait_that_times_out_leaves_the_job_unchanged(deck: warpdeck.Client) -> None:
    job = deck.submit(command="true", hold=True)
    with pytest.raises(TimeoutError):
        job.wait(timeout_s=0.01)
    assert job.state() == "PENDING"
    assert job.why().code == "JobHeldUser"
    job.cancel()
    assert job.wait(timeout_s=LONG_S).rows[0].state == "CANCELLED"


def test_signals_metrics_nodes_and_status(deck: warpdeck.Client) -> None:
    job = deck.submit(
        text="#!/bin/bash\ntrap 'echo caught; exit 0' USR1\necho ready\nwhile :; do sleep 0.05; done\n"
    )
    lines = job.logs()
    assert next(lines) == "ready"
    job.cancel(signal="USR1")
    assert list(lines)[-1] == "caught"
    assert job.wait(timeout_s=LONG_S).ok
    measured = job.metrics()
    assert measured.errors == [] and measured.used is not None
    (node,) = deck.nodes()
    assert deck.node(node.name).cpus == node.cpus
    assert deck.metrics(node=node.name).curves[0].node == node.name
    assert deck.status().nodes == 1


def test_the_code_of_a_job_can_be_listed_and_compared(deck: warpdeck.Client) -> None:
    for git_argv in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        Path("model.py").write_text("layers = 2\n")
        subprocess.run(["git", *git_argv], check=True, timeout=60)
    job = deck.submit(command="cat model.py", snapshot="require")
    Path("model.py").write_text("layers = 3\n")
    assert job.wait(timeout_s=LONG_S).ok
    snapshot = job.snapshot()
    assert snapshot is not None and snapshot.root == os.path.realpath(".")
    assert deck.files(job) == ["model.py"]
    assert "+layers = 3" in deck.diff(job)
    assert "-layers = 3" in deck.diff(job, deck.submit(command="true", snapshot="require"))


def test_invalid_input_raises_a_clear_message(deck: warpdeck.Client) -> None:
    for call, message in (
        (lambda: deck.submit(), "give exactly one of a script, text= or command="),
        (lambda: deck.submit("a.sh", text="b"), "give exactly one of a script, text= or command="),
        (lambda: deck.submit("a.sh"), "there is no script .*/a.sh"),
        (lambda: deck.submit(command=[]), "the command is empty"),
        (lambda: deck.submit(command="true", gpu_type="h100"), "--gpu-type"),
        (lambda: deck.submit(command="true", nodes=4), "nodes"),
        (lambda: deck.job("twelve"), "'twelve' is not a job ID"),
        (lambda: deck.job(99_999_999).state(), "99999999"),
        (lambda: deck.files(deck.submit(command="true", snapshot="none")), "has no snapshot"),
        (lambda: warpdeck.Executor(deck, array="0-3"), "array is set by the executor"),
        (lambda: warpdeck.Client("/nowhere/home", start=False).nodes(), "no controller is running"),
    ):
        with pytest.raises(warpdeck.UserError, match=message) as raised:
            call()
        assert getattr(raised.value, "__notes__", []) == [raised.value.hint] * bool(raised.value.hint)


def test_a_command_line_given_as_a_script_is_refused_with_a_hint(
    deck: warpdeck.Client,
) -> None:
    with pytest.raises(warpdeck.UserError, match="there is no script") as raised:
        deck.submit("echo hi")
    assert "command='echo hi'" in raised.value.hint


def test_a_client_can_be_closed_twice_and_refuses_requests_afterwards(site: Home) -> None:
    deck = warpdeck.Client(site.path)
    deck.close()
    deck.close()
    with pytest.raises(RuntimeError, match="was closed"):
        deck.nodes()


def test_the_typed_program_runs_with_a_blocking_client(deck: warpdeck.Client) -> None:
    assert typed_program.ask(deck, timeout_s=LONG_S) == "typed\n"
    assert typed_program.call(deck, timeout_s=LONG_S) == [0.5, 0.5, 4]


async def test_the_typed_program_runs_in_its_own_loop(adeck: warpdeck.AsyncClient) -> None:
    assert await typed_program.ask_in_a_loop(adeck) == ["0", "1"]


def test_threads_can_share_a_client(deck: warpdeck.Client) -> None:
    exit_codes: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: exit_codes.append(deck.submit(command=f"exit {n}").wait().exit_code)
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert sorted(exit_codes) == [0, 1, 2, 3]


async def test_the_client_works_while_a_loop_runs_as_in_a_notebook(site: Home, short_tmp: Path) -> None:
    with warpdeck.Client(site.path) as deck:
        job = deck.submit(command="echo in a cell", cwd=short_tmp)
        assert list(job.logs()) == ["in a cell"]
        with warpdeck.Executor(deck, cwd=short_tmp) as pool:
            assert await asyncio.wrap_future(pool.submit(len, "four")) == 4


async def test_waits_and_logs_survive_a_killed_controller(
    site: Home, adeck: warpdeck.AsyncClient, short_tmp: Path
) -> None:
    gate = short_tmp / "gate"
    job = await adeck.submit(command=f"echo one; until [ -e {gate} ]; do sleep 0.05; done; echo two")
    lines: list[str] = []

    async def read() -> None:
        async with contextlib.aclosing(job.logs()) as log_lines:
            async for line in log_lines:
                lines.append(line)

    reading, waiting = asyncio.create_task(read()), asyncio.create_task(job.wait(timeout_s=LONG_S))
    await eventually_async(lambda: lines == ["one"], what="the first line")
    site.kill_controller()
    assert (await adeck.status()).nodes == 1
    gate.touch()
    assert (await waiting).ok
    await reading
    assert lines == ["one", "two"]


# ---- the executor


def square(number: int) -> int:
    return number * number


def wait_for_path(path: str) -> str:
    """Wait until the path exists and return it."""
    eventually(lambda: os.path.exists(path), timeout_s=LONG_S)
    return path


def exit_at_7(number: int) -> int:
    """Return the number, but end the process for 7."""
    if number == 7:
        os._exit(7)
    return number


def test_calls_return_in_order_or_as_they_complete(pool: warpdeck.Executor) -> None:
    first = pool.submit(square, 12)
    assert list(pool.map(square, range(6))) == [0, 1, 4, 9, 16, 25]
    assert list(pool.map(lambda a, b: a + b, "abc", "xyz", chunksize=2)) == ["ax", "by", "cz"]
    assert first.result(LONG_S) == 144
    assert {future.result() for future in as_completed([pool.submit(square, n) for n in (1, 2)])} == {1, 4}


def test_calls_in_a_burst_become_one_array(pool: warpdeck.Executor) -> None:
    futures = [pool.submit(square, number) for number in range(12)]
    assert [future.result(LONG_S) for future in futures] == [number * number for number in range(12)]
    jobs = [future.job for future in futures if future.job is not None]
    assert len(jobs) == len(futures)
    submissions = {job.id.split("_")[0] for job in jobs}
    assert len(submissions) < 6


def test_calls_of_a_chunk_share_a_job(pool: warpdeck.Executor) -> None:
    task_ids = list(pool.map(os.getenv, ["SLURM_ARRAY_TASK_ID"] * 5, chunksize=2))
    assert task_ids == ["0", "0", "1", "1", "2"]


def test_calls_after_the_death_of_their_job_raise_its_end(
    pool: warpdeck.Executor,
) -> None:
    results = pool.map(exit_at_7, [6, 7, 8], chunksize=3)
    assert next(results) == 6
    with pytest.raises(warpdeck.JobFailed, match="ended as FAILED, exit code 7:0"):
        next(results)


def test_a_job_is_cancelled_with_the_last_of_its_calls(
    deck: warpdeck.Client, held_pool: warpdeck.Executor
) -> None:
    calls_by_job: dict[str, list[warpdeck.CallFuture[int]]] = {}
    for future in [held_pool.submit(square, number) for number in range(4)]:
        calls_by_job.setdefault(
            eventually(lambda call=future: call.job, what="the call is submitted").id, []
        ).append(future)
    for job, (*others, last) in calls_by_job.items():
        assert all(future.cancel() for future in others)
        assert not last.done() and deck.job(job).state() == "PENDING"
        assert last.cancel()
        assert deck.job(job).wait(timeout_s=LONG_S).rows[0].state == "CANCELLED"


def test_an_argument_that_cannot_be_sent_fails_only_its_call(pool: warpdeck.Executor) -> None:
    refused, sent = pool.submit(len, threading.Lock()), pool.submit(square, 5)
    with pytest.raises(warpdeck.UserError, match="an argument of len cannot be sent to a job: TypeError"):
        refused.result()
    assert sent.result(LONG_S) == 25
    results = pool.map(len, ["ab", threading.Lock(), "c"])
    assert next(results) == 2
    with pytest.raises(warpdeck.UserError, match="cannot be sent"):
        next(results)


def test_a_callback_can_use_the_client(deck: warpdeck.Client, pool: warpdeck.Executor) -> None:
    states: Queue[str] = Queue()
    future = pool.submit(square, 6)

    def put_state(done: Future[int]) -> None:
        assert isinstance(done, CallFuture) and done.job is not None
        states.put(deck.job(done.job.id).state())

    future.add_done_callback(put_state)
    assert (states.get(timeout=LONG_S), future.result()) == ("COMPLETED", 36)


@pytest.mark.parametrize("moment", ["on its way", "in the queue"])
def test_closing_the_client_fails_the_waiting_calls(site: Home, moment: str) -> None:
    deck = warpdeck.Client(site.path)
    pool = warpdeck.Executor(deck, hold=True, job_name="orphan", snapshot="none")
    future = pool.submit(square, 2)
    if moment == "in the queue":
        eventually(lambda: future.job, what="the call is submitted")
    deck.close()
    with pytest.raises(warpdeck.UserError, match="client was closed"):
        future.result(LONG_S)
    with pytest.raises(RuntimeError, match="client was closed"):
        pool.submit(square, 3)
    pool.shutdown()
    with warpdeck.Client(site.path) as other:
        for row in other.jobs():
            if row.name == "orphan":
                other.cancel(row.id)


async def test_a_client_closed_during_a_submission_leaves_no_connection_open(
    site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short_tmp)
    before = open_sockets()
    for step in range(60):
        client = warpdeck.AsyncClient(site.path, start=False)
        submitting = asyncio.create_task(
            client.submit(command="true", hold=True, job_name="orphan", snapshot="none")
        )
        await asyncio.sleep(step * SUBMISSION_S / 60)
        if step % 3:
            submitting.cancel()
        await client.aclose()
        await asyncio.wait([submitting], timeout=LONG_S)
        if not submitting.cancelled() and (error := submitting.exception()) is not None:
            assert isinstance(error, warpdeck.UserError)
    await eventually_async(lambda: open_sockets() <= before, what="every connection is closed")
    async with warpdeck.AsyncClient(site.path) as other:
        for row in await other.jobs():
            if row.name == "orphan":
                await other.cancel(row.id)


def open_sockets() -> int:
    """Return the number of open sockets of this process."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return count


@pytest.fixture(params=["threads", "warpdeck"])
def any_executor(request: pytest.FixtureRequest, deck: warpdeck.Client) -> Iterator[Executor]:
    """The standard library's executor, whose behavior ours copies, and our executor."""
    if request.param == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        with warpdeck.Executor(deck, snapshot="none") as pool:
            yield pool


def test_the_executor_behaves_like_that_of_the_standard_library(
    any_executor: Executor, short_tmp: Path
) -> None:
    gate = short_tmp / "gate"
    waiting = any_executor.submit(wait_for_path, str(gate))
    good, bad = any_executor.submit(divmod, 7, 2), any_executor.submit(divmod, 7, 0)
    assert {good, bad} == set(as_completed([good, bad], LONG_S))
    assert (good.result(), type(bad.exception())) == ((3, 1), ZeroDivisionError)
    calls: list[Future[Any]] = [waiting, good, bad]
    done, pending = wait(calls, return_when=FIRST_EXCEPTION, timeout=LONG_S)
    assert (waiting in pending, bad in done) == (True, True)
    eventually(waiting.running, what="the call runs")
    assert not waiting.cancel()
    with pytest.raises(TimeoutError):
        waiting.result(timeout=0)
    with pytest.raises(TimeoutError):
        next(any_executor.map(wait_for_path, [str(gate)], timeout=0))
    quotients = any_executor.map(divmod, (8, 9, 10), (2, 0))
    assert next(quotients) == (4, 0)
    with pytest.raises(ZeroDivisionError):
        next(quotients)
    assert list(quotients) == list(any_executor.map(divmod, [], [])) == []
    gate.touch()
    assert waiting.result(LONG_S) == str(gate)
    any_executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        any_executor.submit(divmod, 1, 1)


def test_an_exception_of_a_call_is_raised_by_result(pool: warpdeck.Executor) -> None:
    def fails(reason: str) -> None:
        raise LookupError(reason)

    future = pool.submit(fails, "not there")
    with pytest.raises(LookupError, match="not there") as raised:
        future.result(LONG_S)
    assert "in fails" in str(raised.value.__cause__)
    assert future.job is not None and future.job.state() == "FAILED"


def test_a_call_whose_job_dies_raises_its_end_and_last_output(pool: warpdeck.Executor) -> None:
    def dies() -> None:
        print("last words", flush=True)
        os.kill(os.getpid(), 9)

    with pytest.raises(warpdeck.JobFailed, match=r"FAILED, exit code 0:9(.|\n)*last words"):
        pool.submit(dies).result(LONG_S)


def test_a_waiting_call_can_be_cancelled_with_its_job(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, hold=True, snapshot="none") as pool:
        future = pool.submit(square, 2)
        eventually(lambda: future.job, what="the call is submitted")
        assert future.cancel() and future.cancel()
        with pytest.raises(CancelledError):
            future.result()
        assert future.job is not None
        assert future.job.wait(timeout_s=LONG_S).rows[0].state == "CANCELLED"
        late = pool.submit(square, 3)
        pool.shutdown(cancel_futures=True)
        assert late.cancelled()
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(square, 4)


def test_a_job_cancelled_by_others_fails_its_call(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, hold=True, snapshot="none") as pool:
        future = pool.submit(square, 2)
        deck.cancel(eventually(lambda: future.job, what="the call is submitted"))
        with pytest.raises(warpdeck.JobFailed, match="CANCELLED"):
            future.result(LONG_S)


def test_a_refused_submission_fails_its_call(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, nodes=50) as pool, pytest.raises(warpdeck.UserError, match="nodes"):
        pool.submit(square, 2).result(LONG_S)


def test_large_arguments_use_a_file_and_outputs_can_be_kept(deck: warpdeck.Client) -> None:
    data = os.urandom(4_000_000)
    with warpdeck.Executor(deck, folder="kept", snapshot="none") as pool:
        assert pool.submit(lambda bytes_: bytes_ == data[::-1][::-1], data).result(LONG_S)
        returned = pool.submit(print, "printed").result(LONG_S)
    assert returned is None
    assert [path.read_text() for path in Path("kept").glob("*.log") if path.stat().st_size] == ["printed\n"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path("kept").glob("calls.*"))


def test_the_shutdown_of_an_executor_removes_its_client_and_files(
    site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short_tmp)
    monkeypatch.setenv("WARPDECK_HOME", str(site.path))
    before = set(threading.enumerate())
    with warpdeck.Executor() as pool:
        assert pool.submit(os.getcwd).result(LONG_S) == os.path.realpath(short_tmp)
    with warpdeck.Executor(hold=True, snapshot="none") as pool:
        calls = [pool.submit(divmod, 7, number) for number in range(3)]
        eventually(lambda: calls[0].job, what="the call is submitted")
        assert all(future.cancel() for future in calls)
    assert set(threading.enumerate()) <= before
    with warpdeck.Client() as deck:
        assert [row.label for row in deck.jobs() if row.name == "divmod"] == []
    assert list((site.path / "calls").iterdir()) == []
