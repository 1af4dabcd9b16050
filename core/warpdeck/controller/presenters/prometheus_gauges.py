"""The state as Prometheus metrics.

GPU metrics have the names, units and labels of NVIDIA's DCGM exporter, so that its dashboards work. A frozen
copy of the state is made in the event loop, and a thread produces the text from it. The event loop cannot run
while the thread computes. This module therefore writes the metrics of GPUs and nodes as text itself: for a
thousand nodes they have 60,000 lines, and prometheus_client would take ten times as long for them. All other
metrics use prometheus_client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import gpu_holders
from warpdeck.model import Gpu, GpuReading, Job, Node, count_tasks

from .gpu_readings import by_index
from .job_values import partition_of
from .loop_counters import LoopCounters
from .node_now import NodeNow, node_now

MIB = 2**20
GPU_LABELS = ("gpu", "UUID", "device", "modelName", "Hostname", "hpc_job")
"""The labels of dcgm-exporter. `hpc_job` is the job that holds the GPU, or "" if no job holds it."""


class _NodeSnapshot(NamedTuple):
    now: NodeNow
    holders: dict[int, str]
    """Label of the job that holds each GPU, by GPU index."""


class GaugeCollector(Collector):
    """The data of one scrape."""

    def __init__(
        self, state: State, counters: LoopCounters, *, clients: int, hides_jobs: bool = False
    ) -> None:
        """Create the collector. With `hides_jobs`, the GPUs do not name the jobs that hold them."""
        self._jobs = [state.jobs[job_id] for job_id in (*state.index.active, *state.index.pending)]
        self._nodes = [
            _node_part(state, state.nodes[name], hides_jobs=hides_jobs) for name in sorted(state.nodes)
        ]
        self._counters = counters
        self._clients = clients

    def text(self) -> bytes:
        """Return the body of the response."""
        return "".join((*self._gpu_lines(), *self._node_lines())).encode() + generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families with a size that does not depend on the size of the site."""
        yield _jobs(self._jobs)
        yield from self._loop()

    def _gpu_lines(self) -> Iterator[str]:
        seen = [
            (_labels(GPU_LABELS, _gpu_labels(part, gpu)), gpu, readings.get(gpu.index, UNREAD), part)
            for part in self._nodes
            for readings in (by_index(part.now.reading),)
            for gpu in part.now.node.gpus
        ]
        for name, help_text, value in GPU_METRICS:
            rows = ((labels, value(gpu, reading, part.now)) for labels, gpu, reading, part in seen)
            yield from _family(name, help_text, rows)

    def _node_lines(self) -> Iterator[str]:
        states = (
            (_labels(("Hostname", "state"), (part.now.node.name, part.now.state)), 1) for part in self._nodes
        )
        yield from _family("warpdeck_node_state", "State of the node; the value is always 1", states)
        seen = [(_labels(("Hostname",), (part.now.node.name,)), part) for part in self._nodes]
        for name, help_text, value in NODE_METRICS:
            yield from _family(name, help_text, ((labels, value(part.now)) for labels, part in seen))

    def _loop(self) -> Iterator[Metric]:
        counters = self._counters
        counts = (
            ("warpdeck_events", "Events processed", counters.events),
            ("warpdeck_commits", "Transactions committed", counters.commits),
            ("warpdeck_failed_commits", "Transactions rejected by the store", counters.failed_commits),
            ("warpdeck_passes", "Planning passes", counters.passes),
            ("warpdeck_passes_seconds", "Time spent in planning passes", counters.passes_s),
        )
        for name, help_text, count in counts:
            yield CounterMetricFamily(name, help_text, value=count)
        yield GaugeMetricFamily(
            "warpdeck_last_pass_seconds", "Duration of the last planning pass", value=counters.last_pass_s
        )
        yield GaugeMetricFamily("warpdeck_clients", "Connected clients", value=self._clients)


def _labels(names: Iterable[str], values: Iterable[str]) -> str:
    """Return the labels in the text format. One text serves all metrics of a GPU or node."""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "} "


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _family(name: str, help_text: str, rows: Iterable[tuple[str, float | None]]) -> Iterator[str]:
    """Yield the lines of a gauge family. Unknown values are left out."""
    yield f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"
    for labels, value in rows:
        if value is not None:
            yield f"{name}{labels}{float(value)!r}\n"


def _node_part(state: State, node: Node, *, hides_jobs: bool) -> _NodeSnapshot:
    held = {} if hides_jobs else gpu_holders(state, node.name)
    holders = {index: state.jobs[job_id].label() for index, job_id in held.items()}
    return _NodeSnapshot(node_now(state, node), holders)


