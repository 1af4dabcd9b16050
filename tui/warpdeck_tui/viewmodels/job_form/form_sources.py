"""Fills the "New job" form from a preset or from an earlier job.

Pure functions; the files are read elsewhere.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence

from warpdeck.base.errors import UserError
from warpdeck.notation.options.getopt import parse_words
from warpdeck.notation.reading.script import script_options
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, glyph
from warpdeck_tui.viewmodels.job_form.form import Sheet, written
from warpdeck_tui.viewmodels.job_form.preset import Preset, Presets
from warpdeck_tui.viewmodels.job_form.script import BARE, as_words, body_of, with_body, with_others
from warpdeck_tui.widgets.cells import printable

PRESET, JOB = "preset ", "job "
"""Prefixes of the key of a row, before the name of a preset or the id of a job."""
MAX_JOBS = 100
"""Largest number of jobs to choose from, the latest ones."""


def preset_of(sheet: Sheet) -> Preset:
    """Return a preset with the content of the form. Raises UserError if its script is not understood."""
    pairs = [(given.option, given.word) for given in script_options(sheet.text, "script")]
    script = sheet.value("script")
    return Preset(
        options=as_words(pairs),
        script=script,
        args=sheet.value("args"),
        command="" if script else body_of(sheet.text),
        folder=sheet.value("folder") if script else "",
    )


def with_preset(sheet: Sheet, preset: Preset) -> Sheet:
    """Return the form with the options of the preset in place of its own. Raises UserError.

    Its script or command is replaced, too, if the preset names one.
    """
    try:
        pairs = parse_words(shlex.split(preset.options), "the preset's options")
    except ValueError as error:
        raise UserError(f"the preset's options: {error}", "Close the quotes") from error
    values = dict(sheet.values)
    text = sheet.text
    if preset.folder:
        values["folder"] = preset.folder
    if preset.script:
        values |= {"script": preset.script, "args": preset.args, "wrap": ""}
        text = BARE
    elif preset.command:
        values |= {"script": "", "args": ""}
        text = with_body(BARE if sheet.value("script") else text, preset.command)
    return written(Sheet(values, sheet.text, sheet.original), with_others(text, pairs, but=frozenset()))


def latest(jobs: Iterable[JobRow], *, user: str) -> list[JobRow]:
    """Return the user's batch jobs, the latest first, with one row for each array."""
    found: dict[int, JobRow] = {}
    for row in sorted(jobs, key=lambda each: each.id):
        if row.user == user and not row.interactive:
            found.setdefault(row.array_job_id, row)
    return sorted(found.values(), key=lambda row: -row.array_job_id)[:MAX_JOBS]


def choices(presets: Presets, jobs: Sequence[JobRow], *, now: float) -> list[tuple[str, Line]]:
    """Return rows (key, cells): the presets, then the jobs."""
    rows: list[tuple[str, Line]] = []
    for name, preset in presets.all().items():
        whose = "preset" if name in presets.own else "site"
        rows.append((f"{PRESET}{name}", (Cell(whose, "accent"), Cell(printable(name)), Cell(_words(preset)))))
    for row in jobs:
        words = f"{glyph(row.state)} {row.state_short}  {_asked(row)}submitted {age(now - row.submit)} ago"
        name = f"{row.array_job_id}  {printable(row.name)}"
        rows.append((f"{JOB}{row.id}", (Cell("job", "muted"), Cell(name), Cell(words, "muted"))))
    return rows


def _asked(row: JobRow) -> str:
    return f"{row.gpus} GPUs, " if row.gpus > 1 else "1 GPU, " if row.gpus else ""


def _words(preset: Preset) -> str:
    """Return the preset's options and script or command in one line."""
    words = preset.options
    with contextlib.suppress(ValueError):
        words = " ".join(shlex.split(preset.options))
    does = preset.script or preset.command.partition("\n")[0]
    return printable(f"{words}   {does}".strip())
