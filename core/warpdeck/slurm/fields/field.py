"""One field of a job, step, node, partition or reservation, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from .text_forms import FORMS

Row = dict[str, Any]


class Field(NamedTuple):
    """The columns of a row from which a field is computed, and the function that returns its value."""

    needs: str
    value: Callable[[Row], Any]


def columns(names: str) -> dict[str, Field]:
    """Return a field for each of these columns, which has the column's name and its unchanged value."""
    return {name: Field(name, itemgetter(name)) for name in names.split()}


def sent(names: str) -> dict[str, Field]:
    """Return a field for each of these columns, which the controller sends without a request."""
    return {name: Field("", itemgetter(name)) for name in names.split()}


def constant(value: Any) -> Field:
    """Return a field with the same value in every row."""
    return Field("", lambda row: value)


def shaped(field: Field, shape: Callable[[Any], Any]) -> Field:
    """Return the field with its value passed through `shape`, such as a text format."""
    value = field.value
    return Field(field.needs, lambda row: shape(value(row)))


Forms = Mapping[str, Callable[[Any], Any]]


def table(text: str, fields: Mapping[str, Field], forms: Forms = FORMS) -> dict[str, Field]:
    """Return the fields of a command's table by key.

    Each word of the text is KEY, KEY=FIELD, KEY=FIELD|FORM or KEY|FORM, where a key alone is also the name of its field,
    and FORM is a name in `forms` or in `FORMS`. KEY==TEXT is a constant text, and KEY:=VALUE is a constant in JSON. For example:

        JobId=id TimeLimit=limit_s|clock Account=account|(null) Reboot==0 boards:=1
    """
    return dict(entry(word, fields, forms) for word in text.split())


def entry(word: str, fields: Mapping[str, Field], forms: Forms = FORMS) -> tuple[str, Field]:
    """Return the key and the field of one word of a table."""
    key, equals, name = word.partition("=")
    if name.startswith("="):
        return key, constant(name[1:])
    if key.endswith(":"):
        import json  # This import takes two milliseconds, and only tables of JSON need it.

        return key[:-1], constant(json.loads(name))
    name, _, form = (name if equals else word).partition("|")
    key = key.partition("|")[0]
    return key, shaped(fields[name], forms.get(form) or FORMS[form]) if form else fields[name]


def needs_of(fields: Iterable[Field]) -> list[str]:
    """Return the columns of a row that the fields need, without duplicates."""
    return list(dict.fromkeys(name for field in fields for name in field.needs.split()))
