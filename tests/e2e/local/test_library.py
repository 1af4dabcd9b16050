"""warpdeck in a program: the clients and the executor, on this machine's own node with real processes."""

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
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from pathlib import Path
from queue import Queue

import pytest
from tests.e2e.local import typed_program
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually, eventually_async

import warpdeck

LONG_S = 60.0
"""For what takes a second: a job to its end on a machine that others use too."""
SUBMISSION_S = 0.03
"""A submission takes about this long, from the first await to the answer."""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller and one node for all tests here."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


@pytest.fixture
def deck(site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[warpdeck.Client]:
    """A client of the site's, in a folder of the test's own."""
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
def held(deck: warpdeck.Client) -> Iterator[warpdeck.Executor]:
    """Its jobs wait."""
    executor = warpdeck.Executor(deck, chunksize=3, hold=True, snapshot="none")
    yield executor
    executor.shutdown(cancel_futures=True)


def test_importing_warpdeck_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import warpdeck; dir(warpdeck)\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "print(warpdeck.Outcome.__name__, 'asyncio' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "warpdeck warpdeck._version\nOutcome False\n"


# ---- the client


def test_a_script_is_submitted_watched_and_its_output_read(deck: warpdeck.Client) -> None:
    Path("train.sh").write_text("#!/bin/sh\n#SBATCH -J learns\necho lr $2\necho $SLURM_CPUS_PER_TASK\n")
    job = deck.submit("train.sh", "--lr", "0.1", cpus_per_task=2, time="10")
    assert list(job.logs()) == ["lr 0.1", "2"]
    outcome = job.wait(timeout_s=LONG_S).check()
    assert [(row.label, row.name, row.state) for row in outcome.rows] == [(job.id, "learns", "COMPLETED")]
    assert job.output() == Path(f"slurm-{job.id}.out").read_bytes() == b"lr 0.1\n2\n"
    assert (job.state(), job.detail().script.splitlines()[1]) == ("COMPLETED", "#SBATCH -J learns")
    assert [row.id for row in deck.jobs(ids=[job.id])] == [int(job.id)]


def test_a_job_that_fails_says_so_when_it_is_checked(deck: warpdeck.Client) -> None:
    outcome = deck.submit(command=["sh", "-c", "exit 3"]).wait(timeout_s=LONG_S)
    assert (outcome.ok, outcome.exit_code, outcome.rows[0].name) == (False, 3, "sh")
    with pytest.raises(warpdeck.JobFailed, match=r"ended as FAILED, exit code 3:0$"):
        outcome.check()
    assert deck.submit(command="kill -9 $$").wait(timeout_s=LONG_S).exit_code == 137


def test_an_array_is_waited_for_whole_or_by_task(deck: warpdeck.Client) -> None:
    job = deck.submit(
        text="#!/bin/sh\necho task $SLURM_ARRAY_TASK_ID\nexit $SLURM_ARRAY_TASK_ID\n", array="0-3%2"
    )
    one, whole = deck.wait([job.task(0), job], timeout_s=LONG_S)
    assert (one.ok, [row.array_task_id for row in one.rows]) == (True, [0])
    assert (whole.ok, whole.exit_code, [row.array_task_id for row in whole.rows]) == (False, 3, [0, 1, 2, 3])
    assert list(job.task(2).logs(follow=False)) == ["task 2"]
    with pytest.raises(warpdeck.JobFailed, match=r"_1 ended as FAILED.*and 2 more of its array"):
        whole.check()


def test_a_job_of_another_day_is_known_and_waiting_for_it_ends_at_once(
    site: Home, deck: warpdeck.Client
) -> None:
    job = deck.submit(command="true")
    job.wait(timeout_s=LONG_S)
    with warpdeck.Client(site.path) as later:
        assert later.job(job.id).wait(timeout_s=LONG_S).ok


def test_a_wait_that_takes_too_long_ends_and_the_job_goes_on(deck: warpdeck.Client) -> None:
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
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        Path("model.py").write_text("layers = 2\n")
        subprocess.run(["git", *words], check=True, timeout=60)
    job = deck.submit(command="cat model.py", snapshot="require")
    Path("model.py").write_text("layers = 3\n")
    assert job.wait(timeout_s=LONG_S).ok
    snapshot = job.snapshot()
    assert snapshot is not None and snapshot.root == os.path.realpath(".")
    assert deck.files(job) == ["model.py"]
    assert "+layers = 3" in deck.diff(job)
    assert "-layers = 3" in deck.diff(job, deck.submit(command="true", snapshot="require"))


def test_bad_input_is_one_clear_sentence(deck: warpdeck.Client) -> None:
    for call, said in (
        (lambda: deck.submit(), "give exactly one of a script, text= or command="),
        (lambda: deck.submit("a.sh", text="b"), "give exactly one of a script, text= or command="),
        (lambda: deck.submit("a.sh"), "there is no script .*/a.sh"),
        (lambda: deck.submit(command=[]), "the command is empty"),
        (lambda: deck.submit(command="true", gpu_type="h100"), "--gpu-type"),
        (lambda: deck.submit(command="true", nodes=4), "nodes"),
        (lambda: deck.job("twelve"), "'twelve' is no job id"),
        (lambda: deck.job(99_999_999).state(), "99999999"),
        (lambda: deck.files(deck.submit(command="true", snapshot="none")), "has no snapshot"),
        (lambda: warpdeck.Executor(deck, array="0-3"), "array is set by the executor"),
        (lambda: warpdeck.Client("/nowhere/home", start=False).nodes(), "no controller is running"),
    ):
        with pytest.raises(warpdeck.UserError, match=said) as raised:
            call()
        assert getattr(raised.value, "__notes__", []) == [raised.value.hint] * bool(raised.value.hint)


def test_a_command_line_in_the_place_of_a_script_is_refused_with_how_it_is_given(
    deck: warpdeck.Client,
) -> None:
    with pytest.raises(warpdeck.UserError, match="there is no script") as raised:
        deck.submit("echo hi")
    assert "command='echo hi'" in raised.value.hint


def test_a_client_can_be_closed_twice_and_then_says_so(site: Home) -> None:
    deck = warpdeck.Client(site.path)
    deck.close()
    deck.close()
    with pytest.raises(RuntimeError, match="was closed"):
        deck.nodes()


def test_a_typed_program_gets_what_the_types_say(deck: warpdeck.Client) -> None:
    assert typed_program.ask(deck, timeout_s=LONG_S) == "typed\n"
    assert typed_program.call(deck, timeout_s=LONG_S) == [0.5, 0.5, 4]


async def test_a_typed_program_asks_in_its_own_loop(adeck: warpdeck.AsyncClient) -> None:
    assert await typed_program.ask_in_a_loop(adeck) == ["0", "1"]


def test_threads_share_a_client(deck: warpdeck.Client) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(deck.submit(command=f"exit {n}").wait().exit_code))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert sorted(found) == [0, 1, 2, 3]


