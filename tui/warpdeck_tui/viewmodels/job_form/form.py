"""The state of the "New job" form: its fields and the batch script beside them, which are kept in sync.

An option that is typed in a field is written into the script, and an option in the script is shown in its
field. This module also creates the equivalent command line, and finds the field that an error belongs to.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.client.submission import command_options
from warpdeck.notation.options.getopt import as_word, parse_leading, parse_words
from warpdeck.notation.options.option_table import SBATCH
from warpdeck.notation.reading.script import script_options
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.request.sweep import array_of, parse_grid, sweep_of, with_sweep
from warpdeck.protocol.job_rows import JobDetail
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.protocol.start_text import starts_in_words
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.job_form.script import (
    BARE,
    Pair,
    as_words,
    body_of,
    with_body,
    with_option,
    with_others,
)
from warpdeck_tui.widgets.form_fields import FieldError, FormField

FIELDS = (
    FormField("folder", "folder"),
    FormField("script", "script", "e.g. train.sh"),
    FormField("wrap", "or command", "e.g. python train.py"),
    FormField("args", "arguments", "e.g. --lr 0.1"),
    FormField("gpus", "GPUs", "e.g. 1, or h100:2", option="gpus"),
    FormField("time", "time limit", "e.g. 4:00:00", option="time"),
    FormField("partition", "partition", option="partition"),
    FormField("account", "account", option="account"),
    FormField("qos", "QoS", option="qos"),
    FormField("nodes", "nodes", "e.g. 2", option="nodes"),
    FormField("cpus", "CPUs/task", "e.g. 8", option="cpus-per-task"),
    FormField("mem", "memory", "e.g. 64G", option="mem"),
    FormField("name", "job name", option="job-name"),
    FormField("sweep", "sweep", "e.g. lr=0.1,0.2 seed=1..5"),
    FormField("more", "more", "e.g. --array=0-9 --hold"),
    FormField("code", "code of job", "e.g. 12"),
)
"""The fields. A hint begins with "e.g.", because without it a reader may take it for a value."""
OPTIONS = {field.option: field.id for field in FIELDS if field.option}
"""Maps options to their fields. All other options are shown in the field "more"."""
SCRIPT_TEXT = "text"
"""Stands for the script beside the form in a FieldError."""
Values = Mapping[str, str]


class Sheet(NamedTuple):
    """The state of the form.

    `text` is the script that would be submitted. `original` is the content of the script file, or "" if none
    is named. `source` is a text that says where the values came from. `repeats` tells that they are those of a job.
    """

    values: Values = MappingProxyType({})
    text: str = BARE
    original: str = ""
    source: str = ""
    repeats: bool = False

    def value(self, field: str) -> str:
        return self.values.get(field, "")


def typed(sheet: Sheet, field: str, value: str) -> Sheet:
    """Return the form after the user has typed `value` into a field."""
    values = {**sheet.values, field: value}
    if field == "script":
        return sheet._replace(values=values, original=sheet.original if value else "")
    text = sheet.text
    option = next((each.option for each in FIELDS if each.id == field), "")
    if option:
        text = with_option(text, option, value or None)
    elif field == "wrap" and not sheet.value("script"):
        text = with_body(text, value)
    elif field == "sweep":
        text = with_grid(text, value)
    elif field == "more":
        try:
            pairs = parse_words(shlex.split(value), "")
            text = with_others(
                text, [pair for pair in pairs if pair[0] not in OPTIONS], but=frozenset(OPTIONS)
            )
            text = _outranked(text, [pair for pair in pairs if pair[0] in OPTIONS])
        except (UserError, ValueError):
            text = sheet.text  # The word is incomplete. Errors in it are reported when the form is submitted.
    return written(sheet._replace(values=values), text)


def with_grid(text: str, grid_text: str) -> str:
    """Return the script with this sweep and the array for it. The array's limit of running tasks is kept.

    If the text of the sweep is incomplete, the script is returned unchanged.
    """
    try:
        grid = parse_grid(grid_text)
        swept = with_sweep(text, grid_text)
        before = fields_of(text)["more"]
    except UserError:
        return text
    old = next((value for option, value in parse_words(shlex.split(before), "") if option == "array"), "")
    throttle = old.partition("%")[2]
    if not grid:
        return with_option(swept, "array", None) if sweep_of(text) else swept
    return with_option(swept, "array", array_of(grid) + (f"%{throttle}" if throttle else ""))


def written(sheet: Sheet, text: str) -> Sheet:
    """Return the form after the user has edited the script.

    Fields change if their options in the script have changed.
    """
    try:
        before, after = fields_of(sheet.text), fields_of(text)
    except UserError:
        return sheet._replace(text=text)
    if sheet.value("script"):
        after["wrap"] = before["wrap"]
    changed = {field: value for field, value in after.items() if value != before.get(field, "")}
    return sheet._replace(values={**sheet.values, **changed}, text=text)


def opened(sheet: Sheet, text: str) -> Sheet:
    """Return the form after the named script was read.

    Values that were typed before take precedence over the script.
    """
    try:
        text_then = _outranked(text, _beside(sheet))
        values = {**sheet.values, **fields_of(text_then), "wrap": sheet.value("wrap")}
    except UserError:
        return sheet._replace(text=text, original=text)
    return sheet._replace(values=values, text=text_then, original=text)


def of_job(detail: JobDetail, *, file_text: str | None, anew: bool = False) -> Sheet:
    """Return a form that submits an earlier job again.

    It contains the job's script, with the options of its command line added. `file_text` is the present
    content of the script, or None if it does not exist. With `anew` it replaces the script that the job ran.
    """
    try:
        options, name, args = leading(detail.submit_line)
    except UserError:
        options, name, args = [], "", []
    text = detail.script or with_body(BARE, shlex.join(detail.argv))
    if anew and file_text is not None:
        text = file_text
    with contextlib.suppress(UserError):
        text = _outranked(text, options)
    values = {"folder": detail.submit_dir}
    if file_text is not None:
        path = script_path(detail)
        below = path.startswith(os.path.join(detail.submit_dir, ""))
        values |= {"script": os.path.relpath(path, detail.submit_dir) if below else name}
        values |= {"args": shlex.join(args)}
    source = f"job {detail.row.label}"
    return written(Sheet(values), text)._replace(original=file_text or "", source=source, repeats=True)


def script_path(detail: JobDetail) -> str:
    """Return the path of the script with which the job was submitted, or "" if its command line names
    none.
    """
    try:
        _, name, _ = leading(detail.submit_line)
    except UserError:
        return ""
    return os.path.join(detail.submit_dir, os.path.expanduser(name)) if name else ""


def leading(submit_line: str) -> tuple[list[Pair], str, list[str]]:
    """Return (options, script, its arguments) of a command line that submitted a job. Raises UserError."""
    try:
        words = shlex.split(submit_line)
    except ValueError as error:
        raise UserError(f"{error}", "Close the quotes") from error
    options, rest = parse_leading(words[1:], "", SBATCH)
    return [pair for pair in options if pair[0] != "wrap"], "".join(rest[:1]), rest[1:]


def fields_of(text: str) -> dict[str, str]:
    """Return the values that the script sets, by field. Raises UserError."""
    pairs = [(given.option, given.word) for given in script_options(text, "script")]
    said = dict.fromkeys(OPTIONS.values(), "")
    said |= {OPTIONS[option]: value for option, value in pairs if option in OPTIONS}
    said["more"] = as_words([pair for pair in pairs if pair[0] not in OPTIONS])
    said["sweep"] = sweep_of(text)
    body = body_of(text)
    said["wrap"] = "" if "\n" in body else body
    return said


def options_of(sheet: Sheet) -> list[str]:
    """Return the sbatch options that are not in the script's file, as on a command line. Raises UserError."""
    return [as_word(option, value, SBATCH) for option, value in _beside(sheet)]


