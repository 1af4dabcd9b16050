"""The GPU links in the output of `warpdeck node show`."""

from __future__ import annotations

import msgspec

from warpdeck.cli.verbs.nodes import _link_lines
from warpdeck.model import GpuLinks


def lines(links: GpuLinks) -> list[str]:
    """Return the lines for the links as a client receives them."""
    return _link_lines(msgspec.to_builtins(links))


def test_links_show_their_generation_and_their_traffic() -> None:
    whole = GpuLinks(
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        pcie_tx_bytes_s=1_250_000_000,
        pcie_rx_bytes_s=0,
        nvlinks=18,
        nvlinks_up=17,
        nvlink_tx_bytes_s=204_000_000_000,
    )
    assert lines(whole) == [
        "PCIe 5.0 x16, 1.2 GB/s out, 0.0 GB/s in",
        "NVLink 17 of 18 up, 204.0 GB/s out",
    ]


def test_a_link_below_its_maximum_shows_the_maximum() -> None:
    slow = GpuLinks(pcie_gen=3, pcie_gen_max=4, pcie_width=8, pcie_width_max=16)
    assert lines(slow) == ["PCIe 3.0 x8 (up to 4.0 x16)"]


def test_links_with_unknown_width_produce_no_line() -> None:
    assert lines(GpuLinks(pcie_gen=4)) == []
