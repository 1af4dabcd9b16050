"""The queue over a real slurmrestd of Slurm 24.11 and 26.05, beside that of squeue, for the same jobs."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.engines.slurm_rig import OFTEN
from tests.slurm_parity.peer.real_slurm import PACKAGES, SITE, SUITES, RealSlurm
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.cluster.answers import Answers
from warpdeck.engines.slurm.cluster.node_reading import Answer, nodes_of, partitions_of_answer
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.cluster.questions import Question
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.engine import gateway
from warpdeck.engines.slurm.reading.config_table import read_config
from warpdeck.engines.slurm.reading.job_table import COLUMNS, SeenJob, read_jobs
from warpdeck.engines.slurm.reading.node_table import flags_of, partitions_of, read_nodes
from warpdeck.engines.slurm.reading.partition_table import read_partitions
from warpdeck.engines.slurm.rest.job_fields import UNTOLD, VERSIONS
from warpdeck.engines.slurm.rest.node_fields import PARTITION_VERSIONS
from warpdeck.engines.slurm.rest.server import get, read_address
from warpdeck.engines.slurm.rest.source import RestSource
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import PartitionRow

pytestmark = pytest.mark.slurm
PARSERS = {"24.11": ("v0.0.42", "v0.0.41"), "26.05": ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")}
WORK = "sleep 10000"
HELD: tuple[tuple[str, ...], ...] = (
    ("-J", 'two\nlines | of=text é "q" 12          x', "--comment=a b=c Reason=x"),
    ("-J", "control\x01\t\x7f\\\r", "--comment=" + "日本語" * 20),
    ("-J", os.fsdecode(b"bytes\xff\xfe")),
    ("-J", "N/A", "--comment=None", "-t", "UNLIMITED"),
    ("-J", "tasks", "--gpus-per-task=1", "-n4", "-p", "gpu,debug"),
    ("-J", "asks", "--mem-per-cpu=300", "-c3", "--gpus=3", "-n2", "--nice=50"),
    ("-J", "nodes", "-N2-4", "--gpus-per-node=a100:2", "-t", "90"),
    ("-J", "array", "--array=1,3,5-9:2%2"),
    ("-J", "usual output", "-o", "slurm-%j.out"),
    ("-J", "own output", "-o", "%x-%A_%a-%N.out", "--array=4"),
)
RUNNING: tuple[tuple[str, ...], ...] = (
    ("-J", "runs", "-n2", "--gres=gpu:2", "--mem=2G"),
    ("-J", "both", "-N2", "-n4", "-p", "debug", "-t", "10"),
    ("-J", "sweep", "--array=1-20%2"),
    ("-J", "stands"),
    ("-J", "requeued"),
    ("-J", "special"),
    ("-J", "cancelled"),
)
REACHED = {
    "stands": "SUSPENDED",
    "requeued": "PENDING",
    "special": "SPECIAL_EXIT",
    "cancelled": "CANCELLED",
    "fails": "FAILED",
    "killed": "FAILED",
    "no folder": "FAILED",
}
IRREGULAR = ",".join(str(number**2) for number in range(1, 50))


@pytest.fixture(scope="module", params=PARSERS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def slurm(version: str) -> Iterator[RealSlurm]:
    """A cluster with jobs in many states, which change no more."""
    plugins = Path(f"{PACKAGES}-{SUITES[version]}/root/usr/lib")
    assert list(plugins.rglob("auth_jwt.so")), "run tests/setup.sh"
    with RealSlurm(SITE, version=version, tokens=True) as running:
        for options in HELD:
            submit(running, "--hold", *options, "--wrap=true")
        ids = {options[1]: submit(running, *options, f"--wrap={WORK}") for options in RUNNING}
        submit(running, "-J", "follows", "-d", f"afterok:{ids['runs']}", "--wrap=true")
        submit(running, "-J", "later", "--begin=now+2hours", "-t", "1-0", "--wrap=true")
        submit(running, "-J", "fails", "--wrap=exit 3")
        submit(running, "-J", "killed", "--wrap=kill -9 $$")
        submit(running, "-J", "no folder", "-o", "/proc/nowhere/x", "--wrap=true")
        parts = ("-n1", "--mem=100", "--wrap=true", ":", "-J", "second", "-n2", "--mem=200")
        submit(running, "--hold", "-J", "first", *parts)
        eventually(lambda: states(running).get("stands") == "RUNNING", what="the jobs run")
        eventually(lambda: states(running).get("special") == "RUNNING", what="the last job runs")
        running.ok("scontrol", "suspend", ids["stands"])
        running.ok("scontrol", "requeuehold", ids["requeued"])
        running.ok("scontrol", "requeuehold", "State=SpecialExit", ids["special"])
        running.ok("scancel", ids["cancelled"])
        running.ok("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=a b")
        submit(running, "-J", "needs n4", "-w", "n4", "--wrap=true")
        eventually(lambda: states(running) == REACHED, what=f"{REACHED}")
        yield running


def submit(slurm: RealSlurm, *options: str) -> str:
    """Submit a job in /tmp, by default without output, and return its id."""
    return slurm.ok("sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", *options).split(";")[0].strip()


def states(slurm: RealSlurm) -> Mapping[str, str]:
    """Return the states of the jobs in REACHED."""
    names = f"--name={','.join(REACHED)}"
    lines = slurm.ok("squeue", "-h", "-t", "all", names, "-O", "State:20,Name:20").splitlines()
    return {line[20:].strip(): line[:20].strip() for line in lines}


@pytest.fixture
def rest_url(slurm: RealSlurm) -> Iterator[str]:
    with slurm.slurmrestd() as path:
        yield f"unix:{path}"


@pytest.fixture
def commands(slurm: RealSlurm, tmp_path: Path) -> SlurmCommands:
    return SlurmCommands({**os.environ, **slurm.wrappers(tmp_path / "bin")})


async def queue(answers: Answers, *, untold: tuple[str, ...] = ()) -> dict[int, SeenJob]:
    """Return the jobs of an answer, without these columns."""
    reading = await answers.open(Question.QUEUE)
    assert reading is not None
    records = [
        record | dict.fromkeys(untold, "") async for some in reading.records(COLUMNS) for record in some
    ]
    return {seen.job.id: seen for seen in read_jobs(records)}


def allowance() -> Allowance:
    return Allowance(SlurmSettings())


async def test_both_sources_tell_the_same_jobs(
    version: str, slurm: RealSlurm, rest_url: str, commands: SlurmCommands
) -> None:
    token = slurm.token()
    for parser in PARSERS[version]:
        source = OneVersion(rest_url, token, parser)
        counted = allowance()
        over_rest = await queue(Answers(commands, counted, rest=source))
        row = source.row()
        assert row is not None and (row.version, row.problem) == (parser, "")
        assert counted.sent(time.monotonic()) == source.rpcs(Question.QUEUE)
        over_squeue = await queue(Answers(commands, allowance()), untold=UNTOLD.get(parser, ()))
        assert over_rest == over_squeue, parser
        assert len(over_rest) > len(HELD) + len(RUNNING) + 5


async def test_both_sources_tell_the_same_nodes_and_partitions(
    version: str, slurm: RealSlurm, rest_url: str, commands: SlurmCommands
) -> None:
    slurm.ok("scontrol", "update", "NodeName=n3", "Comment=hot  spot a=b", "Extra=x")
    slurm.ok("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=fan Comment=é [x@1] q")
    slurm.ok("scontrol", "update", "PartitionName=debug", "State=DRAIN", "GraceTime=30", "MaxNodes=3")
    slurm.ok("scontrol", "update", "PartitionName=debug", "ExclusiveUser=YES", "AllowAccounts=a,b")
    config = read_config(await commands.read("scontrol", "show", "config"))
    token = slurm.token()
    for parser in PARSERS[version]:
        source = OneVersion(rest_url, token, parser, preempts=lambda: config["PreemptMode"])
        over_rest, asked = await site_of(commands, source)
        over_scontrol, _ = await site_of(commands, None)
        assert over_rest == over_scontrol, parser
        assert Question.NODES in asked, source.row()
        assert (Question.PARTITIONS in asked) is (parser in PARTITION_VERSIONS)
    drained = next(row for row in over_rest[0] if row.name == "n4")
    assert (drained.reason, drained.reason_user) == ("fan Comment=é [x@1] q", "root")
    assert [row.exclusive_user for row in over_rest[3]] == [False, True]


async def site_of(
    commands: SlurmCommands, source: OneVersion | None
) -> tuple[tuple[list[NodeRow], object, object, list[PartitionRow]], set[Question]]:
    """Return the nodes with their partitions and flags, the partitions, and the questions that slurmrestd has answered."""
    counted = allowance()
    answers, asked = Answers(commands, counted, rest=source), set[Question]()
    texts: dict[Question, Answer] = {}
    for question in (Question.NODES, Question.PARTITIONS):
        before = counted.sent(time.monotonic())
        reading = await answers.open(question)
        assert reading is not None
        texts[question] = answer = Answer(await reading.text(), reading.mark)
        asked |= {question} if answer.is_table else set()
        assert not answer.is_table or (
            source is not None and counted.sent(time.monotonic()) - before == source.rpcs(question)
        )
    fields = await nodes_of(texts[Question.NODES], commands, count=lambda rpcs: None)
    # These two change by themselves from one look to the next.
    rows = [
        msgspec.structs.replace(row, cpu_pct=None, mem_used_bytes=None) for row in read_nodes(fields, at=1.0)
    ]
    partitions = read_partitions(partitions_of_answer(texts[Question.PARTITIONS]), rows)
    return (rows, partitions_of(fields), flags_of(fields), partitions), asked


async def test_nodes_cost_as_many_requests_as_are_counted(
    version: str, slurm: RealSlurm, rest_url: str
) -> None:
    source = OneVersion(rest_url, slurm.token(), PARSERS[version][0])
    for question in (Question.NODES, Question.PARTITIONS):
        if source.serves(question):
            slurm.ok("sdiag", "--reset")
            assert await source.read(question) is not None
            assert slurm.rpcs() == source.rpcs(question)


class OneVersion(RestSource):
    """A source that asks for one version of data_parser first."""

    def __init__(
        self, url: str, token: str, parser: str, *, preempts: Callable[[], str] = lambda: ""
    ) -> None:
        super().__init__(url, token, preempts=preempts)
        self._version = parser


async def test_an_answer_costs_one_request_and_is_of_the_newest_version(
    version: str, slurm: RealSlurm, rest_url: str
) -> None:
    source = RestSource(rest_url, slurm.token())
    slurm.ok("sdiag", "--reset")
    assert await source.read(Question.QUEUE) is not None
    assert slurm.rpcs() == source.rpcs(Question.QUEUE)
    row = source.row()
    assert row is not None and row.version == PARSERS[version][0] and row.version in VERSIONS


@pytest.mark.parametrize("is_valid", [True, False])
async def test_the_gateway_reads_the_queue_over_slurmrestd_and_says_so(
    version: str, slurm: RealSlurm, tmp_path: Path, is_valid: bool
) -> None:
    """With a token that is too old, squeue is run. It would fail with this token, too."""
    token = slurm.token() if is_valid else f"{slurm.token()}x"
    environ = {**os.environ, **slurm.wrappers(tmp_path / "bin"), "SLURM_JWT": token}
    with slurm.slurmrestd() as path:
        settings = SlurmSettings(
            requests_per_minute=OFTEN,
            idle_requests_per_minute=OFTEN,
            folder=str(tmp_path / "shared"),
            rest_url=f"unix:{path}",
        )
        paths = Paths(str(tmp_path / "home"))
        (tmp_path / "home").mkdir()
        async with gateway(paths, settings, clock=time.time, commands=SlurmCommands(environ)) as made:
            row = made.site.about().rest
            assert row is not None and row.url == settings.rest_url and token not in str(row)
            assert row.version == (PARSERS[version][0] if is_valid else "")
            assert ("refuses the token" in row.problem) is not is_valid
            assert made.site.about().problem == "" and made.commands.environ.get("SLURM_JWT") is None
            assert any(job.request.name == "both" for job in made.cluster.state.jobs.values())


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_queue_is_read_over_tls_from_a_server_with_a_certificate_of_the_sites_own(
    version: str, slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """slurmrestd is behind a server that speaks TLS. The token is sent only if this machine knows the authority."""
    authority, context = certificate(tmp_path)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    token = slurm.token()
    environ = {**os.environ, **slurm.wrappers(tmp_path / "bin"), "SLURM_JWT": token}
    received: list[bytes] = []
    with slurm.slurmrestd() as path:
        async with tls_server(context, path, received) as port:
            settings = SlurmSettings(
                requests_per_minute=OFTEN,
                idle_requests_per_minute=OFTEN,
                folder=str(tmp_path / "shared"),
                rest_url=f"https://localhost:{port}",
            )
            (tmp_path / "home").mkdir()
            paths = Paths(str(tmp_path / "home"))
            async with gateway(paths, settings, clock=time.time, commands=SlurmCommands(environ)) as made:
                row = made.site.about().rest
                assert row is not None and row.url == settings.rest_url
                assert (row.version, bool(row.problem)) == (
                    (PARSERS[version][0], False) if is_known else ("", True)
                )
                assert is_known or "certificate verify failed" in row.problem
                assert any(job.request.name == "both" for job in made.cluster.state.jobs.values())
    assert (token.encode() in b"".join(received)) is is_known


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make an authority, and a certificate of it for localhost. Return the file of the authority and the server's context."""
    authority, key, server = folder / "authority.pem", folder / "key.pem", folder / "server.pem"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *new_key,
        "-keyout",
        f"{key}.ca",
        "-out",
        authority,
        "-subj",
        "/CN=atlas",
        "-days",
        "2",
    )
    openssl("req", *new_key, "-keyout", key, "-out", f"{server}.request", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    signs = ("-CA", authority, "-CAkey", f"{key}.ca", "-extfile", folder / "names", "-days", "2")
    openssl("x509", "-req", "-in", f"{server}.request", *signs, "-out", server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server, key)
    return authority, context


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@asynccontextmanager
async def tls_server(context: ssl.SSLContext, path: Path, received: list[bytes]) -> AsyncIterator[int]:
    """Pass requests over TLS on to a Unix socket, keep them in `received`, and yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest_reader, rest_writer = await asyncio.open_unix_connection(path)
        head = await reader.readuntil(b"\r\n\r\n")
        received.append(head)
        rest_writer.write(head)
        while data := await rest_reader.read(65536):
            writer.write(data)
        rest_writer.close()
        writer.close()

    async with await asyncio.start_server(serve, "localhost", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_an_answer_since_a_time_has_all_jobs_again(
    version: str, slurm: RealSlurm, rest_url: str
) -> None:
    """The parameter update_time does not select the jobs that have changed. Therefore it is not used."""
    address, token, path = read_address(rest_url), slurm.token(), f"/slurm/{PARSERS[version][0]}/jobs/"
    first = json.loads((await get(address, path, token)).body.decode(errors="replace"))
    submit(slurm, "--hold", "-J", "new", "--wrap=true")
    since = f"{path}?update_time={first['last_update']['number']}"
    second = json.loads((await get(address, since, token)).body.decode(errors="replace"))
    assert len(second["jobs"]) == len(first["jobs"]) + 1


async def test_squeue_is_run_if_the_token_is_refused_or_the_answer_is_cut(
    slurm: RealSlurm, rest_url: str, commands: SlurmCommands
) -> None:
    expected = await queue(Answers(commands, allowance()))
    source = RestSource(rest_url, f"{slurm.token()}x")
    assert await queue(Answers(commands, allowance(), rest=source)) == expected
    row = source.row()
    assert row is not None and "refuses the token" in row.problem
    # slurmrestd shortens a list of more than 64 characters.
    array = submit(slurm, "--hold", "-J", "irregular", f"--array={IRREGULAR}", "--wrap=true")
    source = RestSource(rest_url, slurm.token())
    seen = await queue(Answers(commands, allowance(), rest=source))
    assert len(seen) == len(expected) + 1
    row = source.row()
    assert row is not None and row.problem == f"it shortens the list of tasks of array {array}"
