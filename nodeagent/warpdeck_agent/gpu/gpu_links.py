"""State of a GPU's PCIe and NVLink connections, and the traffic over them.

Runs in the thread of `gpus`. NVML measures PCIe traffic over 20 ms, in which its caller waits, so each card
is only measured now and then. NVLink's counters cost nothing; the rate is their increase since the last
reading. Values that a card or its driver does not support are unknown. Directions are seen from the GPU: tx
leaves it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from warpdeck_agent.wire.messages import GpuLinks

from .gpu_health import Card
from .nvlink import link_states

PCIE_EVERY_S = 10.0
"""Interval in seconds between PCIe measurements of a card. Each takes 40 ms, so a card uses less than 1/200
of the driver's time.
"""
PCIE_UNIT_BYTES = 1000
"""NVML reports KB/s."""
ALL_LINKS = 0xFFFFFFFF
"""Scope of a field: the sum over all links."""
Counters = Tuple[int, int]
Rates = Tuple[Optional[int], Optional[int]]
UNKNOWN: Rates = (None, None)


@dataclass
class _LinkReading:
    """The last reading of one card, and the time of its next PCIe measurement."""

    links: GpuLinks
    pcie_due: float
    counters: Optional[Counters] = None
    counted_at: float = 0.0


class GpuTraffic:
    """Reads the connections of the given cards. `clock` is monotonic, in seconds."""

    def __init__(self, nvml: Any, cards: Sequence[Card], clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._clock = clock
        begin, apart = clock(), PCIE_EVERY_S / max(1, len(cards))
        self._last: Dict[int, _LinkReading] = {
            card.index: _LinkReading(self._read_state(card.handle), pcie_due=begin + place * apart)
            for place, card in enumerate(cards)
        }

    def read(self, card: Card) -> Optional[GpuLinks]:
        """Return the present state of the card's connections; None if nothing is known."""
        last, now = self._last[card.index], self._clock()
        if now >= last.pcie_due:
            last.pcie_due = now + PCIE_EVERY_S
            sent, received = self._pcie(card.handle)
            last.links = dataclasses.replace(
                self._read_state(card.handle), pcie_tx_bytes_s=sent, pcie_rx_bytes_s=received
            )
        sent, received = self._nvlink(card.handle, last) if last.links.nvlinks_up else UNKNOWN
        found = dataclasses.replace(last.links, nvlink_tx_bytes_s=sent, nvlink_rx_bytes_s=received)
        return None if found == GpuLinks() else found

    def _read_state(self, handle: Any) -> GpuLinks:
        """Return the state of the connections without traffic."""
        states = link_states(self._nvml, handle)
        return GpuLinks(
            pcie_gen=self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            pcie_gen_max=self._ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            pcie_width=self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
            pcie_width_max=self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            nvlinks=len(states),
            nvlinks_up=sum(states),
        )

    def _pcie(self, handle: Any) -> Rates:
        nvml = self._nvml
        sent, received = (
            self._ask("nvmlDeviceGetPcieThroughput", handle, way)
            for way in (nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES)
        )
        return _times(sent, PCIE_UNIT_BYTES), _times(received, PCIE_UNIT_BYTES)

    def _nvlink(self, handle: Any, last: _LinkReading) -> Rates:
        """Return the NVLink traffic in bytes per second since the last reading.

        It is unknown at first, and after the counters were reset.
        """
        now, counted = self._clock(), self._counters(handle, last.links.nvlinks)
        before, since_s = last.counters, now - last.counted_at
        last.counters, last.counted_at = counted, now
        if (
            counted is None
            or before is None
            or since_s <= 0
            or counted[0] < before[0]
            or counted[1] < before[1]
        ):
            return UNKNOWN
        return round((counted[0] - before[0]) / since_s), round((counted[1] - before[1]) / since_s)

    def _counters(self, handle: Any, links: int) -> Optional[Counters]:
        """Return the total traffic over all links, in bytes.

        The driver gives it in KiB, summed over all links; since Blackwell in bytes, for each link.
        """
        nvml = self._nvml
        kib = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
        found = self._fields(handle, [(field, ALL_LINKS) for field in kib])
        if found is not None:
            return found[0] * 1024, found[1] * 1024
        each = (nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES)
        found = self._fields(handle, [(field, link) for field in each for link in range(links)])
        return None if found is None else (sum(found[:links]), sum(found[links:]))

    def _fields(self, handle: Any, wanted: List[Tuple[int, int]]) -> Optional[List[int]]:
        """Return the values of these fields, each with its scope; None if one of them is not available."""
        answers = self._ask("nvmlDeviceGetFieldValues", handle, wanted)
        if answers is None or any(each.nvmlReturn != self._nvml.NVML_SUCCESS for each in answers):
            return None
        return [int(each.value.ullVal) for each in answers]

    def _ask(self, call: str, *args: Any) -> Any:
        try:
            return getattr(self._nvml, call)(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _times(value: Optional[int], unit: int) -> Optional[int]:
    return None if value is None else value * unit