async def test_the_client_works_where_a_loop_runs_already_as_in_a_notebook(
    site: Home, short_tmp: Path
) -> None:
    with warpdeck.Client(site.path) as deck:
        job = deck.submit(command="echo in a cell", cwd=short_tmp)
        assert list(job.logs()) == ["in a cell"]
        with warpdeck.Executor(deck, cwd=short_tmp) as pool:
            assert await asyncio.wrap_future(pool.submit(len, "four")) == 4


async def test_waits_and_logs_outlive_the_controller(
    site: Home, adeck: warpdeck.AsyncClient, short_tmp: Path
) -> None:
    gate = short_tmp / "gate"
    job = await adeck.submit(command=f"echo one; until [ -e {gate} ]; do sleep 0.05; done; echo two")
    lines: list[str] = []

    async def read() -> None:
        async with contextlib.aclosing(job.logs()) as found:
            async for line in found:
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


def waits_for(path: str) -> str:
    """The path, once it is there."""
    eventually(lambda: os.path.exists(path), timeout_s=LONG_S)
    return path


def exits_at_7(number: int) -> int:
    """The number, but 7 ends the process."""
    if number == 7:
        os._exit(7)
    return number


def test_calls_answer_in_order_or_as_they_end(pool: warpdeck.Executor) -> None:
    first = pool.submit(square, 12)
    assert list(pool.map(square, range(6))) == [0, 1, 4, 9, 16, 25]
    assert list(pool.map(lambda a, b: a + b, "abc", "xyz", chunksize=2)) == ["ax", "by", "cz"]
    assert first.result(LONG_S) == 144
    assert {future.result() for future in as_completed([pool.submit(square, n) for n in (1, 2)])} == {1, 4}


