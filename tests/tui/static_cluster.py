"""The app over static data at a fixed time, for pictures of its screens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from warpdeck.base.paths import Paths
from warpdeck.client.peek_terminal import Glance
from warpdeck.model import GpuLinks
from warpdeck.model.finished_jobs import FinishedQuery, GroupCost
from warpdeck.notation.filters.job_filter import holds
from warpdeck.protocol.job_rows import (
    CurveRow,
    ForwardRow,
    GpuUse,
    JobDetail,
    JobEvent,
    JobRow,
    PastJobs,
    UsageCurves,
    UsageRow,
    WhyRow,
)
from warpdeck.protocol.node_rows import CheckRow, GpuRow, NodeEventRow, NodeRow, PastNodeRow, ProcessRow
from warpdeck.protocol.results import Delta, Timeline, Welcome
from warpdeck.protocol.site_rows import AheadRow, ForecastRow
from warpdeck_tui.app import DeckApp
from warpdeck_tui.data.connection import Listener
from warpdeck_tui.viewmodels.site.usage import cost

from .static_site import NOW, StaticSite

GIB = 1 << 30
USERS = ("alice", "bob", "carol", "dave", "erin")
NAMES = ("llama-8b-dpo", "vit-sweep", "diffusion-xl", "eval-mmlu", "tokenize")
SHELL = (
    b"(base) \x1b[1;32mann@gpu01\x1b[0m:\x1b[1;34m~\x1b[0m$ python\r\n"
    b">>> import torch\r\n>>> torch.cuda.device_count()\r\n1\r\n>>> "
)
LOG = (
    b"".join(
        b"step %4d  loss %.4f  lr 3.0e-04  tokens/s %d\n"
        % (step, 2.5 / (1 + step / 90) + 0.9, 41_000 + 7 * step % 900)
        for step in range(400)
    )
    + b"\x1b[33mWARNING\x1b[0m grad norm 11.2 clipped\n"
)


def _job(number: int, **fields: object) -> JobRow:
    at = number % 5
    base: dict[str, object] = {
        "id": number,
        "label": str(number),
        "array_job_id": number,
        "name": NAMES[at],
        "user": USERS[(number // 2) % 5],
        "account": ("vision", "nlp")[number % 2],
        "partition": "gpu",
        "qos": "normal",
        "nodes": 1,
        "cpus": 16,
        "gpus": (8, 1, 4, 2, 0)[at],
        "gpu_type": "h100",
        "mem_bytes": 128 * GIB,
        "time_limit_s": 86_400,
        "submit": NOW - 9000 - number,
    }
    return JobRow(**{**base, **fields})  # type: ignore[arg-type]


def _running(number: int, node: str, gpus: int, *, util: int = 93, **fields: object) -> JobRow:
    fields = {"start": NOW - 700 * (number % 40) - 130, "gpu_util_pct": util, "node_list": node, **fields}
    return _job(number, state="RUNNING", state_short="R", gpus=gpus, **fields)


def _ended(number: int, state: str, short: str, code: str, cause: str = "", **fields: object) -> JobRow:
    used = UsageRow(
        cpu_seconds=90_000.0, peak_mem_bytes=61 * GIB, gpu_util_pct=40.0 + 13 * (number % 5), gpu_idle_pct=9.0
    )
    fields = {"start": NOW - 9000, "end": NOW - 60 * (1 + number % 50), "node_list": "gpu02", **fields}
    return _job(number, state=state, state_short=short, exit_code=code, exit_cause=cause, used=used, **fields)


HELD = ("101", "101", "102", "", "103", "", "", "")
"""The job that holds each node. On the sixth node, four array tasks hold one GPU each."""


def jobs() -> list[JobRow]:
    """Return jobs in every state that the queue shows."""
    ahead = WhyRow(
        code="Priority",
        sentence="needs 8 GPUs of type h100 on one node; best is gpu02 with 4 free",
        expected_start=NOW + 4100,
    )
    held = WhyRow(code="JobHeldUser", sentence="held; `warpdeck release 131` releases it")
    limit = WhyRow(code="QOSMaxGRESPerUser", sentence="QoS normal lets carol have 8 GPUs, and she has 8")
    task: dict[str, Any] = {"array_job_id": 104, "name": "vit-sweep", "user": "bob"}
    return [
        _running(101, "gpu[01-02]", 16, nodes=2, name="llama-70b-pretrain", user="alice"),
        _running(102, "gpu03", 8, util=71),
        _running(103, "gpu05", 8, util=2, user="carol"),
        *(
            _running(
                110 + at,
                "gpu06",
                1,
                label=f"104_{at}",
                array_task_id=at,
                util=60 + at,
                sweep=f"lr=3e-4 seed={at}",
                **task,
            )
            for at in range(4)
        ),
        _ended(119, "FAILED", "F", "1:0", label="104_4", array_task_id=4, **task),
        _job(104, label="104_[5-19]", tasks_pending=15, **task, why=ahead, priority=4100),
        _running(
            120, "gpu06", 0, util=0, name="jupyter", user="alice", interactive=True, idle_since=NOW - 4000
        ),
        _job(130, state="PENDING", state_short="PD", why=ahead, priority=5210),
        _job(131, state="PENDING", state_short="PD", why=held, held=True, priority=0),
        _job(132, state="PENDING", state_short="PD", why=limit, user="carol", priority=3990),
        _ended(90, "COMPLETED", "CD", "0:0"),
        _ended(91, "OUT_OF_MEMORY", "OOM", "0:9", "oom"),
        _ended(92, "TIMEOUT", "TO", "0:15", "timeout"),
        _ended(93, "CANCELLED", "CA", "0:15", "cancelled"),
    ]


def past() -> list[JobRow]:
    """Return ended jobs, newest first."""
    ends = (("COMPLETED", "CD", "0:0", ""), ("FAILED", "F", "1:0", ""), ("COMPLETED", "CD", "0:0", ""))
    old = [
        _ended(80 - at, *ends[at % 3], start=NOW - 7200 * at - 5000, end=NOW - 7100 * at - 600)
        for at in range(45)
    ]
    return sorted([row for row in jobs() if row.end is not None] + old, key=lambda row: -(row.end or 0))


def nodes() -> list[NodeRow]:
    """Return eight nodes of eight GPUs. One is drained, and one has a foreign process."""
    return [_node(at) for at in range(8)]


def _node(at: int) -> NodeRow:
    name = f"gpu{at + 1:02d}"
    gpus = [_gpu(at, index, _holder(at, index)) for index in range(8)]
    drained = at == 7
    health = [CheckRow(check="ecc", verdict="fail", message="2 uncorrected errors", gpu=5)] if drained else []
    busy = sum(bool(gpu.job) for gpu in gpus)
    return NodeRow(
        name=name,
        target=f"{name}.example.org",
        state="drained" if drained else "allocated" if busy == 8 else "mixed" if busy else "idle",
        reason="ECC errors on GPU 5, to be swapped" if drained else "",
        reason_at=NOW - 7200 if drained else None,
        hostname=name,
        cpus=96,
        cpus_used=busy * 8,
        cpu_pct=11.0 * busy,
        mem_bytes=1024 * GIB,
        mem_used_bytes=(60 + 90 * busy) * GIB,
        gpus=gpus,
        driver="550.54",
        kernel="6.1.0",
        health=health,
        jobs=sorted({gpu.job for gpu in gpus if gpu.job}),
        at=NOW - 1,
    )


def _then(at: int, moment: float) -> PastNodeRow:
    """Return the node at a past time, with one more job. The third node does not answer."""
    busy = at < 5
    gpus = [_gpu_then(at, index, busy=busy) for index in range(8)]
    known = at != 2
    return PastNodeRow(
        name=f"gpu{at + 1:02d}",
        target=f"gpu{at + 1:02d}.example.org",
        state="allocated" if busy else "drained" if at == 6 else "idle",
        reason="new cables" if at == 6 else "",
        cpus=96,
        cpus_used=64 * busy,
        cpu_pct=61.0 if known else None,
        mem_bytes=1024 * GIB,
        mem_used_bytes=700 * GIB if known else None,
        gpus=gpus,
        jobs=[_held_then(at)] if busy else [],
        begin=moment // 60 * 60 if known else None,
        step_s=60.0 if known else None,
        unknown="" if known else "gpu03 does not answer: it gave no answer for 2 s",
    )


def _held_then(at: int) -> str:
    return "88" if at > 2 else "101"


def _gpu_then(at: int, index: int, *, busy: bool) -> GpuRow:
    util = (70 + 7 * at + 5 * index) % 100 if busy else 0
    known: dict[str, object] = {
        "util_pct": util,
        "mem_used_bytes": 61 * GIB * busy,
        "power_w": 80.0 + 6 * util,
        "temp_c": 33 + util // 3,
    }
    return GpuRow(
        index=index,
        uuid=f"GPU-{at}-{index}",
        name="NVIDIA H100 80GB HBM3",
        type="h100",
        mem_bytes=80 * GIB,
        job=_held_then(at) if busy else "",
        job_user="carol" if busy else "",
        blocked="held by eve outside the queue (21.0 GiB)" if (at, index) == (7, 3) else "",
        **(known if at != 2 else {}),  # type: ignore[arg-type]
    )


def _holder(node: int, index: int) -> str:
    return f"104_{index}" if node == 5 and index < 4 else HELD[node]


def _links(util: int, *, lanes: int) -> GpuLinks:
    """Return eighteen NVLinks, and a PCIe link that an idle GPU slows down."""
    moved = util * 30_000_000
    return GpuLinks(
        pcie_gen=5 if util else 1,
        pcie_gen_max=5,
        pcie_width=lanes,
        pcie_width_max=16,
        pcie_tx_bytes_s=moved // 3,
        pcie_rx_bytes_s=moved,
        nvlinks=18,
        nvlinks_up=18,
        nvlink_tx_bytes_s=50 * moved,
        nvlink_rx_bytes_s=49 * moved,
    )


def _gpu(node: int, index: int, job: str) -> GpuRow:
    util = (2 if job == "103" else 60 + (node * 13 + index * 7) % 40) if job else 0
    stranger = (node, index) == (3, 3)
    process = ProcessRow(pid=4711, mem_bytes=11 * GIB, user="dave", command="jupyter-lab", job="")
    own = ProcessRow(
        pid=3000 + 8 * node + index, mem_bytes=60 * GIB, user="alice", command="python train.py", job=job
    )
    return GpuRow(
        index=index,
        uuid=f"GPU-{node}-{index}",
        name="NVIDIA H100 80GB HBM3",
        type="h100",
        mem_bytes=80 * GIB,
        util_pct=util,
        mem_used_bytes=(60 + index) * GIB if job else 0,
        power_w=80.0 + 6 * util,
        temp_c=34 + util // 3,
        island=index // 4,
        numa_node=index // 4,
        links=_links(util, lanes=8 if (node, index) == (0, 1) else 16),
        job=job,
        job_user="alice" if job == "101" else "bob" if job else "",
        blocked="a process of no job: jupyter-lab of dave" if stranger else "",
        processes=[process] if stranger else [own] if job else [],
    )


def _curve(gpu: int | None) -> CurveRow:
    points = tuple(50 + 40 * ((at * 7 + (gpu or 0) * 3) % 10) / 10 for at in range(120))
    columns: dict[str, tuple[float | None, ...]]
    if gpu is None:
        columns = {
            "cpu_pct": tuple(60 * each for each in points),
            "mem_bytes": tuple(8 * GIB * each for each in points),
        }
    else:
        columns = {
            "gpu_util_pct": points,
            "gpu_power_w": tuple(80 + 6 * each for each in points),
            "gpu_mem_bytes": tuple(GIB * (55 + each / 10) for each in points),
        }
    return CurveRow(node="gpu01", begin=NOW - 1200, step_s=10.0, columns=columns, gpu=gpu)


class StaticCore:
    """Implements the interface of Core with the static data."""

    paths = Paths("/nowhere")
    ask = StaticSite().ask

    async def watch(self, listener: Listener) -> None:
        listener.linked(Welcome(user="alice"))
        listener.told(Delta(jobs=jobs(), nodes=nodes(), ready=True))
        await asyncio.Event().wait()

    async def connected(self) -> None:
        await asyncio.Event().wait()

    async def past(self, query: FinishedQuery, *, counted: bool = False) -> PastJobs:
        fits = holds(query.clauses, now=NOW)
        rows = [row for row in past() if query.user in (None, row.user) and fits(row)]
        return PastJobs(jobs=rows[: query.limit], total=len(rows) if counted else None)

    async def past_costs(self, query: FinishedQuery) -> list[GroupCost]:
        return [
            GroupCost(
                user=row.user,
                account=row.account,
                partition=row.partition,
                state=row.state,
                reason=row.reason,
                cost=cost(row),
            )
            for row in past()
            if query.user in (None, row.user)
        ]

    async def job(self, job: str) -> JobDetail:
        row = next(row for row in (*jobs(), *past()) if str(row.id) == job)
        return JobDetail(
            row=row,
            script="#!/bin/bash\n#SBATCH --gpus=16 --nodes=2\nsrun python train.py --lr 3e-4\n",
            submit_line="sbatch train.sh",
            submit_dir="/home/alice/llm",
            work_dir="/home/alice/llm",
            stdout="/home/alice/llm/slurm-101.out",
            gpus=[
                GpuUse(
                    node="gpu01",
                    index=at,
                    uuid=f"GPU-0-{at}",
                    util_pct=90 + at,
                    mem_used_bytes=70 * GIB,
                    mem_bytes=80 * GIB,
                )
                for at in range(8)
            ],
            events=[
                JobEvent(at=NOW - 9000, text="submitted by alice"),
                JobEvent(at=NOW - 8000, text="started on gpu[01-02]"),
            ],
        )

    async def forecast(self, job: str) -> ForecastRow:
        return ForecastRow(
            verdict="later",
            job=job,
            expected_start=NOW + 4100,
            ahead=1,
            leaders=[AheadRow(label="101", user="alice")],
        )

    async def dry_run(self, script: str, *, text: str, options: Sequence[str], cwd: str) -> ForecastRow:
        return ForecastRow(verdict="now", node_list="gpu04")

    async def submissions(self, user: str, *, limit: int) -> list[JobRow]:
        return []

    async def follow_log(
        self, job: str, *, channel: str, node: str = "", on_opened: object = None, tail_bytes: int = 0
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        yield 0, LOG
        await asyncio.Event().wait()

    async def log_parts(
        self, job: str, *, channel: str, node: str = ""
    ) -> tuple[int, list[tuple[int, bytes]]]:
        return len(LOG), [(0, LOG)]

    async def log_tail(self, job: str, *, channel: str, size_bytes: int, node: str = "") -> bytes:
        return LOG[-size_bytes:]

    async def curves(self, job: str) -> list[CurveRow]:
        return [_curve(0)]

    async def node_curves(self, node: str, *, step_s: float) -> UsageCurves:
        return UsageCurves(curves=[_curve(None), *(_curve(at) for at in range(8))])

    async def nodes_at(self, at: float) -> list[PastNodeRow]:
        return [_then(number, at) for number in range(8)]

    async def timeline(self, since: float, until: float, *, steps: int) -> Timeline:
        """Return a day with a drain, an outage, and the start of a large job."""
        events = [
            NodeEventRow(
                at=NOW - 60_000,
                kind="job",
                node="gpu[01-02]",
                text="llama-70b-pretrain",
                job="101",
                user="alice",
                gpus=16,
            ),
            NodeEventRow(at=NOW - 40_000, kind="down", node="gpu05", text="no route to host"),
            NodeEventRow(at=NOW - 38_000, kind="up", node="gpu05"),
            NodeEventRow(
                at=NOW - 7_200, kind="drain", node="gpu08", text="ECC errors on GPU 5, to be swapped"
            ),
        ]
        util: list[float | None] = [40.0 + 50 * (at % 40) / 40 for at in range(steps)]
        allocated = [52.0 - at % 13 for at in range(steps)]
        return Timeline(
            since=since, until=min(until, NOW), gpus=64, events=events, allocated=allocated, util_pct=util
        )

    async def used_by(self, rows: Sequence[JobRow]) -> dict[int, UsageRow]:
        return {row.id: UsageRow(gpu_util_pct=2.0, gpu_idle_pct=97.0) for row in rows}

    async def glance(self, job: str, *, offset: int) -> Glance:
        return Glance(b"" if offset else SHELL, len(SHELL))

    async def environment(self, job: str) -> dict[str, str]:
        return {"CUDA_HOME": "/usr/local/cuda", "HF_TOKEN": "x"}

    async def forwards(self) -> list[ForwardRow]:
        return [
            ForwardRow(
                number=1,
                job="120",
                user="alice",
                node="gpu06",
                port=8888,
                local_port=8888,
                purpose="jupyter",
                page="/lab?token=…",
                since=NOW - 3000,
            )
        ]

    async def files(self, snapshot: Mapping[str, Any]) -> list[str]:
        return ["train.py"]


def static_app(*, theme: str = "", readonly: bool = False) -> DeckApp:
    """Return the app over the static data. With `readonly` it does not move the cursor to the user's session."""
    app = DeckApp(Paths("/nowhere"), everybody=True, theme=theme, readonly=readonly)
    app.core = StaticCore()  # type: ignore[assignment]
    return app