def command_line(sheet: Sheet) -> str:
    """Return the equivalent command line, with a note if the script was edited in the form."""
    grid = sweep_of(sheet.text)
    try:
        beside = _beside(sheet)
        same = with_sweep(_outranked(sheet.original, beside), grid) if sheet.original else ""
        made = ("array", array_of(parse_grid(grid))) if grid else None
    except UserError:
        beside, same, made = [], sheet.text, None
    code = [f"--code-of={sheet.value('code')}"] if sheet.value("code") else []
    sweep = [f"--sweep={grid}"] if grid else []
    options = [as_word(*pair, SBATCH) for pair in beside if pair != made]
    words = ["warpdeck", "submit", *code, *sweep, *options]
    if sheet.value("script"):
        edited = "   (edited in the form)" if sheet.original and same != sheet.text else ""
        return shlex.join([*words, sheet.value("script"), *arguments(sheet)]) + edited
    body = body_of(sheet.text)
    if "\n" in body:
        return shlex.join([*words, "SCRIPT"]) + "   (script in the form)"
    return shlex.join([*words, "--wrap", body] if body else [*words, "SCRIPT"])


def arguments(sheet: Sheet) -> list[str]:
    """Return the arguments of the script. An unfinished quote gives none; `check` reports it."""
    try:
        return shlex.split(sheet.value("args"))
    except ValueError:
        return []


