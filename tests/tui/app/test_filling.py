"""The form filled: from the last job, from any job, from a preset; presets in their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from tests.tui.app.test_submit import SCRIPT, commit_all, fill
from tests.tui.app.test_views import row

from warpdeck.base.errors import UserError
from warpdeck_tui.user_files.presets import read_presets, remove_preset, save_preset
from warpdeck_tui.viewmodels.jobs.form import Sheet, command_line, typed
from warpdeck_tui.viewmodels.jobs.form_sources import choices, latest, preset_of, with_preset
from warpdeck_tui.viewmodels.jobs.preset import Preset, Presets

NOW = 1_700_000_000.0


def sheet(**fields: str) -> Sheet:
    found = Sheet()
    for field, value in fields.items():
        found = typed(found, field, value)
    return found


def test_a_preset_is_all_options_and_a_script_only_where_it_names_one() -> None:
    form = sheet(wrap="python a.py", gpus="8", time="600")
    debug = with_preset(form, Preset(options="--gpus=1 --partition=dev"))
    assert command_line(debug) == "warpdeck submit --gpus=1 --partition=dev --wrap 'python a.py'"
    assert (debug.value("gpus"), debug.value("time"), debug.value("more")) == ("1", "", "--partition=dev")
    other = with_preset(form, Preset(options="--gpus=1", script="train.sh", args="--lr 1", folder="/work"))
    assert {name: other.value(name) for name in ("script", "args", "wrap", "folder")} == {
        "script": "train.sh",
        "args": "--lr 1",
        "wrap": "",
        "folder": "/work",
    }


def test_a_form_that_was_kept_comes_back_as_it_was() -> None:
    form = sheet(wrap="python a.py", gpus="8", name="a b", more="--hold")
    again = with_preset(Sheet(), preset_of(form))
    assert again.text == form.text
    assert {k: v for k, v in again.values.items() if v} == {k: v for k, v in form.values.items() if v}
    several = sheet(wrap="true")._replace(text="#!/bin/sh\n#SBATCH --gpus=1\ncd /tmp\npython a.py\n")
    assert with_preset(Sheet(), preset_of(several)).text == several.text


def test_presets_are_kept_in_the_users_file_and_outrank_the_sites(tmp_path: Path) -> None:
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
def test_a_file_of_presets_that_cannot_be_used_is_named_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "presets.json"
    path.write_text(text)
    found, (trouble,) = read_presets(path, tmp_path / "none")
    assert found.all() == {}
    assert f"Cannot use {path}" in trouble
    with pytest.raises(UserError, match="Cannot use"):
        save_preset(path, "a", Preset())
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["", " ", "x" * 41, "a\nb"])
def test_a_preset_has_a_name_that_can_be_shown(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="A preset name must have 1 to 40 characters"):
        save_preset(tmp_path / "presets.json", name, Preset())


def test_what_can_be_filled_from_is_presets_then_submissions_the_latest_first_once_each() -> None:
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


async def submit_script(stage: Stage) -> None:
    await stage.press("n")
    await stage.shows("New job", "Enter Submit")
    await fill(stage, "script", "train.sh")
    await fill(stage, "args", "--lr 0.1")
    await fill(stage, "gpus", "1")
    await stage.press("enter")
    await stage.told("Submitted job 1")


async def test_the_form_opens_filled_from_the_last_job_with_its_script_as_it_is_now(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with on_stage(folder) as stage:
        await submit_script(stage)
        assert stage.cluster.controller.state.jobs[1].request.script_args == ("--lr", "0.1")
        (folder / "work/train.sh").write_text(SCRIPT.replace("hostname", "uname"))
        await stage.press("n")
        await stage.shows("New job   from job 1", "uname", "submit --gpus=1")
        assert [stage.field(name).value for name in ("args", "gpus", "time")] == ["--lr 0.1", "1", "30"]
        await stage.press("ctrl+n")
        assert stage.field("gpus").value == ""
        assert stage.field("folder").value
        await stage.hides("New job   from", "uname")


async def test_a_form_like_any_job_has_the_script_that_it_ran(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with on_stage(folder, size=(120, 30)) as stage:
        await submit_script(stage)
        (folder / "work/train.sh").write_text(SCRIPT.replace("hostname", "uname"))
        await stage.shows("● R")
        await stage.press("ctrl+n")
        await stage.shows("New job   from job 1", "hostname", "(edited in the form)")


async def test_a_session_fills_no_form(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.cluster.submit_shell()
        await stage.shows("● R")
        await stage.press("ctrl+n")
        await stage.told("Job 1 is an interactive session without a script")
        await stage.press("a")
        await stage.told("Cannot open a terminal here")


async def test_a_preset_is_saved_chosen_and_taken_away_again(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await stage.press("n")
        await stage.shows("New job", "Enter Submit")
        await fill(stage, "gpus", "4")
        await fill(stage, "time", "30")
        await stage.press("ctrl+s")
        await stage.shows("Save form as preset")
        await stage.type("debug")
        await stage.press("enter")
        await stage.told("Saved preset debug")
        await stage.press("ctrl+n", "ctrl+o")
        await stage.shows("Load a preset or a job", "debug", "--gpus=4 --time=30")
        await stage.press("enter")
        await stage.shows("New job   from preset debug", "#SBATCH --gpus=4")
        assert stage.field("time").value == "30"
        await stage.press("ctrl+o")
        await stage.shows("Load a preset or a job", "debug")
        await stage.press("X")
        await stage.shows("No presets and no jobs")
        await stage.press("escape", "ctrl+o")
        await stage.shows("No presets and no jobs")


async def test_a_job_runs_with_the_code_of_another(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 1\n")
    commit_all(work)
    async with on_stage(folder) as stage:
        await submit_script(stage)
        (work / "model.py").write_text("layers = 2\n")
        await stage.press("n")
        await stage.shows("New job   from job 1")
        await fill(stage, "code", "77")
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen.query_one("#form-error").display, "there is no such job")
        await fill(stage, "code", "1")
        await stage.shows("--code-of=1")
        await stage.press("enter")
        await stage.told("Submitted job 2")
        first, second = (stage.cluster.controller.state.jobs[number].request.snapshot for number in (1, 2))
        assert first is not None
        assert second == first


async def test_a_job_is_run_again_once_it_is_said_what_that_means(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    commit_all(work)
    async with on_stage(folder) as stage:
        await submit_script(stage)
        (work / "train.sh").write_text("#!/bin/sh\nfalse\n")
        await stage.shows("● R")
        await stage.press("A")
        await stage.shows("Run job 1 again?", "snapshot of commit", "$ warpdeck rerun 1")
        await stage.press("y")
        await stage.told("Submitted job 2")
        first, second = (stage.cluster.controller.state.jobs[number].request for number in (1, 2))
        assert second == first
        await stage.press("at")
        await stage.shows("warpdeck rerun 1")