def test_what_is_called_in_a_burst_is_one_array(pool: warpdeck.Executor) -> None:
    futures = [pool.submit(square, number) for number in range(12)]
    assert [future.result(LONG_S) for future in futures] == [number * number for number in range(12)]
    submissions = {future.job.id.split("_")[0] for future in futures}
    assert len(submissions) < 6


def test_calls_of_a_chunk_share_a_job(pool: warpdeck.Executor) -> None:
    found = list(pool.map(os.getenv, ["SLURM_ARRAY_TASK_ID"] * 5, chunksize=2))
    assert found == ["0", "0", "1", "1", "2"]


def test_of_a_job_that_dies_the_calls_before_have_answered_and_those_behind_say_how_it_ended(
    pool: warpdeck.Executor,
) -> None:
    results = pool.map(exits_at_7, [6, 7, 8], chunksize=3)
    assert next(results) == 6
    with pytest.raises(warpdeck.JobFailed, match="ended as FAILED, exit code 7:0"):
        next(results)


def test_a_call_is_cancelled_alone_and_its_job_with_the_last_of_them(
    deck: warpdeck.Client, held: warpdeck.Executor
) -> None:
    sharing: dict[str, list[warpdeck.CallFuture[int]]] = {}
    for future in [held.submit(square, number) for number in range(4)]:
        sharing.setdefault(eventually(lambda call=future: call.job, what="it was submitted").id, []).append(
            future
        )
    for job, (*others, last) in sharing.items():
        assert all(future.cancel() for future in others)
        assert not last.done() and deck.job(job).state() == "PENDING"
        assert last.cancel()
        assert deck.job(job).wait(timeout_s=LONG_S).rows[0].state == "CANCELLED"


def test_what_cannot_be_sent_is_the_call_s_error_and_the_others_go_on(pool: warpdeck.Executor) -> None:
    refused, sent = pool.submit(len, threading.Lock()), pool.submit(square, 5)
    with pytest.raises(warpdeck.UserError, match="an argument of len cannot be sent to a job: TypeError"):
        refused.result()
    assert sent.result(LONG_S) == 25
    results = pool.map(len, ["ab", threading.Lock(), "c"])
    assert next(results) == 2
    with pytest.raises(warpdeck.UserError, match="cannot be sent"):
        next(results)


def test_a_callback_may_ask_the_client(deck: warpdeck.Client, pool: warpdeck.Executor) -> None:
    heard: Queue[str] = Queue()
    future = pool.submit(square, 6)
    future.add_done_callback(lambda done: heard.put(deck.job(done.job.id).state()))
    assert (heard.get(timeout=LONG_S), future.result()) == ("COMPLETED", 36)


@pytest.mark.parametrize("moment", ["on its way", "in the queue"])
def test_a_client_that_is_closed_tells_the_calls_that_wait(site: Home, moment: str) -> None:
    deck = warpdeck.Client(site.path)
    pool = warpdeck.Executor(deck, hold=True, job_name="orphan", snapshot="none")
    future = pool.submit(square, 2)
    if moment == "in the queue":
        eventually(lambda: future.job, what="it was submitted")
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


