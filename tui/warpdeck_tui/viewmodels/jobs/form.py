"""The form for a new job as one sheet: its fields, and the batch script beside them, each in step with the other.

An option that is typed in a field is written into the script; one that is written in the script stands in its field. The sheet makes
the command line that does the same, and tells which field an error belongs to.
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
from warpdeck.notation.options.options import SBATCH
from warpdeck.notation.request.request import build_request
from warpdeck.notation.request.script_options import script_options
from warpdeck.notation.request.sweep import array_of, parse_grid, sweep_of, with_sweep
from warpdeck.protocol.job_rows import JobDetail
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.protocol.start_text import starts_in_words
from warpdeck_tui.viewmodels.cells import plural

from .script import BARE, Pair, as_words, body_of, with_body, with_option, with_others


class Field(NamedTuple):
    """A field of the form; `option` is what it stands for on the command line ("" for the script and the like)."""

    id: str
    title: str
    option: str
    example: str


FIELDS = (
    Field("folder", "folder", "", "where you submit from"),
    Field("script", "script", "", "train.sh"),
    Field("args", "arguments", "", "--lr 0.1"),
    Field("wrap", "or command", "", "python train.py"),
    Field("gpus", "GPUs", "gpus", "1, or h100:2"),
    Field("cpus", "CPUs a task", "cpus-per-task", "1"),
    Field("mem", "memory", "mem", "64G"),
    Field("time", "time limit", "time", "4:00:00"),
    Field("name", "job name", "job-name", "the script's name"),
    Field("sweep", "sweep", "", "lr=0.1,0.2 seed=1..5"),
    Field("more", "more", "", "--array=0-9 --hold"),
    Field("code", "code of job", "", "now, or a job's id"),
)
OPTIONS = {field.option: field.id for field in FIELDS if field.option}
"""Option -> its field; all others stand in "more"."""
Values = Mapping[str, str]


class FieldError(NamedTuple):
    """What is wrong, beside the field where it is; "text" is the script beside the form, "" the whole form."""

    field: str
    words: str


class Sheet(NamedTuple):
    """The form as it stands. `text` is the script that would be submitted, `original` that of the file, "" if none is named.

    `source`: what it was filled from, in words.
    """

    values: Values = MappingProxyType({})
    text: str = BARE
    original: str = ""
    source: str = ""

    def value(self, field: str) -> str:
        return self.values.get(field, "")


def typed(sheet: Sheet, field: str, value: str) -> Sheet:
    """Somebody typed into a field."""
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
            text = sheet.text  # half a word still; what is wrong with it is told when it is submitted
    return written(sheet._replace(values=values), text)


def with_grid(text: str, grid_text: str) -> str:
    """The script with that sweep, and the array that it makes; how many run at once stays as it is. Half a word changes nothing."""
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
    """Somebody wrote in the script: fields follow where it says something else than before."""
    try:
        before, after = fields_of(sheet.text), fields_of(text)
    except UserError:
        return sheet._replace(text=text)
    if sheet.value("script"):
        after["wrap"] = before["wrap"]
    changed = {field: value for field, value in after.items() if value != before.get(field, "")}
    return sheet._replace(values={**sheet.values, **changed}, text=text)


def opened(sheet: Sheet, text: str) -> Sheet:
    """The named script was read. What was typed before outranks what it says."""
    try:
        text_then = _outranked(text, _beside(sheet))
        values = {**sheet.values, **fields_of(text_then), "wrap": sheet.value("wrap")}
    except UserError:
        return sheet._replace(text=text, original=text)
    return sheet._replace(values=values, text=text_then, original=text)


def of_job(detail: JobDetail, *, file_text: str | None, anew: bool = False) -> Sheet:
    """A job that was submitted before, to be submitted again: its script with the options of its command line in it.

    `file_text`: the script that the line names as it is now, None where it is not there; `anew` takes it in place of what the
    job ran.
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
    return written(Sheet(values), text)._replace(original=file_text or "", source=source)


def script_path(detail: JobDetail) -> str:
    """Where the script lay that the job was submitted with, "" if its line names none."""
    try:
        _, name, _ = leading(detail.submit_line)
    except UserError:
        return ""
    return os.path.join(detail.submit_dir, os.path.expanduser(name)) if name else ""


