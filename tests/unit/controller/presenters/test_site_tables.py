"""Rows of reservations."""

from __future__ import annotations

from warpdeck.model.reservation import ReservationSpec
from warpdeck.notation.filters.reservation_flags import COPIED_FIELDS


def test_the_list_of_the_thin_clients_names_the_fields_of_the_specification() -> None:
    """These clients do not import msgspec, so they have a list of their own."""
    assert {*COPIED_FIELDS} == {*ReservationSpec.__struct_fields__} - {"name", "parts"}
