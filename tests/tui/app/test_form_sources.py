"""Filling the form from the last job, from any job or from a preset, and the files of presets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from tests.tui.app.filled_form import filled
from tests.tui.app.test_submit import SCRIPT, commit_all, fill
from tests.tui.app.test_viewmodels import row

from warpdeck.base.errors import UserError
from warpdeck.model import JobId
from warpdeck_tui.user_files.presets import read_presets, remove_preset, save_preset
from warpdeck_tui.viewmodels.job_form.form import Sheet, command_line
from warpdeck_tui.viewmodels.job_form.form_sources import choices, latest, preset_of, with_preset
from warpdeck_tui.viewmodels.job_form.preset import Preset, Presets

NOW = 1_700_000_000.0


def test_a_preset_replaces_all_options_and_the_script_only_if_it_has_one() -> None:
    form = filled(wrap="python a.py", gpus="8", time="600")
    debug = with_preset(form, Preset(options="--gpus=1 --partition=dev"))
    assert command_line(debug) == "warpdeck submit --gpus=1 --partition=dev --wrap 'python a.py'"
    assert (debug.value("gpus"), debug.value("time"), debug.value("partition")) == ("1", "", "dev")
    other = with_preset(form, Preset(options="--gpus=1", script="train.sh", args="--lr 1", folder="/work"))
    assert {name: other.value(name) for name in ("script", "args", "wrap", "folder")} == {
        "script": "train.sh",
        "args": "--lr 1",
        "wrap": "",
        "folder": "/work",
    }


def test_a_form_saved_as_preset_is_restored_unchanged() -> None:
    form = filled(wrap="python a.py", gpus="8", name="a b", more="--hold")
    again = with_preset(Sheet(), preset_of(form))
    assert again.text == form.text
    assert {k: v for k, v in again.values.items() if v} == {k: v for k, v in form.values.items() if v}
    several = filled(wrap="true")._replace(text="#!/bin/sh\n#SBATCH --gpus=1\ncd /tmp\npython a.py\n")
    assert with_preset(Sheet(), preset_of(several)).text == several.text


def test_presets_of_the_user_override_those_of_the_site(tmp_path: Path) -> None:
    own, site = tmp_path / "config/presets.json", tmp_path / "presets.json"
    site.write_text(json.dumps({"presets": {"debug": {"options": "--gpus=2"}, "big": {}}}))
    save_preset(own, "debug", Preset(options="--gpus=1"))
    assert own.stat().st_mode & 0o777 == 0o600
    found, trouble = read_presets(own, site)
    assert trouble == []
    assert {name: preset.options for name, preset in found.all().items()} == {"debug": "--gpus=1", "big": ""}
    with pytest.raises(UserError, match="Cannot remove preset big"):
        remove_preset(own, "big")
    remove_preset(own, "debug")
    assert read_presets(own, site)[0].all()["debug"].options == "--gpus=2"


@pytest.mark.parametrize("text", ["{", '{"presets": {"a": {"option": "-n 1"}}}', '{"presets": 3}'])
def test_an_invalid_preset_file_is_named_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "presets.json"
    path.write_text(text)
    found, (trouble,) = read_presets(path, tmp_path / "none")
    assert found.all() == {}
    assert f"Cannot use {path}" in trouble
    with pytest.raises(UserError, match="Cannot use"):
        save_preset(path, "a", Preset())
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["", " ", "x" * 41, "a\nb"])
def test_a_preset_name_is_short_and_printable(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="A preset name must have 1 to 40 characters"):
        save_preset(tmp_path / "presets.json", name, Preset())


def test_sources_are_presets_and_then_each_latest_submission() -> None:
    jobs = [
        row(1, submit=NOW - 60),
        row(2, array_job_id=2, label="2_0"),
        row(3, array_job_id=2, label="2_1"),
        row(4, interactive=True),
        row(5, user="bob"),
    ]
    found = latest(jobs, user="ann")
    assert [job.id for job in found] == [2, 1]
    presets = Presets({"mine": Preset(options="'--job-name=a b'")}, {"theirs": Preset(script="t.sh")})
    rows = choices(presets, found, now=NOW)
    assert [key for key, _ in rows] == ["preset theirs", "preset mine", "job 2", "job 1"]
    assert rows[1][1][2].text == "--job-name=a b"


async def submit_script(ui: AppPilot) -> None:
    await ui.press("n")
    await ui.shows("New job", "Enter Submit")
    await fill(ui, "script", "train.sh")
    await fill(ui, "args", "--lr 0.1")
    await fill(ui, "gpus", "1")
    await ui.press("enter")
    await ui.shows_notification("Submitted job 1")


async def test_the_form_opens_with_the_last_job_and_the_current_script(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder) as ui:
        await submit_script(ui)
        assert ui.cluster.controller.state.jobs[JobId(1)].request.script_args == ("--lr", "0.1")
        (folder / "work/train.sh").write_text(SCRIPT.replace("hostname", "uname"))
        await ui.press("n")
        await ui.shows("New job   from job 1", "uname", "submit --gpus=1")
        assert [ui.field(name).value for name in ("args", "gpus", "time")] == ["--lr 0.1", "1", "30"]
        await ui.press("ctrl+n")
        assert ui.field("gpus").value == ""
        assert ui.field("folder").value
        await ui.hides("New job   from", "uname")


async def test_a_form_copied_from_a_job_has_the_script_that_ran(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder, size=(120, 30)) as ui:
        await submit_script(ui)
        (folder / "work/train.sh").write_text(SCRIPT.replace("hostname", "uname"))
        await ui.shows("● R")
        await ui.press("ctrl+n")
        await ui.shows("New job   from job 1", "hostname", "(edited in the form)")


async def test_an_interactive_session_cannot_fill_the_form(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.cluster.submit_shell()
        await ui.shows("● R")
        await ui.press("ctrl+n")
        await ui.shows_notification("Job 1 is a session and has no script")
        await ui.press("a")
        await ui.shows_notification("Cannot open a terminal here")


async def test_a_preset_is_saved_loaded_and_removed(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("n")
        await ui.shows("New job", "Enter Submit")
        await fill(ui, "gpus", "4")
        await fill(ui, "time", "30")
        await ui.press("ctrl+s")
        await ui.shows("Save form as preset")
        await ui.type("debug")
        await ui.press("enter")
        await ui.shows_notification("Saved preset debug")
        await ui.press("ctrl+n", "ctrl+o")
        await ui.shows("Load a preset or a job", "debug", "--gpus=4 --time=30")
        await ui.press("enter")
        await ui.shows("New job   from preset debug", "#SBATCH --gpus=4")
        assert ui.field("time").value == "30"
        await ui.press("ctrl+o")
        await ui.shows("Load a preset or a job", "debug")
        await ui.press("X")
        await ui.shows("No presets and no jobs")
        await ui.press("escape", "ctrl+o")
        await ui.shows("No presets and no jobs")


async def test_a_job_may_run_with_the_code_of_another_job(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 1\n")
    commit_all(work)
    async with run_app(folder) as ui:
        await submit_script(ui)
        (work / "model.py").write_text("layers = 2\n")
        await ui.press("n")
        await ui.shows("New job   from job 1")
        await fill(ui, "code", "77")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen.query_one("#form-error").display, "there is no such job")
        await fill(ui, "code", "1")
        await ui.shows("--code-of=1")
        await ui.press("enter")
        await ui.shows_notification("Submitted job 2")
        first, second = (
            ui.cluster.controller.state.jobs[JobId(number)].request.snapshot for number in (1, 2)
        )
        assert first is not None
        assert second == first


async def test_a_job_runs_again_after_a_confirmation_with_its_snapshot(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    commit_all(work)
    async with run_app(folder) as ui:
        await submit_script(ui)
        (work / "train.sh").write_text("#!/bin/sh\nfalse\n")
        await ui.shows("● R")
        await ui.press("A")
        await ui.shows("Run job 1 again?", "snapshot of commit", "$ warpdeck rerun 1")
        await ui.press("y")
        await ui.shows_notification("Submitted job 2")
        first, second = (ui.cluster.controller.state.jobs[JobId(number)].request for number in (1, 2))
        assert second == first
        await ui.press("at")
        await ui.shows("warpdeck rerun 1")
