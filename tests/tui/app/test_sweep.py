"""Parameter sweeps in the form: number of tasks, GPU-hours, commands, and the submitted array."""

from __future__ import annotations

from pathlib import Path

from tests.tui.app.app_pilot import run_app
from tests.tui.app.filled_form import filled
from tests.tui.app.test_submit import fill, open_form

from warpdeck.notation.request.sweep import with_sweep
from warpdeck_tui.viewmodels.job_form.form import Sheet, check, command_line, typed, written
from warpdeck_tui.viewmodels.job_form.sweep import preview

NOW = 1_700_000_000.0


def form() -> Sheet:
    return filled(wrap="python train.py --lr $lr", gpus="2", time="4:00:00")


def test_the_preview_shows_tasks_gpu_hours_and_commands() -> None:
    found = preview(form(), "lr=0.1,0.01 seed=1..3", now=NOW)
    assert found.words.startswith("6 tasks with 2 GPUs each, 4:00:00 each: up to 48 GPU-hours")
    assert found.words.endswith("⚠ $seed is not used in the script")
    assert [cells[1].text for _, cells in found.rows][::3] == [
        "python train.py --lr 0.1",
        "python train.py --lr 0.01",
    ]
    assert preview(form(), "", now=NOW).words == "No sweep: one job"
    assert "1 task with 2 GPUs each" in preview(form(), "lr=1", now=NOW).words
    wrong = preview(form(), "lr=", now=NOW)
    assert (wrong.wrong, wrong.words) == (
        True,
        "the parameter lr has an empty value. write it as in: lr=0.1,0.01 seed=1..5",
    )


def test_a_sweep_becomes_script_lines_and_an_array() -> None:
    swept = typed(form(), "sweep", "lr=0.1,0.01")
    assert "#SBATCH --array=0-1\n# sweep: lr=0.1,0.01\nexport lr=" in swept.text
    assert swept.value("wrap") == "python train.py --lr $lr"
    assert swept.value("more") == "--array=0-1"
    assert command_line(swept) == (
        "warpdeck submit --sweep=lr=0.1,0.01 --gpus=2 --time=4:00:00 --wrap 'python train.py --lr $lr'"
    )
    throttled = typed(typed(swept, "more", "--array=0-1%1"), "sweep", "lr=0.1,0.01,1")
    assert throttled.value("more") == "--array=0-2%1"
    assert typed(throttled, "gpus", "1").value("sweep") == "lr=0.1,0.01,1"
    assert typed(throttled, "sweep", "").text == form().text
    assert typed(swept, "wrap", "true").value("sweep") == "lr=0.1,0.01"


def test_a_sweep_written_in_the_script_fills_its_field() -> None:
    text = with_sweep(form().text, "lr=1,2")
    assert written(form(), text).value("sweep") == "lr=1,2"


def test_an_invalid_sweep_is_reported_at_its_field() -> None:
    assert [each.field for each in check(typed(form(), "sweep", "lr="), now=NOW)] == ["sweep"]
    python = written(Sheet(), "#!/usr/bin/env python3\nprint(1)\n")
    assert "not a shell script" in check(typed(python, "sweep", "lr=1,2"), now=NOW)[0].words


async def test_a_sweep_is_entered_previewed_and_submitted_as_an_array(folder: Path) -> None:
    async with run_app(folder, size=(120, 40)) as ui:
        await open_form(ui)
        await fill(ui, "wrap", "echo $lr")
        await fill(ui, "gpus", "1")
        await fill(ui, "time", "60")
        await ui.press("ctrl+g")
        await ui.shows("each combination", "No sweep: one job")
        await ui.type("lr=0.1,0.2")
        await ui.shows("2 tasks with 1 GPU each, 1:00:00 each: up to 2 GPU-hours", "echo 0.2")
        await ui.type(",")
        await ui.shows("the parameter lr has an empty value")
        await ui.press("enter", "backspace", "enter")
        await ui.shows("New job", "# sweep: lr=0.1,0.2", "--sweep=lr=0.1,0.2")
        await ui.press("enter")
        await ui.shows_notification("Submitted job 1_[0-1], 2 tasks")
        await ui.shows("1_[0-1]")
        await ui.press("z")
        await ui.shows("  lr=0.1 ", "  lr=0.2 ")
        await ui.press("j", "enter", "d")
        await ui.shows("sweep lr=0.")
