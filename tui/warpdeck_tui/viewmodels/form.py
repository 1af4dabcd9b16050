"""The form for a new job: its fields, the options that they make, the command line that does the same, and which field an
error belongs to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from warpdeck.api.siterows import ForecastRow
from warpdeck.api.starting import starts_in_words
from warpdeck.api.submission import command_options, script_options
from warpdeck.errors import UserError
from warpdeck.notation.request import build_request

from .cells import plural


class Field(NamedTuple):
    """A field of the form; `option` is what it stands for on the command line ("" for the script and the like)."""

    id: str
    title: str
    option: str
    example: str


FIELDS = (
    Field("folder", "folder", "", "where you submit from"),
    Field("script", "script", "", "train.sh"),
    Field("wrap", "or command", "", "python train.py --lr 0.1"),
    Field("gpus", "GPUs", "gpus", "1, or h100:2"),
    Field("cpus", "CPUs a task", "cpus-per-task", "1"),
    Field("mem", "memory", "mem", "64G"),
    Field("time", "time limit", "time", "4:00:00"),
    Field("name", "job name", "job-name", "the script's name"),
    Field("more", "more", "", "--array=0-9 --dependency=afterok:12"),
)
Values = Mapping[str, str]


class FieldError(NamedTuple):
    """What is wrong, beside the field where it is; field "" is the whole form."""

    field: str
    words: str


def options_of(values: Values) -> list[str]:
    """sbatch options, as typed on a command line. Raises UserError for quotes that do not close."""
    made = [
        f"--{field.option}={values[field.id]}" for field in FIELDS if field.option and values.get(field.id)
    ]
    try:
        return made + shlex.split(values.get("more", ""))
    except ValueError as error:
        raise UserError(f"{error}", "close the quotes") from error


def command_line(values: Values) -> str:
    """What does the same in a shell."""
    try:
        options = options_of(values)
    except UserError:
        options = []
    words = ["warpdeck", "submit", *options]
    if values.get("wrap") and not values.get("script"):
        return shlex.join([*words, "--wrap", values["wrap"]])
    return shlex.join([*words, values.get("script") or "SCRIPT"])


def script_text(values: Values) -> str:
    """The batch script of a command; "" if a script file is named."""
    return "" if values.get("script") else f"#!/bin/sh\n{values.get('wrap', '')}\n"


def check(values: Values, *, now: float) -> list[FieldError]:
    """What is wrong before anything is sent, field by field."""
    found: list[FieldError] = []
    if not values.get("script") and not values.get("wrap"):
        found.append(FieldError("script", "name a script, or write a command below"))
    if values.get("script") and values.get("wrap"):
        found.append(FieldError("wrap", "there is a script already: empty one of the two"))
    for field in FIELDS:
        value = values.get(field.id, "")
        if not value or not (field.option or field.id == "more"):
            continue
        try:
            options = options_of({field.id: value})
            build_request(command_options(options), {}, now=now)
        except UserError as error:
            found.append(FieldError(field.id, in_words(error)))
    return found


def forecast_words(found: ForecastRow, *, now: float) -> str:
    """What would become of the form if it were submitted now, in one line."""
    when = starts_in_words(
        found.verdict,
        node_list=found.node_list,
        expected_start=found.expected_start,
        sentence=found.sentence,
        now=now,
        rough=found.rough,
        untold=found.untold,
    )
    if found.verdict != "later":
        return when
    behind = f", behind {plural(found.ahead, 'job')}" if found.ahead else ""
    sooner = found.changes[0] if found.changes else found.sentence if found.expected_start is None else ""
    return f"{when}{behind}" + (f"; {sooner}" if sooner else "")


def belongs_to(error: UserError) -> str:
    """The field that a refusal is about, as far as its words tell; "" is the whole form."""
    text = error.message.lower()
    for words, field in (
        (("gpu",), "gpus"),
        (("memory",), "mem"),
        (("cpu",), "cpus"),
        (("time",), "time"),
        (("script", "#!", "#sbatch"), "script"),
        (("folder",), "folder"),
    ):
        if any(word in text for word in words):
            return field
    return ""


def in_words(error: UserError) -> str:
    """The error and what to do, on one line; where it stands goes without saying in a form."""
    message = error.message.removeprefix("command line: ")
    return f"{message}; {error.hint}" if error.hint else message


def said_by_script(text: str, name: str) -> dict[str, str]:
    """Field -> what the script's #SBATCH lines say of it. Raises UserError."""
    fields = {field.option: field.id for field in FIELDS if field.option}
    said = {fields[option]: value for option, value, _ in script_options(text, name) if option in fields}
    for option, value, _ in script_options(text, name):
        if option in ("gres", "gpus-per-node") and "gpus" not in said:
            said["gpus"] = value
    return said
