"""The fields of a form, as `form_fields` describes them: a label, an input and an error message for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from .form_fields import FieldError, FormField, FormValues, wrong_fields

VERDICTS = ("now", "later", "never")
"""The verdicts of the scheduler about a job that was not submitted yet."""


class Form(Vertical):
    """The form. Each input has the id of its field.

    `line` is the class of the inputs, for a form whose keys work only in its inputs.
    """

    def __init__(
        self,
        fields: tuple[FormField, ...],
        values: Mapping[str, str],
        *,
        line: type[Input] = Input,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._fields = fields
        self._initial = values
        self._line = line

    def compose(self) -> ComposeResult:
        for field in self._fields:
            with Horizontal(classes="field"):
                if field.label:
                    yield Static(field.label, classes="label", markup=False)
                yield self._line(
                    self._initial.get(field.id, ""),
                    placeholder=field.hint,
                    id=field.id,
                    compact=True,
                    disabled=field.is_fixed,
                    select_on_focus=field.selects_on_focus,
                )
            error = Static("", id=f"{field.id}-error", classes="error", markup=False)
            error.display = False
            yield error

    def input(self, field: str) -> Input:
        """Return the input of the field with this id."""
        return self.query_one(f"#{field}", Input)

    def values(self) -> FormValues:
        """Return what the user has typed."""
        return MappingProxyType({field.id: self.input(field.id).value.strip() for field in self._fields})

    def fill(self, values: Mapping[str, str], *, but: str = "") -> None:
        """Show these values, except in the field `but`, in which the user is typing."""
        for field in self._fields:
            line, value = self.input(field.id), values.get(field.id, "")
            if field.id != but and line.value.strip() != value.strip():
                line.value = value

    def wrong(self) -> list[FieldError]:
        """Return the errors that the fields' own checks find."""
        return wrong_fields(self._fields, self.values())

    def show_errors(self, found: Iterable[FieldError]) -> None:
        """Show the errors of the fields below them, and clear the others."""
        errors = list(found)
        for field in self._fields:
            words = "; ".join(error.words for error in errors if error.field == field.id)
            show_or_hide(self.query_one(f"#{field.id}-error", Static), words)


def show_or_hide(line: Static, words: str) -> None:
    """Show a text, or hide its line if the text is empty."""
    line.update(words)
    line.display = bool(words)


def show_verdict(line: Static, words: str, verdict: str) -> None:
    """Show when a job would start. The verdict is now, later, never or "", and sets the color of the line."""
    line.update(words)
    for each in VERDICTS:
        line.set_class(each == verdict, f"-{each}")
