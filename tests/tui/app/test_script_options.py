"""The #SBATCH script beside the form: fields are read from it and written into it, and the rest stays unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warpdeck.notation.reading.script import script_options
from warpdeck_tui.viewmodels.job_form.script import BARE, body_of, with_body, with_option, with_others

SCRIPT = """#!/bin/bash
#SBATCH -J llm --gpus=2
#SBATCH --time=30
# a comment

module load cuda
#SBATCH --gpus=8
srun python train.py
"""
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["C"]), min_size=1)


def options(text: str) -> dict[str, str]:
    return {given.option: given.word for given in script_options(text, "script")}


def test_a_value_replaces_that_of_the_existing_option() -> None:
    changed = with_option(SCRIPT, "time", "1-0")
    assert changed == SCRIPT.replace("--time=30", "--time=1-0")
    assert with_option(SCRIPT, "time", "30") == SCRIPT
    assert options(with_option(SCRIPT, "gpus", "1")) == {"job-name": "llm", "gpus": "1", "time": "30"}


def test_a_new_option_is_added_below_the_others() -> None:
    assert with_option(SCRIPT, "mem", "64G") == SCRIPT.replace("time=30\n", "time=30\n#SBATCH --mem=64G\n")
    assert with_option(BARE, "gpus", "1") == "#!/bin/sh\n#SBATCH --gpus=1\n"


def test_an_empty_value_removes_its_option_only() -> None:
    assert with_option(SCRIPT, "time", None) == SCRIPT.replace("#SBATCH --time=30\n", "")
    assert options(with_option(SCRIPT, "gpus", None)) == {"job-name": "llm", "time": "30"}


def test_setting_a_repeated_option_leaves_one() -> None:
    twice = "#!/bin/sh\n#SBATCH --gpus=1\n#SBATCH --gpus=2\ntrue\n"
    assert with_option(twice, "gpus", "3") == "#!/bin/sh\n#SBATCH --gpus=3\ntrue\n"


def test_an_incomplete_line_is_not_changed() -> None:
    half = '#!/bin/sh\n#SBATCH --comment="it\ntrue\n'
    assert with_option(half, "gpus", "1") == '#!/bin/sh\n#SBATCH --comment="it\n#SBATCH --gpus=1\ntrue\n'


def test_the_other_options_are_replaced_together() -> None:
    covered = frozenset({"gpus", "time"})
    other = with_others(SCRIPT, [("array", "0-9"), ("hold", "")], but=covered)
    assert options(other) == {"array": "0-9", "gpus": "2", "hold": "", "time": "30"}
    assert with_others(other, [], but=covered).count("#SBATCH --gpus=2\n") == 1


def test_the_commands_follow_the_options() -> None:
    assert body_of("#!/bin/sh\n#SBATCH --gpus=1\npython a.py\n") == "python a.py"
    assert with_body("#!/bin/sh\n#SBATCH --gpus=1\n", "true") == "#!/bin/sh\n#SBATCH --gpus=1\ntrue\n"
    assert body_of(with_body(SCRIPT, "true")) == "true"


OTHERS = """#!/bin/bash
#SBATCH -q low
#PBS -N train -l nodes=2:ppn=4 -m a
#PBS -W umask=027 -m b
echo
#PBS -v A -v B
"""


def test_lines_for_other_schedulers_stay_unless_their_options_change() -> None:
    assert with_option(OTHERS, "qos", "high") == OTHERS.replace("-q low", "--qos=high")
    assert with_option(OTHERS, "mem", "1G").endswith(OTHERS[OTHERS.index("#PBS") :])


def test_changing_an_option_of_another_scheduler_converts_its_lines() -> None:
    before = options(OTHERS)
    changed = with_option(OTHERS, "job-name", "new")
    assert options(changed) == before | {"job-name": "new"}
    assert changed.count("--mail-type") == 2 and "#PBS -W umask=0027\necho\n" in changed
    assert "job-name" not in options(with_option(OTHERS, "job-name", None))
    assert options(with_others(OTHERS, [("gpus", "1")], but=frozenset())) == {"gpus": "1"}


@given(VALUES, VALUES)
def test_any_value_that_is_set_is_read_back(name: str, comment: str) -> None:
    text = with_option(with_option(SCRIPT, "job-name", name), "comment", comment)
    assert options(text) == {"job-name": name, "gpus": "2", "time": "30", "comment": comment}
    assert body_of(with_option(text, "comment", None)) == body_of(SCRIPT)
