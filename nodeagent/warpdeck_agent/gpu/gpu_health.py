"""GPU health from NVML: Xid errors as they happen, ECC errors, row remapping, heat, and lost GPUs.

This runs in the thread of `gpus`. Values that a driver or a card does not support are not judged.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

MAX_XIDS = 64
"""The most Xid errors taken in one call. If the driver has more, they are read a second later."""
THERMAL = 0x20 | 0x40
"""Clock event reasons: software and hardware thermal slowdown. Power capping is normal and no fault."""

XIDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "the GPU stopped processing for a program",
    45: "a program was cleaned up after earlier errors",
    48: "double-bit ECC error",
    61: "internal microcontroller breakpoint",
    62: "internal microcontroller halt",
    63: "a memory row was remapped",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch time-out",
    110: "security fault",
    119: "the GPU system processor (GSP) does not answer",
    120: "the GPU system processor (GSP) failed",
    140: "unrecovered ECC error",
}
"""Descriptions of the most common Xids (NVIDIA's Xid catalog)."""


@dataclass(frozen=True)
class Card:
    """A GPU as the driver knows it."""

    index: int
    uuid: str
    handle: Any


@dataclass(frozen=True)
class Xid:
    """An Xid error: a fault that the NVIDIA driver reports for a GPU."""

    card: Card
    number: int


@dataclass(frozen=True)
class GpuState:
    """One state reading of a GPU; None is a value that the driver does not give."""

    card: Card
    lost: bool = False
    ecc_uncorrected: Optional[int] = None
    """Uncorrectable errors since the driver was loaded."""
    remap_failed: Optional[bool] = None
    remap_pending: Optional[bool] = None
    throttled: Optional[bool] = None
    unexplained_bytes: int = 0
    """Memory in use for which the driver names no process."""


class GpuHealth:
    """Reads the health of the given cards."""

    def __init__(self, nvml: Any, cards: List[Card]) -> None:
        self._nvml = nvml
        self._cards = cards
        self._by_address: Dict[Optional[int], Card] = {_address(card.handle): card for card in cards}
        self._events = self._listen()

    def _listen(self) -> Any:
        """Return an event set with the Xids of all cards that report them; None if no card does."""
        any_registered = False
        try:
            events = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            return None
        for card in self._cards:
            try:
                kind = self._nvml.nvmlEventTypeXidCriticalError
                self._nvml.nvmlDeviceRegisterEvents(card.handle, kind, events)
                any_registered = True
            except self._nvml.NVMLError:
                continue
        return events if any_registered else None

    def xids(self) -> List[Xid]:
        """Return the Xid errors since the last call, without waiting."""
        found: List[Xid] = []
        while self._events is not None and len(found) < MAX_XIDS:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # timeout: there is no event; any other error: there will be none
                break
            card = self._by_address.get(_address(event.device))
            if card is not None:
                found.append(Xid(card, int(event.eventData)))
        return found

    def read_states(self) -> List[GpuState]:
        """Return the states of all cards."""
        return [self._read_state(card) for card in self._cards]

    def _read_state(self, card: Card) -> GpuState:
        nvml, handle = self._nvml, card.handle
        try:
            self._nvml.nvmlDeviceGetTemperature(handle, 0)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                return GpuState(card, lost=True)
        rows = self._ask("nvmlDeviceGetRemappedRows", handle)
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # drivers before 535
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return GpuState(
            card,
            ecc_uncorrected=self._ask(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            remap_failed=None if rows is None else bool(rows[3]),
            remap_pending=None if rows is None else bool(rows[2]),
            throttled=None if reasons is None else bool(reasons & THERMAL),
        )

    def _ask(self, call: str, *args: Any) -> Any:
        try:
            return getattr(self._nvml, call)(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None


def describe_xid(number: int) -> str:
    """Return a description like "Xid 79: the GPU has fallen off the bus"."""
    return f"Xid {number}" + (f": {XIDS[number]}" if number in XIDS else "")


def _address(handle: Any) -> Optional[int]:
    """Return the address of a handle. Handles are pointers, and the handle is the only data of a lost GPU."""
    return ctypes.cast(handle, ctypes.c_void_p).value
