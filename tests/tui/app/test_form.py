"""The form and the script beside it: a change in one of them appears in the other."""

from __future__ import annotations

from tests.tui.app.filled_form import filled
from tests.tui.app.test_viewmodels import row

from warpdeck.protocol.job_rows import JobDetail
from warpdeck_tui.viewmodels.job_form.form import (
    Sheet,
    check,
    command_line,
    of_job,
    opened,
    options_of,
    typed,
    written,
)

NOW = 1_700_000_000.0
FILE = "#!/bin/sh\n#SBATCH --gpus=2\n#SBATCH --array=0-9\npython train.py\n"


def from_file(**fields: str) -> Sheet:
    """Return a form with the script FILE, and fields typed afterwards."""
    sheet = opened(filled(script="train.sh"), FILE)
    for field, value in fields.items():
        sheet = typed(sheet, field, value)
    return sheet


def test_a_command_and_its_options_become_a_script() -> None:
    sheet = filled(wrap="python a.py", gpus="2", name="a b", more="--hold --array=0-3")
    assert sheet.text == (
        "#!/bin/sh\n#SBATCH --gpus=2\n#SBATCH '--job-name=a b'\n#SBATCH --hold\n#SBATCH --array=0-3\npython a.py\n"
    )
    assert typed(sheet, "gpus", "").text.count("gpus") == 0


def test_options_written_in_the_script_fill_the_fields() -> None:
    sheet = written(
        filled(wrap="true", gpus="1"), "#!/bin/sh\n#SBATCH -G h100:4 -t 30 --nice=5\npython b.py\n"
    )
    assert {field: value for field, value in sheet.values.items() if value} == {
        "wrap": "python b.py",
        "gpus": "h100:4",
        "time": "30",
        "more": "--nice=5",
    }
    assert written(sheet, "#!/bin/sh\npython b.py\n").value("gpus") == ""


def test_an_incomplete_line_keeps_the_fields_and_is_reported_at_the_script() -> None:
    sheet = written(filled(wrap="true", gpus="1"), "#!/bin/sh\n#SBATCH --gpus=1 --ti\ntrue\n")
    assert sheet.value("gpus") == "1"
    half = written(sheet, "#!/bin/sh\n#SBATCH --comment='a\ntrue\n")
    assert [each.field for each in check(half, now=NOW)] == ["text"]


def test_an_incomplete_option_is_kept_in_its_field_only() -> None:
    sheet = filled(wrap="true", more="--arr")
    assert sheet.text == "#!/bin/sh\ntrue\n"
    assert typed(sheet, "gpus", "1").value("more") == "--arr"
    assert typed(sheet, "more", "--gpus=3").value("gpus") == "3"


def test_a_script_file_fills_the_fields_but_typed_values_override_it() -> None:
    assert from_file().value("gpus") == "2"
    assert from_file().value("more") == "--array=0-9"
    assert command_line(from_file()) == "warpdeck submit train.sh"
    before = opened(filled(gpus="1", script="train.sh"), FILE)
    assert before.text == FILE.replace("gpus=2", "gpus=1")
    assert command_line(before) == "warpdeck submit --gpus=1 train.sh"


def test_the_command_line_contains_options_missing_in_the_script_file() -> None:
    sheet = from_file(time="30", more="--array=0-4")
    assert options_of(sheet) == ["--time=30", "--array=0-4"]
    assert command_line(sheet) == "warpdeck submit --time=30 --array=0-4 train.sh"
    assert command_line(filled(wrap="a b", gpus="1")) == "warpdeck submit --gpus=1 --wrap 'a b'"
    edited = written(from_file(), FILE.replace("train.py", "eval.py"))
    assert command_line(edited) == "warpdeck submit train.sh   (edited in the form)"
    assert "edited" in command_line(from_file(gpus=""))


def test_each_field_is_checked_separately() -> None:
    wrong = check(filled(wrap="true", time="soon", mem="many", gpus="2"), now=NOW)
    assert [each.field for each in wrong] == ["time", "mem"]
    assert check(filled(wrap="true", more="--array=0-3 '"), now=NOW)[0].field == "more"
    assert [each.field for each in check(typed(from_file(), "wrap", "b"), now=NOW)] == ["wrap"]
    assert [each.field for each in check(Sheet(), now=NOW)] == ["script"]


def ran(line: str, **fields: object) -> JobDetail:
    """Return a job that was submitted with this command line in /work."""
    return JobDetail(row=row(), submit_line=line, submit_dir="/work", **({"script": FILE} | fields))  # type: ignore[arg-type]


def test_the_form_is_filled_from_a_jobs_command_line() -> None:
    again = of_job(ran("sbatch --gpus=4 -J 'a b' train.sh --lr 1"), file_text=FILE)
    assert {name: again.value(name) for name in ("gpus", "name", "folder", "script", "args")} == {
        "gpus": "4",
        "name": "a b",
        "folder": "/work",
        "script": "train.sh",
        "args": "--lr 1",
    }
    assert "#SBATCH --array=0-9\n" in again.text
    assert command_line(again) == "warpdeck submit --gpus=4 '--job-name=a b' train.sh --lr 1"


def test_an_edited_script_is_filled_in_as_it_ran_or_as_it_is_now() -> None:
    edited = FILE.replace("train.py", "eval.py")
    as_it_ran = of_job(ran("sbatch train.sh"), file_text=edited)
    assert as_it_ran.text == FILE
    assert command_line(as_it_ran) == "warpdeck submit train.sh   (edited in the form)"
    assert of_job(ran("sbatch train.sh"), file_text=edited, anew=True).text == edited


def test_a_script_in_the_submit_folder_has_a_relative_path() -> None:
    line = "sbatch /work/runs/train.sh"
    assert of_job(ran(line), file_text=FILE).value("script") == "runs/train.sh"
    assert of_job(ran("sbatch /other/train.sh"), file_text=FILE).value("script") == "/other/train.sh"


def test_a_job_with_a_missing_script_is_filled_in_as_it_ran() -> None:
    gone = of_job(ran("sbatch -t 30 train.sh --lr 1"), file_text=None)
    assert (gone.value("script"), gone.value("time"), gone.value("args")) == ("", "30", "")
    assert "python train.py" in gone.text
    command = of_job(
        ran("srun --gpus=1 python 'a b.py'", script="", argv=["python", "a b.py"]), file_text=None
    )
    assert (command.value("gpus"), command.value("wrap")) == ("1", "python 'a b.py'")


def test_arguments_belong_to_the_script_and_are_checked() -> None:
    assert command_line(from_file(args="--lr 0.1")) == "warpdeck submit train.sh --lr 0.1"
    assert [each.field for each in check(from_file(args="--lr '"), now=NOW)] == ["args"]
    assert [each.field for each in check(filled(wrap="true", args="1"), now=NOW)] == ["args"]


def test_the_code_of_another_job_becomes_an_option() -> None:
    assert command_line(from_file(code="12")) == "warpdeck submit --code-of=12 train.sh"