def _gpu_labels(part: _NodeSnapshot, gpu: Gpu) -> tuple[str, ...]:
    job = part.holders.get(gpu.index, "")
    return (str(gpu.index), gpu.uuid, f"nvidia{gpu.index}", gpu.name, part.now.node.name, job)


def _mib(size: int | None) -> float | None:
    return None if size is None else size / MIB


def _free_mib(gpu: Gpu, reading: GpuReading) -> float | None:
    used = reading.mem_used_bytes
    return None if used is None else (gpu.mem_bytes - used) / MIB


def _last_xid(gpu: Gpu, now: NodeNow) -> float | None:
    return float(now.health.last_xids.get(gpu.uuid, 0)) if now.health else None


def _is_drained(gpu: Gpu, now: NodeNow) -> float:
    return float(now.node.drained or any(drain.uuid == gpu.uuid for drain in now.node.gpu_drains))


def _read(path: str) -> GpuValue:
    """Return the metric that is a field of the GPU's reading, such as links.pcie_gen."""
    getter = attrgetter(path)
    return lambda gpu, reading, now: getter(reading)


def _of_node(path: str) -> Callable[[NodeNow], float | None]:
    """Return the metric that is a field of the node or of its reading. It is None without a reading."""
    getter = attrgetter(path)
    return lambda now: None if path.startswith("reading.") and now.reading is None else getter(now)


UNREAD = GpuReading(index=-1)
GpuValue = Callable[[Gpu, GpuReading, NodeNow], float | None]
GPU_METRICS: tuple[tuple[str, str, GpuValue], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", _read("util_pct")),
    (
        "DCGM_FI_DEV_FB_USED",
        "Framebuffer memory used (in MiB).",
        lambda gpu, reading, now: _mib(reading.mem_used_bytes),
    ),
    (
        "DCGM_FI_DEV_FB_FREE",
        "Framebuffer memory free (in MiB).",
        lambda gpu, reading, now: _free_mib(gpu, reading),
    ),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", _read("power_w")),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", _read("temp_c")),
    (
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "PCIe bytes sent by the GPU per second.",
        _read("links.pcie_tx_bytes_s"),
    ),
    (
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "PCIe bytes received by the GPU per second.",
        _read("links.pcie_rx_bytes_s"),
    ),
    (
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        "NVLink bytes sent by the GPU per second, all links.",
        _read("links.nvlink_tx_bytes_s"),
    ),
    (
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        "NVLink bytes received by the GPU per second, all links.",
        _read("links.nvlink_rx_bytes_s"),
    ),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", "Current PCIe generation.", _read("links.pcie_gen")),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "Current number of PCIe lanes.", _read("links.pcie_width")),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "Maximum PCIe generation.", _read("links.pcie_gen_max")),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "Maximum number of PCIe lanes.", _read("links.pcie_width_max")),
    (
        "warpdeck_gpu_nvlinks",
        "NVLinks of the GPU",
        lambda gpu, reading, now: reading.links.nvlinks or None,
    ),
    (
        "warpdeck_gpu_nvlinks_up",
        "NVLinks of the GPU that are up",
        lambda gpu, reading, now: reading.links.nvlinks_up if reading.links.nvlinks else None,
    ),
    (
        "DCGM_FI_DEV_XID_ERRORS",
        "Value of the last XID error encountered.",
        lambda gpu, reading, now: _last_xid(gpu, now),
    ),
    (
        "warpdeck_gpu_drained",
        "1 if the GPU or its node is drained",
        lambda gpu, reading, now: _is_drained(gpu, now),
    ),
)
"""Name, help text and value of each GPU metric. A GPU with the value None is left out."""

NODE_METRICS: tuple[tuple[str, str, Callable[[NodeNow], float | None]], ...] = (
    ("warpdeck_node_cpus", "CPUs of the node", _of_node("node.cpus")),
    ("warpdeck_node_cpus_allocated", "CPUs allocated to jobs", _of_node("cpus_used")),
    ("warpdeck_node_cpu_percent", "CPU utilization of the node (in %)", _of_node("reading.cpu_pct")),
    ("warpdeck_node_memory_bytes", "Memory of the node", _of_node("node.mem_bytes")),
    ("warpdeck_node_memory_used_bytes", "Memory in use", _of_node("reading.mem_used_bytes")),
)


def _jobs(jobs: Iterable[Job]) -> Metric:
    """Count jobs by state and partition. Each array task counts as one."""
    counts = Counter[tuple[str, str]]()
    for job in jobs:
        counts[job.state.value, partition_of(job)] += max(1, count_tasks(job.pending_tasks))
    family = GaugeMetricFamily(
        "warpdeck_jobs", "Jobs and array tasks that have not ended", labels=("state", "partition")
    )
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family