def _check_field(field: FormField, value: str, *, now: float) -> list[FieldError]:
    try:
        words = [f"--{field.option}={value}"] if field.option else shlex.split(value)
        if field.id != "args":
            build_request(command_options(words, {}, now=now), {})
    except UserError as error:
        return [FieldError(field.id, in_words(error))]
    except ValueError as error:
        return [FieldError(field.id, f"{error}. Close the quotes")]
    return []


def check(sheet: Sheet, *, now: float) -> list[FieldError]:
    """Return all errors in the form that can be found without the controller, with their fields."""
    found: list[FieldError] = []
    if not sheet.value("script") and not body_of(sheet.text):
        found.append(FieldError("script", "Enter a script here, or a command below"))
    if sheet.value("script") and sheet.value("wrap"):
        found.append(FieldError("wrap", "Both a script and a command are given. Clear one of them"))
    if sheet.value("args") and not sheet.value("script"):
        found.append(
            FieldError("args", "Arguments need a script. Enter a script, or append them to the command")
        )
    for field in FIELDS:
        value = sheet.value(field.id)
        if not value or not (field.option or field.id in ("more", "args")):
            continue
        found += _check_field(field, value, now=now)
    if sheet.value("sweep"):
        try:
            with_sweep(sheet.text, sheet.value("sweep"))
        except UserError as error:
            found.append(FieldError("sweep", in_words(error)))
    if not found:
        try:
            script_options(sheet.text, "script")
        except UserError as error:
            found.append(FieldError(SCRIPT_TEXT, in_words(error)))
    return found


def _beside(sheet: Sheet) -> list[Pair]:
    """Return the options of the form that are missing or different in the script's file. Raises UserError."""
    there = fields_of(sheet.original) if sheet.original else {}
    found = [
        (option, sheet.value(field))
        for option, field in OPTIONS.items()
        if sheet.value(field) and sheet.value(field) != there.get(field, "")
    ]
    try:
        others = parse_words(shlex.split(sheet.value("more")), "command line")
        known = parse_words(shlex.split(there.get("more", "")), "command line")
    except ValueError as error:
        raise UserError(f"{error}", "Close the quotes") from error
    return found + [pair for pair in others if pair not in known]


def _outranked(text: str, pairs: list[Pair]) -> str:
    """Return the script with its options replaced by these."""
    for option, value in pairs:
        text = with_option(text, option, value)
    return text


def forecast_words(found: ForecastRow, *, now: float) -> str:
    """Return one line that says when the job would start if the form were submitted now."""
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
    """Return the field that an error belongs to, guessed from its text, or "" for the whole form."""
    text = error.message.lower()
    for words, field in (
        (("gpu",), "gpus"),
        (("memory",), "mem"),
        (("cpu",), "cpus"),
        (("time",), "time"),
        (("script", "#!", "#sbatch"), "script"),
        (("folder",), "folder"),
        (("snapshot",), "code"),
    ):
        if any(word in text for word in words):
            return field
    return ""


def in_words(error: UserError) -> str:
    """Return the error and its hint on one line, without its origin, which is obvious in a form."""
    message = error.message.removeprefix("command line: ")
    return f"{message}. {error.hint}" if error.hint else message
