"""The form for a new job: errors beside their field, corrections, and the submission."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from tests.tui.app.app_pilot import AppPilot, run_app
from textual import events
from textual.widgets import Static, TextArea

from warpdeck.base.errors import UserError
from warpdeck.model import GpuRequest, Resources
from warpdeck_tui import screens
from warpdeck_tui.user_files.external_editor import edit
from warpdeck_tui.viewmodels.job_form.form import Sheet

SCRIPT = "#!/bin/sh\n#SBATCH -J from-script\n#SBATCH --gpus=2\n#SBATCH --time=30\nhostname\n"


def commit_all(folder: Path) -> None:
    """Turn the folder into a git repository with one commit."""
    as_somebody = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*as_somebody, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)


async def open_form(ui: AppPilot) -> None:
    await ui.press("n")
    await ui.shows("New job", "Enter Submit")


async def fill(ui: AppPilot, name: str, text: str) -> None:
    ui.field(name).value = text
    await ui.settle()
    await ui.pilot.pause()


async def test_an_error_is_shown_beside_its_field_and_the_form_stays_open(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.type("trian.sh")
        await ui.press("enter")
        await ui.shows("trian.sh")
        await ui.until(lambda: ui.app.screen.query_one("#script-error").display, "the error is shown")
        assert ui.app.screen.focused is ui.field("script")
        await fill(ui, "script", "train.sh")
        await fill(ui, "time", "tomorrow")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen.query_one("#time-error").display, "the time is refused")
        assert ui.app.screen.focused is ui.field("time")
        assert not ui.app.screen.query_one("#script-error").display
        await fill(ui, "time", "10")
        await ui.press("enter")
        await ui.shows_notification("Submitted job 1")
        await ui.shows("from-script", "● R")


async def test_the_error_of_a_script_disappears_when_it_is_corrected(folder: Path) -> None:
    async with run_app(folder) as ui:
        await ui.press("n", "enter")
        await ui.until(lambda: ui.app.screen.query_one("#script-error").display, "the error is shown")
        area = ui.app.screen.query_one(TextArea)
        area.text = "#!/bin/sh\n#SBATCH --nonsense\ntrue\n"
        await ui.until(lambda: not ui.app.screen.query_one("#script-error").display, "a script is there")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen.query_one("#text-error").display, "the option is refused")
        area.text = "#!/bin/sh\n#SBATCH --gpus=1\ntrue\n"
        await ui.until(lambda: not ui.app.screen.query_one("#text-error").display, "the option is valid")


async def test_an_impossible_number_of_gpus_is_reported_at_its_field(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await fill(ui, "gpus", "64")
        await ui.press("enter")
        await ui.until(lambda: ui.app.screen.query_one("#gpus-error").display, "the error is shown")
        assert not ui.cluster.controller.state.jobs


async def test_the_form_shows_the_scripts_options_and_the_command_line(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder) as ui:
        await open_form(ui)
        await fill(ui, "script", "train.sh")
        await ui.shows("#SBATCH -J from-script", "hostname", "$ warpdeck submit train.sh")
        assert [ui.field(name).value for name in ("gpus", "time", "name")] == ["2", "30", "from-script"]
        await fill(ui, "gpus", "1")
        await ui.shows("$ warpdeck submit --gpus=1 train.sh")


async def test_the_form_shows_the_expected_start(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await fill(ui, "gpus", "4")
        await ui.shows("starts now on gpu01")
        await fill(ui, "gpus", "64")
        await ui.shows("never: the job requests 64 GPUs")
        await fill(ui, "time", "tomorrow")
        await ui.hides("never:", "starts now")
        assert not ui.cluster.controller.state.jobs


async def test_the_script_and_the_fields_are_kept_in_sync(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.press("tab")
        await ui.type("hostname")
        await ui.press("tab", "tab")
        await ui.type("2")
        await ui.shows("#SBATCH --gpus=2", "$ warpdeck submit --gpus=2 --wrap hostname")
        ui.app.screen.query_one("#text").focus()
        await ui.press("home", "down", "end", "backspace")
        await ui.type("3 -t 30")
        await ui.until(lambda: ui.field("time").value == "30", "the time limit is in its field")
        assert ui.field("gpus").value == "3"
        await ui.press("escape")
        assert ui.app.screen.focused is ui.field("gpus")
        await ui.press("enter")
        await ui.shows_notification("Submitted job 1")
        (job,) = ui.cluster.controller.state.jobs.values()
        assert job.request.script == "#!/bin/sh\n#SBATCH --gpus=3 -t 30\nhostname\n"
        assert job.request.time_limit_s == 1800


async def test_an_impossible_request_is_reported_while_it_is_typed(folder: Path) -> None:
    async with run_app(folder, size=(80, 24)) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await fill(ui, "mem", "90T")
        await ui.shows("never: ", "memory")


async def test_the_script_is_edited_in_the_users_editor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/train/eval/ "$2"\ntest "$1" = -x\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"{editor} -x")
    assert edit("python train.py\n", name="a b.sh") == "python eval.py\n"
    monkeypatch.setenv("VISUAL", str(editor))
    with pytest.raises(UserError, match="The text is unchanged"):
        edit("python train.py\n", name="job.sh")
    monkeypatch.setenv("VISUAL", str(folder / "none"))
    with pytest.raises(UserError, match="Cannot run the editor"):
        edit("python train.py\n", name="job.sh")
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.press("ctrl+e")
        await ui.shows("Cannot open a terminal here")


async def test_the_form_shows_the_jobs_ahead(folder: Path) -> None:
    async with run_app(folder) as ui:
        for number in range(3):
            whole = Resources(gpus=GpuRequest(per_node=4))
            await ui.cluster.submit(f"big-{number}", resources=whole, time_limit_s=3600 * (number + 1))
        await ui.shows("big-2", "◌ PD")
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await fill(ui, "gpus", "4")
        await fill(ui, "time", "600")
        await ui.shows("starts about", "behind 1 job")


async def test_a_form_without_script_and_command_is_not_submitted(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.press("enter")
        await ui.shows("Enter a script here, or")
        await ui.press("escape")
        await ui.hides("New job")
        assert not ui.cluster.controller.state.jobs


async def test_the_last_expected_start_stays_until_the_next_one_is_known(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "true")
        await ui.shows("starts now on gpu01")
        line = ui.app.screen.query_one("#forecast", Static)
        shown: set[str] = set()
        ui.field("gpus").value = "40"
        while "never" not in str(line.content):
            shown.add(str(line.content))
            await asyncio.sleep(0)
        assert shown == {"starts now on gpu01"}
        assert line.has_class("-never")


async def test_the_only_script_of_the_folder_is_filled_in(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    (folder / "work/data.sh").write_text("no script")
    (folder / "work/dir.sh").mkdir()
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.shows("from train.sh, the only script of the folder", "#SBATCH -J from-script", "starts now")
        assert ui.field("script").value == "train.sh"
        assert ui.field("gpus").value == "2"
        await ui.press("enter")
        await ui.shows_notification("Submitted job 1")


async def test_no_script_is_filled_in_if_there_are_several(folder: Path) -> None:
    for name in ("a.sh", "b.sbatch"):
        (folder / "work" / name).write_text(SCRIPT)
    async with run_app(folder) as ui:
        await open_form(ui)
        assert ui.field("script").value == ""


@pytest.mark.parametrize(
    "keys, option",
    [(("4",), "--gpus=4"), (("down", "9"), "--time=9"), (("up", "7"), "train.sh 7")],
    ids=["GPUs", "time limit", "arguments"],
)
async def test_the_last_job_is_submitted_with_a_change_in_four_keys(
    folder: Path, keys: tuple[str, ...], option: str
) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.press("enter")
        await ui.shows_notification("Submitted job 1")
        taken = ("n", *keys, "enter")
        assert len(taken) <= 4
        await ui.press(*taken)
        await ui.shows_notification("Submitted job 2")
        assert option in ui.app.chronicle.rows()[0][1][1].text


async def test_the_form_opens_above_a_screen_that_is_not_drawn_yet(folder: Path) -> None:
    async with run_app(folder) as ui:
        ui.app.push_screen(screens.HistoryScreen())
        ui.app.forms.open(Sheet())
        await ui.shows("New job", "Enter Submit")
        assert not ui.notifications()


async def test_a_closed_form_cancels_its_lookups(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        form = ui.app.screen
        for number in range(1000):  # a lookup may end before this check
            ui.field("wrap").value = f"true {number}"
            await asyncio.sleep(0)
            if any(each.node is form for each in ui.app.workers):
                break
        else:
            pytest.fail("nothing was looked up")
        await ui.press("escape")
        assert not [each for each in ui.app.workers if each.node is form and not each.is_cancelled]


async def test_a_pasted_text_goes_into_its_field_only(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        ui.app.post_message(events.Paste("train.sh\nrm -rf /\n"))
        await ui.until(lambda: ui.field("script").value, "the paste has arrived")
        assert ui.field("script").value == "train.sh"
        assert ui.app.screen.focused is ui.field("script")
        assert not ui.cluster.controller.state.jobs


async def test_a_pasted_script_replaces_an_empty_one(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        script = ui.app.screen.query_one("#text", TextArea)
        script.focus()
        whole = "#!/bin/bash\n#SBATCH --gpus=2\necho 你好\n"
        ui.app.post_message(events.Paste(whole))
        await ui.until(lambda: script.text == whole and ui.field("gpus").value == "2", "the paste alone")
        ui.app.post_message(events.Paste("#!x"))
        await ui.until(lambda: script.text == whole + "#!x", "existing text is kept")


async def test_the_snapshot_of_a_job_can_be_read_and_compared(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 2\n")
    commit_all(work)
    async with run_app(folder, size=(120, 40)) as ui:
        for layers in (2, 3):
            (work / "model.py").write_text(f"layers = {layers}\n")
            await open_form(ui)
            await fill(ui, "script", "train.sh")
            await ui.press("enter")
            await ui.shows_notification(f"Submitted job {layers - 1}")
        # The new job's row may arrive after these keys. It must not move the cursor then.
        await ui.press("g", "enter", "s")
        await ui.shows("job 1", "[Code]", "files 2", "model.py", "train.sh", "on branch")
        await ui.shows("nothing since the commit", "layers = 2")
        await ui.press("D")
        await ui.shows("job 1 (-) to its folder now (+)", "1 changed", "- layers = 2", "+ layers = 3")
        await ui.press("escape", "equals_sign")
        await ui.shows("Select a job to compare with")
        await ui.type("2")
        await ui.shows("2  from-script")
        await ui.press("down", "enter")
        await ui.shows("job 2 (-) to job 1 (+)", "model.py  +1 -1", "- layers = 3", "+ layers = 2")
        await ui.press("escape", "g", "enter")
        await ui.shows("model.py   (job snapshot)", "layers = 2")
        await ui.press("escape")
        await ui.shows("[Code]")
        ui.app.navigation.open_job("2", pane="code")
        await ui.shows("1 file since the commit  +1 -1", "- layers = 2", "+ layers = 3")


async def test_a_long_paste_is_shown_at_its_end_and_keeps_the_layout(folder: Path) -> None:
    async with run_app(folder) as ui:
        await open_form(ui)
        await ui.press("tab")
        ui.app.post_message(events.Paste("y" * 10_000 + "END"))
        await ui.shows("yyyEND", "or command", "code of job", "Enter Submit")
