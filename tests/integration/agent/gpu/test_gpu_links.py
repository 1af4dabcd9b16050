"""PCIe and NVLink traffic of GPUs: rates from counters. An unknown rate is never reported as 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from tests.integration.agent.conftest import Gpus, MakeAgent
from tests.integration.agent.gpu.test_gpus import begin, sample

from warpdeck_agent.gpu.gpu_health import Card
from warpdeck_agent.gpu.gpu_links import PCIE_EVERY_S, GpuTraffic
from warpdeck_agent.wire import messages as wire

KIB = 1024
CARD = Card(0, "GPU-a", object())


class Driver:
    """A stand-in for NVML with one card and two links. It counts the throughput queries."""

    NVMLError = pynvml.NVMLError
    NVML_SUCCESS = pynvml.NVML_SUCCESS
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
    NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES = 202, 204

    def __init__(self) -> None:
        self.now = 100.0
        self.fields: dict[tuple[int, int], int] = {}
        self.throughputs = 0

    def nvmlDeviceGetNvLinkState(self, _: object, link: int) -> int:  # noqa: N802  # NVML\'s name
        if link >= 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return 1

    def nvmlDeviceGetPcieThroughput(self, _: object, way: int) -> int:  # noqa: N802  # NVML\'s name
        self.throughputs += 1
        return (7, 9)[way]

    def nvmlDeviceGetFieldValues(self, _: object, wanted: list[tuple[int, int]]) -> list[Any]:  # noqa: N802  # NVML\'s name
        return [
            SimpleNamespace(
                nvmlReturn=0 if each in self.fields else pynvml.NVML_ERROR_NOT_SUPPORTED,
                value=SimpleNamespace(ullVal=self.fields.get(each, 0)),
            )
            for each in wanted
        ]

    def rates(self, traffic: GpuTraffic, *, after_s: float) -> tuple[int | None, int | None]:
        self.now += after_s
        read = traffic.read(CARD)
        assert read is not None
        return read.nvlink_tx_bytes_s, read.nvlink_rx_bytes_s


@pytest.fixture
def driver() -> Driver:
    return Driver()


def watch(driver: Driver) -> GpuTraffic:
    return GpuTraffic(driver, [CARD], lambda: driver.now)


ALL = 0xFFFFFFFF


def test_a_rate_is_the_growth_of_all_link_counters_over_time(driver: Driver) -> None:
    traffic = watch(driver)
    driver.fields = {(138, ALL): 1000, (139, ALL): 500}
    assert driver.rates(traffic, after_s=0.0) == (None, None), "there is no earlier reading"
    driver.fields = {(138, ALL): 1400, (139, ALL): 500}
    assert driver.rates(traffic, after_s=2.0) == (200 * KIB, 0)


def test_counters_per_link_in_bytes_are_supported(driver: Driver) -> None:
    traffic = watch(driver)
    driver.fields = {(202, 0): 0, (202, 1): 10, (204, 0): 0, (204, 1): 0}
    driver.rates(traffic, after_s=0.0)
    driver.fields = {(202, 0): 100, (202, 1): 210, (204, 0): 4, (204, 1): 6}
    assert driver.rates(traffic, after_s=1.0) == (300, 10)


def test_reset_or_missing_counters_give_no_rate(driver: Driver) -> None:
    traffic = watch(driver)
    driver.fields = {(138, ALL): 1000, (139, ALL): 500}
    driver.rates(traffic, after_s=0.0)
    driver.fields = {(138, ALL): 10, (139, ALL): 600}
    assert driver.rates(traffic, after_s=1.0) == (None, None)
    driver.fields = {(138, ALL): 10}
    assert driver.rates(traffic, after_s=1.0) == (None, None)


def test_pcie_is_measured_rarely_and_its_last_values_are_kept(driver: Driver) -> None:
    traffic = watch(driver)
    for _ in range(5):
        driver.now += 1.0
        read = traffic.read(CARD)
        assert read is not None and (read.pcie_tx_bytes_s, read.pcie_rx_bytes_s) == (7000, 9000)
    assert driver.throughputs == 2, "the driver takes 20 ms for each reading"
    driver.now += PCIE_EVERY_S
    traffic.read(CARD)
    assert driver.throughputs == 4


@pytest.mark.lab
def test_links_and_their_traffic_are_part_of_the_sample(make_agent: MakeAgent, gpus: Gpus) -> None:
    agent, _ = begin(
        make_agent,
        gpus,
        "gpu 0 pgen=4 pwidth=8 ptx=1500 prx=2500 nvtx=1000000 nvrx=4000000",
        "gpu 1 nvnew=1 nvtx=1000000 nvrx=4000000",
        "gpu 2 util=1",
        "fault 2 nvmlDeviceGetPcieThroughput 3",
        "fault 2 nvmlDeviceGetCurrPcieLinkGeneration 3",
        *(f"nvlink {card} {link} {int(link < 17)}" for card in (0, 1) for link in range(18)),
    )
    read = sample(agent, 0, "nvlink_rx_bytes_s").links
    assert read is not None
    assert (read.pcie_gen, read.pcie_gen_max, read.pcie_width, read.pcie_width_max) == (4, 5, 8, 16)
    assert (read.pcie_tx_bytes_s, read.pcie_rx_bytes_s) == (1_500_000, 2_500_000)
    for card in (0, 1):
        links = sample(agent, card, "nvlink_tx_bytes_s=").links
        assert links is not None and (links.nvlinks, links.nvlinks_up) == (18, 17)
    moving = agent.link.expect(wire.Sample, lambda message: all(rates(message.gpus[card]) for card in (0, 1)))
    for card in (0, 1):
        found = rates(moving.gpus[card])
        assert found is not None
        sent, received = found
        assert 2 < received / sent < 8, "four times as much is received as sent"
    without = moving.gpus[2].links
    assert without == wire.GpuLinks(pcie_gen_max=5, pcie_width=16, pcie_width_max=16)


def rates(gpu: wire.GpuSample) -> tuple[int, int] | None:
    """Return the rates, or None while they are unknown."""
    links = gpu.links
    if links is None or links.nvlink_tx_bytes_s is None or links.nvlink_rx_bytes_s is None:
        return None
    return links.nvlink_tx_bytes_s, links.nvlink_rx_bytes_s
