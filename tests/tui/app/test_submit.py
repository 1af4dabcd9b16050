"""The form for a new job: errors beside the field, then corrected, then a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.tui.app.stage import Stage, on_stage
from textual import events
from textual.widgets import TextArea

from warpdeck.base.errors import UserError
from warpdeck.model import GpuRequest, Resources
from warpdeck_tui.user_files.external_editor import edit

SCRIPT = "#!/bin/sh\n#SBATCH -J from-script\n#SBATCH --gpus=2\n#SBATCH --time=30\nhostname\n"


def commit_all(folder: Path) -> None:
    """Makes the folder a git repository with one commit."""
    as_somebody = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*as_somebody, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)


async def open_form(stage: Stage) -> None:
    await stage.press("n")
    await stage.shows("New job", "Enter Submit")


async def fill(stage: Stage, name: str, text: str) -> None:
    stage.field(name).value = text
    await stage.settle()
    await stage.pilot.pause()


async def test_an_error_stands_beside_its_field_and_the_form_stays(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with on_stage(folder) as stage:
        await open_form(stage)
        await stage.type("trian.sh")
        await stage.press("enter")
        await stage.shows("trian.sh")
        await stage.until(lambda: stage.app.screen.query_one("#script-error").display, "the error is shown")
        assert stage.app.screen.focused is stage.field("script")
        await fill(stage, "script", "train.sh")
        await fill(stage, "time", "tomorrow")
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen.query_one("#time-error").display, "the time is refused")
        assert stage.app.screen.focused is stage.field("time")
        assert not stage.app.screen.query_one("#script-error").display
        await fill(stage, "time", "10")
        await stage.press("enter")
        await stage.told("Submitted job 1")
        await stage.shows("from-script", "● R")


async def test_more_gpus_than_any_node_has_is_said_at_the_gpus(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        await fill(stage, "wrap", "true")
        await fill(stage, "gpus", "64")
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen.query_one("#gpus-error").display, "the error is shown")
        assert not stage.cluster.controller.state.jobs


async def test_the_form_shows_what_the_script_says_and_the_command(folder: Path) -> None:
    (folder / "work/train.sh").write_text(SCRIPT)
    async with on_stage(folder) as stage:
        await open_form(stage)
        await fill(stage, "script", "train.sh")
        await stage.shows("#SBATCH -J from-script", "hostname", "$ warpdeck submit train.sh")
        assert [stage.field(name).value for name in ("gpus", "time", "name")] == ["2", "30", "from-script"]
        await fill(stage, "gpus", "1")
        await stage.shows("$ warpdeck submit --gpus=1 train.sh")


async def test_the_form_says_when_the_job_would_start(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        await fill(stage, "wrap", "true")
        await fill(stage, "gpus", "4")
        await stage.shows("starts now on gpu01")
        await fill(stage, "gpus", "64")
        await stage.shows("never: the job requests 64 GPUs")
        await fill(stage, "time", "tomorrow")
        await stage.hides("never:", "starts now")
        assert not stage.cluster.controller.state.jobs


async def test_the_script_beside_the_form_is_in_step_with_it_both_ways(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        await stage.press("tab", "tab")
        await stage.type("hostname")
        await stage.press("tab")
        await stage.type("2")
        await stage.shows("#SBATCH --gpus=2", "$ warpdeck submit --gpus=2 --wrap hostname")
        stage.app.screen.query_one("#text").focus()
        await stage.press("home", "down", "end", "backspace")
        await stage.type("3 -t 30")
        await stage.until(lambda: stage.field("time").value == "30", "the time limit stands in its field")
        assert stage.field("gpus").value == "3"
        await stage.press("escape")
        assert stage.app.screen.focused is stage.field("gpus")
        await stage.press("enter")
        await stage.told("Submitted job 1")
        (job,) = stage.cluster.controller.state.jobs.values()
        assert job.request.script == "#!/bin/sh\n#SBATCH --gpus=3 -t 30\nhostname\n"
        assert job.request.time_limit_s == 1800


async def test_a_limit_that_can_never_be_met_is_told_while_it_is_typed(folder: Path) -> None:
    async with on_stage(folder, size=(80, 24)) as stage:
        await open_form(stage)
        await fill(stage, "wrap", "true")
        await fill(stage, "mem", "90T")
        await stage.shows("never: ", "memory")


async def test_the_script_goes_through_the_users_own_editor(
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
    async with on_stage(folder) as stage:
        await open_form(stage)
        await stage.press("ctrl+e")
        await stage.shows("Cannot open a terminal here")


async def test_the_form_says_who_is_in_the_way_and_what_would_help(folder: Path) -> None:
    async with on_stage(folder) as stage:
        for number in range(3):
            whole = Resources(gpus=GpuRequest(per_node=4))
            await stage.cluster.submit(f"big-{number}", resources=whole, time_limit_s=3600 * (number + 1))
        await stage.shows("big-2", "◌ PD")
        await open_form(stage)
        await fill(stage, "wrap", "true")
        await fill(stage, "gpus", "4")
        await fill(stage, "time", "600")
        await stage.shows("starts about", "behind 1 job")


async def test_neither_script_nor_command_asks_for_one(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        await stage.press("enter")
        await stage.shows("Enter a script here, or")
        await stage.press("escape")
        await stage.hides("New job")
        assert not stage.cluster.controller.state.jobs


async def test_a_form_that_is_left_looks_nothing_up_any_more(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        form = stage.app.screen
        for number in range(100):  # a look-up may be over before this looks
            await fill(stage, "wrap", f"true {number}")
            if any(each.node is form for each in stage.app.workers):
                break
        else:
            pytest.fail("nothing was looked up")
        await stage.press("escape")
        assert not [each for each in stage.app.workers if each.node is form and not each.is_cancelled]


async def test_a_pasted_text_stays_in_its_field(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        stage.app.post_message(events.Paste("train.sh\nrm -rf /\n"))
        await stage.until(lambda: stage.field("script").value, "the paste has come")
        assert stage.field("script").value == "train.sh"
        assert stage.app.screen.focused is stage.field("script")
        assert not stage.cluster.controller.state.jobs


async def test_a_pasted_script_takes_the_place_of_the_empty_one(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        script = stage.app.screen.query_one("#text", TextArea)
        script.focus()
        whole = "#!/bin/bash\n#SBATCH --gpus=2\necho 你好\n"
        stage.app.post_message(events.Paste(whole))
        await stage.until(
            lambda: script.text == whole and stage.field("gpus").value == "2", "the paste alone"
        )
        stage.app.post_message(events.Paste("#!x"))
        await stage.until(lambda: script.text == whole + "#!x", "what is there already stays")


async def test_the_snapshot_of_a_submission_can_be_read_and_compared(folder: Path) -> None:
    work = folder / "work"
    (work / "train.sh").write_text(SCRIPT)
    (work / "model.py").write_text("layers = 2\n")
    commit_all(work)
    async with on_stage(folder, size=(120, 40)) as stage:
        for layers in (2, 3):
            (work / "model.py").write_text(f"layers = {layers}\n")
            await open_form(stage)
            await fill(stage, "script", "train.sh")
            await stage.press("enter")
            await stage.told(f"Submitted job {layers - 1}")
        # At once: the new job's row may not be there yet, and must not take the cursor away when it comes.
        await stage.press("g", "enter", "s")
        await stage.shows("job 1", "[Code]", "files 2", "model.py", "train.sh")
        await stage.press("D")
        await stage.shows("-layers = 2", "+layers = 3")
        await stage.press("escape", "equals_sign")
        await stage.shows("Select a job to compare the code with")
        await stage.type("2")
        await stage.shows("2  from-script")
        await stage.press("down", "enter")
        await stage.shows("job 2 (-) and job 1 (+)", "-layers = 3", "+layers = 2")
        await stage.press("escape", "g", "enter")
        await stage.shows("model.py   (job snapshot)", "layers = 2")
        await stage.press("escape")
        await stage.shows("[Code]")


async def test_a_long_paste_is_seen_at_its_end_and_the_form_stays_whole(folder: Path) -> None:
    async with on_stage(folder) as stage:
        await open_form(stage)
        await stage.press("tab", "tab")
        stage.app.post_message(events.Paste("y" * 10_000 + "END"))
        await stage.shows("yyyEND", "or command", "code of job", "Enter Submit")