def leading(submit_line: str) -> tuple[list[Pair], str, list[str]]:
    """(the options, the script, its arguments) of a line that submitted a job. Raises UserError."""
    try:
        words = shlex.split(submit_line)
    except ValueError as error:
        raise UserError(f"{error}", "close the quotes") from error
    options, rest = parse_leading(words[1:], "", SBATCH)
    return [pair for pair in options if pair[0] != "wrap"], "".join(rest[:1]), rest[1:]


def fields_of(text: str) -> dict[str, str]:
    """Field -> what the script says of it. Raises UserError."""
    pairs = [(option, value) for option, value, _ in script_options(text, "script")]
    said = dict.fromkeys(OPTIONS.values(), "")
    said |= {OPTIONS[option]: value for option, value in pairs if option in OPTIONS}
    said["more"] = as_words([pair for pair in pairs if pair[0] not in OPTIONS])
    said["sweep"] = sweep_of(text)
    body = body_of(text)
    said["wrap"] = "" if "\n" in body else body
    return said


def options_of(sheet: Sheet) -> list[str]:
    """sbatch options that the script's file does not have, as on a command line. Raises UserError."""
    return [as_word(option, value, SBATCH) for option, value in _beside(sheet)]


def command_line(sheet: Sheet) -> str:
    """What does the same in a shell; a script that was edited here says so."""
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
        edited = "   (as it is edited here)" if sheet.original and same != sheet.text else ""
        return shlex.join([*words, sheet.value("script"), *arguments(sheet)]) + edited
    body = body_of(sheet.text)
    if "\n" in body:
        return shlex.join([*words, "SCRIPT"]) + "   (as it is written here)"
    return shlex.join([*words, "--wrap", body] if body else [*words, "SCRIPT"])


def arguments(sheet: Sheet) -> list[str]:
    """The script's own words; half a quote is told by `check`."""
    try:
        return shlex.split(sheet.value("args"))
    except ValueError:
        return []


def check(sheet: Sheet, *, now: float) -> list[FieldError]:
    """What is wrong before anything is sent, field by field."""
    found: list[FieldError] = []
    if not sheet.value("script") and not body_of(sheet.text):
        found.append(FieldError("script", "name a script, or write a command below"))
    if sheet.value("script") and sheet.value("wrap"):
        found.append(FieldError("wrap", "there is a script already: empty one of the two"))
    if sheet.value("args") and not sheet.value("script"):
        found.append(FieldError("args", "they are for a script: name one, or write them behind the command"))
    for field in FIELDS:
        value = sheet.value(field.id)
        if not value or not (field.option or field.id in ("more", "args")):
            continue
        try:
            words = [f"--{field.option}={value}"] if field.option else shlex.split(value)
            if field.id != "args":
                build_request(command_options(words), {}, now=now)
        except UserError as error:
            found.append(FieldError(field.id, in_words(error)))
        except ValueError as error:
            found.append(FieldError(field.id, f"{error}; close the quotes"))
    if sheet.value("sweep"):
        try:
            with_sweep(sheet.text, sheet.value("sweep"))
        except UserError as error:
            found.append(FieldError("sweep", in_words(error)))
    if not found:
        try:
            script_options(sheet.text, "script")
        except UserError as error:
            found.append(FieldError("text", in_words(error)))
    return found


def _beside(sheet: Sheet) -> list[Pair]:
    """The options of the sheet that the file's script does not have, or has otherwise. Raises UserError."""
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
        raise UserError(f"{error}", "close the quotes") from error
    return found + [pair for pair in others if pair not in known]


def _outranked(text: str, pairs: list[Pair]) -> str:
    """The script with these options in place of its own."""
    for option, value in pairs:
        text = with_option(text, option, value)
    return text


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
        (("snapshot",), "code"),
    ):
        if any(word in text for word in words):
            return field
    return ""


def in_words(error: UserError) -> str:
    """The error and what to do, on one line; where it stands goes without saying in a form."""
    message = error.message.removeprefix("command line: ")
    return f"{message}; {error.hint}" if error.hint else message
