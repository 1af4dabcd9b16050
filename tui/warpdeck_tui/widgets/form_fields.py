"""Describes a form as data, with one row for each field. `form.Form` draws it and returns the typed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, assert_never

from warpdeck.base.errors import UserError

FormValues = Mapping[str, str]
"""Maps the ids of fields to their texts without blanks at both ends. The mapping is read-only."""


class FieldKind(StrEnum):
    """Type of a field's value."""

    TEXT = "text"
    COUNT = "count"
    """A whole number."""
    NUMBER = "number"
    NAMES = "names"
    """Names separated by commas."""


_NUMBERS = {FieldKind.COUNT: re.compile(r"\d{1,15}"), FieldKind.NUMBER: re.compile(r"\d{1,9}(\.\d{1,9})?")}


class FormField(NamedTuple):
    """A field, which takes one line."""

    id: str
    label: str = ""
    """Text before the field. A form with a single field needs none."""
    hint: str = ""
    """Text in the field while it is empty."""
    kind: FieldKind = FieldKind.TEXT
    option: str = ""
    """The option of `sbatch` that the field sets, or "" if it sets none."""
    required: str = ""
    """The message if the field is empty, or "" if it may be empty."""
    check: Callable[[str], object] = str
    """Raises UserError if the text is invalid."""
    is_fixed: bool = False
    """Whether the user cannot edit the field."""
    selects_on_focus: bool = True
    """Whether the first typed character replaces the whole text."""

    def value(self, text: str) -> str | int | float | list[str]:
        """Return the value of this text. Raises UserError."""
        match self.kind:
            case FieldKind.TEXT:
                return text
            case FieldKind.NAMES:
                return [name.strip() for name in text.split(",") if name.strip()]
            case FieldKind.COUNT | FieldKind.NUMBER:
                if not _NUMBERS[self.kind].fullmatch(text):
                    raise UserError(f"{self.id} must be a number, not {text!r}", f"Example: {self.hint}")
                return int(text) if self.kind is FieldKind.COUNT else float(text)
            case _:
                assert_never(self.kind)


WHOLE_FORM = ""
"""Stands for the form itself in a FieldError."""


class FieldError(NamedTuple):
    """An error message and the id of the field that it belongs to."""

    field: str
    words: str


def wrong_fields(fields: tuple[FormField, ...], values: FormValues) -> list[FieldError]:
    """Return the errors that the fields' own checks find, at most one for each field."""
    found = []
    for field in fields:
        text = values[field.id]
        try:
            field.check(text)
        except UserError as error:
            found.append(FieldError(field.id, f"{error.message}. {error.hint}"))
        else:
            if field.required and not text:
                found.append(FieldError(field.id, field.required))
    return found
