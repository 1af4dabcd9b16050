"""Initial values of the "New job" form: from the user's last job, from another job, or from a preset."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir
from warpdeck.client.submission import read_script
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck_tui.data.user_folders import in_own_thread, only_script
from warpdeck_tui.deck import Deck
from warpdeck_tui.user_files.presets import read_presets, remove_preset, save_preset
from warpdeck_tui.viewmodels.job_form.form import Sheet, of_job, opened, script_path, typed
from warpdeck_tui.viewmodels.job_form.form_sources import JOB, PRESET, choices, latest, with_preset
from warpdeck_tui.viewmodels.job_form.preset import Preset, Presets
from warpdeck_tui.widgets.cells import printable

if TYPE_CHECKING:
    from warpdeck_tui.viewmodels import Line

LOOKED_AT = 200
"""Number of the user's jobs that are listed. Each task of an array is a job of its own."""
FOLDER_S = 0.5
"""Seconds within which the working folder must be read. After that the form opens without a script."""
PRESETS_FILE = "presets.json"


class FormOpening:
    """Source of the initial values for the forms of one app."""

    def __init__(self, deck: Deck) -> None:
        self.deck = deck

    @property
    def _own_file(self) -> Path:
        return Path(config_dir()) / PRESETS_FILE

    @property
    def _site_file(self) -> Path:
        return Path(self.deck.core.paths.home) / PRESETS_FILE

    def presets(self) -> Presets:
        """Return all presets. Files that cannot be used are reported to the user."""
        found, trouble = read_presets(self._own_file, self._site_file)
        for words in trouble:
            self.deck.notify(words, severity="warning", markup=False)
        return found

    def save(self, name: str, preset: Preset) -> None:
        """Save a preset in the user's file. Raises UserError."""
        save_preset(self._own_file, name, preset)

    def remove(self, key: str) -> None:
        """Remove the preset of this row. Raises UserError."""
        if not key.startswith(PRESET):
            raise UserError("Jobs cannot be removed from this list", "Only presets can be removed")
        remove_preset(self._own_file, key.removeprefix(PRESET))

    async def last(self) -> Sheet:
        """Return the user's last submission, or else a form with the only script of the working folder.

        The script has its present content.
        """
        try:
            for row in (await self._jobs())[:1]:
                return await self.of_job(str(row.id), anew=True)
        # There is no connection, as the line at the top says. The user can fill in a form nevertheless.
        except UserError:
            pass
        return await self._of_folder(os.getcwd())

    async def _of_folder(self, folder: str) -> Sheet:
        """Return a form with the only script of this folder, or an empty one."""
        sheet = Sheet({"folder": folder})
        try:
            async with asyncio.timeout(FOLDER_S):
                found = await in_own_thread(lambda: _script_of_folder(folder))
        except (UserError, TimeoutError):
            return sheet
        if found is None:
            return sheet
        name, text = found
        source = f"{printable(name)}, the only script of the folder"
        return opened(typed(sheet, "script", name), text)._replace(source=source)

    async def of_job(self, key: str, *, anew: bool = False) -> Sheet:
        """Return the submission of this job. With `anew`, its script has its present content.

        Raises UserError.
        """
        detail = await self.deck.core.job(key)
        if detail.row.interactive or not (detail.script or detail.argv):
            raise UserError(
                f"Job {detail.row.label} is a session and has no script",
                "Press i to open a shell",
            )
        return of_job(detail, file_text=await asyncio.to_thread(_script_now, detail), anew=anew)

    async def choices(self) -> list[tuple[str, Line]]:
        """Return the rows of presets and jobs to choose from."""
        presets = self.presets()
        try:
            jobs = await self._jobs()
        except UserError:
            jobs = []
        return choices(presets, jobs, now=time.time())

    async def chosen(self, key: str, sheet: Sheet) -> Sheet:
        """Return the form filled from the chosen row. Raises UserError."""
        if key.startswith(JOB):
            return await self.of_job(key.removeprefix(JOB))
        name = key.removeprefix(PRESET)
        return with_preset(sheet, self.presets().all()[name])._replace(source=f"preset {name}")

    async def _jobs(self) -> list[JobRow]:
        """Return the user's submissions, the latest first. Raises UserError."""
        user = self.deck.board.user
        return latest(await self.deck.core.submissions(user, limit=LOOKED_AT), user=user)


def _script_of_folder(folder: str) -> tuple[str, str] | None:
    """Return (name, text) of the only script of the folder, or None."""
    name = only_script(folder)
    if not name:
        return None
    try:
        return name, read_script(os.path.join(folder, name))
    except UserError:
        return None


def _script_now(detail: JobDetail) -> str | None:
    """Return the present content of the script that the job's command line names.

    Returns None if it is no longer a readable script.
    """
    path = script_path(detail)
    if not os.path.isfile(path):
        return None
    try:
        return read_script(path)
    except UserError:
        return None
