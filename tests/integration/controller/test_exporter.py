"""Metrics for Prometheus over real HTTP: names, labels and units as dashboards expect them. All other
requests are rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.core import GIB, make_request
from tests.support.served import Served, served

from warpdeck.config import Config
from warpdeck.controller.events.events import HealthReported, Submitted
from warpdeck.controller.loop.controller import Controller
from warpdeck.controller.presenters.loop_counters import LoopCounters
from warpdeck.controller.presenters.prometheus_gauges import GaugeCollector
from warpdeck.controller.state.state import State
from warpdeck.daemon.prometheus_exporter import MAX_HEAD_BYTES, Exporter
from warpdeck.model import Gpu, GpuUuid, Node, NodeName
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

ANN = Principal(user="ann", uid=4001)
Found = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture
async def site(short_tmp: Path) -> AsyncIterator[Served]:
    async with served(short_tmp / "home") as served_site:
        yield served_site


@pytest.fixture
async def exporter(site: Served) -> AsyncIterator[Exporter]:
    """An exporter on a port chosen by the kernel."""
    new_exporter = await listening(site.controller)
    yield new_exporter
    await new_exporter.close()


async def listening(controller: Controller) -> Exporter:
    new_exporter = Exporter(controller.state, statistics=controller.statistics, hub=controller.hub)
    new_exporter._server = await asyncio.start_server(
        new_exporter._serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES
    )
    return new_exporter


async def say(exporter: Exporter, request: bytes) -> tuple[str, bytes]:
    """Return (status line, body) of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", exporter.port)
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), body


async def scrape(exporter: Exporter) -> Found:
    """Return the values by name and labels."""
    status, body = await say(exporter, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"
    found: Found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labelled(found: dict[tuple[tuple[str, str], ...], float], **labels: str) -> float:
    """Return the only value with these labels."""
    (value,) = [each for key, each in found.items() if set(labels.items()) <= set(key)]
    return value


async def test_gpu_metrics_have_the_names_of_dcgm(site: Served, exporter: Exporter) -> None:
    agent = await site.add_node("a")
    links = wire.GpuLinks(pcie_gen=4, pcie_tx_bytes_s=0, nvlinks=18, nvlinks_up=17, nvlink_rx_bytes_s=5 * GIB)
    reading = wire.GpuSample(
        index=1, util_pct=87, mem_used_bytes=20 * GIB, power_w=350.5, temp_c=61, links=links
    )
    site.controller.nodes.post(
        (agent.name, wire.Sample(at_unix=1.0, cpu_pct=12.5, mem_used_bytes=GIB, gpus=[reading]))
    )
    fault = wire.Fault(number=1, at_unix=9e9, check="xid", gpu=1, uuid="a-1", message="Xid 79", xid=79)
    reported = wire.Health(at_unix=1.0, faults=[fault])
    await site.controller.apply(HealthReported(name=agent.name, health=reported, received_unix=1.0))
    outcome = await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=3)))
    assert outcome.job is not None
    await site.until(lambda: bool(site.fleet.launches))
    found = await scrape(exporter)
    whole = {
        "gpu": "1",
        "UUID": "a-1",
        "device": "nvidia1",
        "modelName": "NVIDIA H100",
        "Hostname": "a",
        "hpc_job": "",
    }
    assert found["DCGM_FI_DEV_GPU_UTIL"] == {tuple(sorted(whole.items())): 87.0}, (
        "unknown values are left out"
    )
    assert labelled(found["DCGM_FI_DEV_FB_USED"], gpu="1") == 20 * 1024
    assert labelled(found["DCGM_FI_DEV_FB_FREE"], gpu="1") == 60 * 1024
    assert labelled(found["DCGM_FI_DEV_POWER_USAGE"], gpu="1") == 350.5
    assert labelled(found["DCGM_FI_DEV_GPU_TEMP"], gpu="1") == 61
    assert labelled(found["DCGM_FI_DEV_XID_ERRORS"], gpu="1") == 79
    of_links = {
        "DCGM_FI_DEV_PCIE_LINK_GEN": 4,
        "DCGM_FI_PROF_PCIE_TX_BYTES": 0,
        "DCGM_FI_PROF_NVLINK_RX_BYTES": 5 * GIB,
        "warpdeck_gpu_nvlinks": 18,
        "warpdeck_gpu_nvlinks_up": 17,
    }
    assert {name: labelled(found[name], gpu="1") for name in of_links} == of_links
    assert not {"DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES"} & found.keys(), (
        "unknown values are left out"
    )
    drained = found["warpdeck_gpu_drained"]
    assert [labelled(drained, gpu=str(index)) for index in range(4)] == [0.0, 1.0, 0.0, 0.0]
    assert labelled(drained, gpu="0", hpc_job=outcome.job.label()) == 0.0
    assert labelled(found["warpdeck_node_cpu_percent"], Hostname="a") == 12.5


async def test_metrics_of_the_queue_and_the_loop_are_exported(site: Served, exporter: Exporter) -> None:
    await site.add_node("a")
    for _ in range(3):
        await site.controller.apply(Submitted(principal=ANN, request=make_request(gpus=4)))
    await site.until(lambda: bool(site.fleet.launches))
    found = await scrape(exporter)
    assert labelled(found["warpdeck_jobs"], state="PENDING", partition="main") == 2
    assert labelled(found["warpdeck_jobs"], state="CONFIGURING", partition="main") == 1
    assert labelled(found["warpdeck_node_state"], Hostname="a", state="mixed") == 1
    assert labelled(found["warpdeck_events_total"]) >= 5
    assert labelled(found["warpdeck_passes_total"]) >= 1
    assert (
        labelled(found["warpdeck_passes_seconds_total"]) > 0 < labelled(found["warpdeck_last_pass_seconds"])
    )


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n", "431 Request Header"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "405 Method Not Allowed"),
        (b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
    ],
)
async def test_other_requests_are_refused(exporter: Exporter, request_bytes: bytes, status: str) -> None:
    answer, body = await say(exporter, request_bytes)
    assert status in answer and len(body) < 100
    assert (await scrape(exporter))["warpdeck_clients"]


async def test_the_exporter_listens_at_the_configured_address(site: Served) -> None:
    taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = int(taken.sockets[0].getsockname()[1])
    exporter = Exporter(site.controller.state, statistics=site.controller.statistics, hub=site.controller.hub)
    await exporter.apply_config(Config())
    assert exporter.port == 0
    await exporter.apply_config(Config(metrics_port=port))
    assert exporter.port == 0, "the port is in use, which is logged"
    taken.close()
    await taken.wait_closed()
    await exporter.apply_config(Config())
    await exporter.apply_config(Config(metrics_port=port))
    assert exporter.port == port and (await scrape(exporter))["warpdeck_clients"]
    await exporter.apply_config(Config())
    assert exporter.port == 0


def test_any_gpu_name_is_escaped_correctly() -> None:
    name = 'odd "name" with \\ and\na line'
    state = State()
    gpu = Gpu(index=0, uuid=GpuUuid("u"), name=name, type="odd", mem_bytes=GIB)
    state.nodes[NodeName("a")] = Node(name=NodeName("a"), cpus=4, mem_bytes=GIB, gpus=(gpu,))
    text = GaugeCollector(state, LoopCounters(), clients=0).text().decode()
    [drained] = [each for each in text_string_to_metric_families(text) if each.name == "warpdeck_gpu_drained"]
    assert [each.labels["modelName"] for each in drained.samples] == [name]