async def test_a_client_that_is_closed_at_any_moment_of_a_submission_leaves_no_connection_open(
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
    """Return how many sockets this process has open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return found


@pytest.fixture(params=["threads", "warpdeck"])
def either(request: pytest.FixtureRequest, deck: warpdeck.Client) -> Iterator[Executor]:
    """The standard library's executor, whose manner ours has, and ours."""
    if request.param == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        with warpdeck.Executor(deck, snapshot="none") as ours:
            yield ours


def test_an_executor_s_manner_is_the_standard_library_s(either: Executor, short_tmp: Path) -> None:
    gate = short_tmp / "gate"
    waits = either.submit(waits_for, str(gate))
    good, bad = either.submit(divmod, 7, 2), either.submit(divmod, 7, 0)
    assert {good, bad} == set(as_completed([good, bad], LONG_S))
    assert (good.result(), type(bad.exception())) == ((3, 1), ZeroDivisionError)
    done, pending = wait([waits, good, bad], return_when=FIRST_EXCEPTION, timeout=LONG_S)
    assert (waits in pending, bad in done) == (True, True)
    eventually(waits.running, what="it runs")
    assert not waits.cancel()
    with pytest.raises(TimeoutError):
        waits.result(timeout=0)
    with pytest.raises(TimeoutError):
        next(either.map(waits_for, [str(gate)], timeout=0))
    quotients = either.map(divmod, (8, 9, 10), (2, 0))
    assert next(quotients) == (4, 0)
    with pytest.raises(ZeroDivisionError):
        next(quotients)
    assert list(quotients) == list(either.map(divmod, [], [])) == []
    gate.touch()
    assert waits.result(LONG_S) == str(gate)
    either.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        either.submit(divmod, 1, 1)


def test_an_exception_is_raised_where_the_result_is_asked_for(pool: warpdeck.Executor) -> None:
    def fails(reason: str) -> None:
        raise LookupError(reason)

    future = pool.submit(fails, "not there")
    with pytest.raises(LookupError, match="not there") as raised:
        future.result(LONG_S)
    assert "in fails" in str(raised.value.__cause__)
    assert future.job.state() == "FAILED"


def test_a_call_whose_job_dies_says_how_and_shows_its_last_words(pool: warpdeck.Executor) -> None:
    def dies() -> None:
        print("last words", flush=True)
        os.kill(os.getpid(), 9)

    with pytest.raises(warpdeck.JobFailed, match=r"FAILED, exit code 0:9(.|\n)*last words"):
        pool.submit(dies).result(LONG_S)


def test_a_call_that_waits_can_be_cancelled_and_its_job_with_it(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, hold=True, snapshot="none") as pool:
        future = pool.submit(square, 2)
        eventually(lambda: future.job, what="it was submitted")
        assert future.cancel() and future.cancel()
        with pytest.raises(CancelledError):
            future.result()
        assert future.job.wait(timeout_s=LONG_S).rows[0].state == "CANCELLED"
        late = pool.submit(square, 3)
        pool.shutdown(cancel_futures=True)
        assert late.cancelled()
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(square, 4)


def test_a_job_that_somebody_else_cancels_is_the_call_s_error(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, hold=True, snapshot="none") as pool:
        future = pool.submit(square, 2)
        deck.cancel(eventually(lambda: future.job, what="it was submitted"))
        with pytest.raises(warpdeck.JobFailed, match="CANCELLED"):
            future.result(LONG_S)


def test_a_submission_that_is_refused_is_the_call_s_error(deck: warpdeck.Client) -> None:
    with warpdeck.Executor(deck, nodes=50) as pool, pytest.raises(warpdeck.UserError, match="nodes"):
        pool.submit(square, 2).result(LONG_S)


def test_arguments_larger_than_a_script_go_by_a_file_and_outputs_may_be_kept(deck: warpdeck.Client) -> None:
    data = os.urandom(4_000_000)
    with warpdeck.Executor(deck, folder="kept", snapshot="none") as pool:
        assert pool.submit(lambda bytes_: bytes_ == data[::-1][::-1], data).result(LONG_S)
        number = pool.submit(print, "printed").result(LONG_S)
    assert number is None
    assert [path.read_text() for path in Path("kept").glob("*.log") if path.stat().st_size] == ["printed\n"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path("kept").glob("calls.*"))


def test_an_executor_s_own_client_and_files_go_with_it(
    site: Home, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short_tmp)
    monkeypatch.setenv("WARPDECK_HOME", str(site.path))
    before = set(threading.enumerate())
    with warpdeck.Executor() as pool:
        assert pool.submit(os.getcwd).result(LONG_S) == os.path.realpath(short_tmp)
    with warpdeck.Executor(hold=True, snapshot="none") as pool:
        calls = [pool.submit(divmod, 7, number) for number in range(3)]
        eventually(lambda: calls[0].job, what="it was submitted")
        assert all(future.cancel() for future in calls)
    assert set(threading.enumerate()) <= before
    with warpdeck.Client() as deck:
        assert [row.label for row in deck.jobs() if row.name == "divmod"] == []
    assert list((site.path / "calls").iterdir()) == []
