"""Remarks of lint about scripts that sbatch accepts."""

from __future__ import annotations

import pytest
from tests.support.command_lines import validate_script

from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.script_lint import in_words, remarks


def remarks_on(*lines: str, folders: tuple[str, ...] = ("/here",)) -> list[str]:
    text = "#!/bin/bash\n" + "\n".join(lines) + "\n"
    result = validate_script(text, OptionSource(cwd="/here", environ={}, now=1_800_000_000.0))
    return [str(remark) for remark in remarks(text, result, is_folder=folders.__contains__)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["set -e", "#SBATCH -n 2"], "line 3: this directive is not read: line 2 is a command"),
        ([" #SBATCH -n 2"], "line 2: this is a comment"),
        (["# SBATCH --time=2"], "line 2: this is a comment"),
        (["#sbatch -n 2"], "line 2: this is a comment"),
        (["#SLURM -n 2"], "line 2: write #SBATCH instead of #SLURM"),
        (["#SBATCH -J $USER-x"], "line 2: --job-name=$USER-x: $USER is not replaced"),
        (["#SBATCH -o ${RUN}.log"], "%j, %x, %u and %a stand for"),
        (["#SBATCH --nice=very"], "line 2: --nice=very is not a number; it counts as 0"),
        (["#SBATCH --priority=x"], "line 2: --priority=x is not a number; it counts as 0, and holds the job"),
        (["#SBATCH -t 24:00"], "line 2: --time=24:00 is 24 minutes and 0 seconds; for hours write 24:00:00"),
        (['#SBATCH --mail-user ""', "#SBATCH -n4"], 'line 2: an empty word "" ends the line'),
        (["#SBATCH --mail-user="], "line 2: --mail-user has no address"),
        (["#SBATCH -N 1 \\", "#  -n 3"], "line 2: a backslash does not continue a directive"),
        (["#SBATCH -J a#b"], "line 2: # ends the line even inside a word"),
        (
            ["#SBATCH -n 2", "#SBATCH --ntasks=3"],
            "line 3: --ntasks=3 replaces --ntasks=2 in line 2",
        ),
        (["#SBATCH -o logs/%x.out"], "line 2: the folder of --output, /here/logs, does not exist"),
        (["#SBATCH --reboot"], "line 2: submission rejects this: --reboot is not supported"),
        (["#SBATCH --mem-bind=local"], "line 2: --mem-bind has no effect here"),
        (["#SBATCH hetjob"] * 128, "line 2: the job has 129 components"),
        (["#PBS -l nodes=2", "#PBS -N x"], "line 2: #PBS lines have an effect here and in Slurm's sbatch"),
        (["#BSUB -n 2", "#PBS -N x"], "line 3: this #PBS line is not read: the script also has #BSUB lines"),
        (["#SBATCH --ignore-pbs", "#PBS -N x"], "line 3: this #PBS line is not read: --ignore-pbs"),
        (
            ["x"] * 101 + ["#PBS -N x"],
            "line 103: this #PBS line is not read: it comes after more than 100 lines",
        ),
        (
            ["#PBS -N x", *["x"] * 101, "#PBS -N y"],
            "line 104: this #PBS line is not read: it comes after more than 100 lines",
        ),
        (["#SBATCH -J a", "#PBS -N b"], "line 3: --job-name=b replaces --job-name=a in line 2"),
        (["#PBS -j oe -N x"], "line 2: -j oe has no effect"),
        (["#PBS -l nodes=1:ppn=2,pmem=2gb,foo=1"], "line 2: -l pmem=2gb has no effect"),
        (["#PBS -l proc=a,walltime=5"], "line 2: -l walltime=5 has no effect"),
        (["#BSUB -W 1:30"], "line 2: --time=1:30 is 1 minutes and 30 seconds"),
        (["#BSUB -J 'x[1-10]%2'"], "line 2: --job-name=x[1-10]%2 is a name and not an array"),
        (["#SBATCH --export=ALL,A=$HOME"], "line 2: --export=ALL,A=$HOME: $HOME is not replaced"),
        (["#SBATCH -w `hostname`"], "line 2: --nodelist=`hostname`: ` is not replaced"),
        (["#SBATCH -D $(pwd)"], "line 2: --chdir=$(pwd): $(pwd) is not replaced"),
        (["#SBATCH --time-min 5:30"], "line 2: --time-min=5:30 is 5 minutes and 30 seconds"),
        (["#SBATCH -t '0:30'"], "line 2: --time=0:30 is 0 minutes and 30 seconds"),
        (["#SBATCH --mail-user=''"], "line 2: --mail-user has no address"),
        (["#SBATCH --mail-user '' --mail-type=END"], "write --mail-user="),
        (["module load cuda", "", "#SBATCH -n 2"], "line 4: this directive is not read: line 2"),
        (["\t#SBATCH --mem=4G"], "line 2: this is a comment"),
        (["#SBATCH -e err/%j"], "line 2: the folder of --error, /here/err, does not exist"),
        (
            ["#SBATCH -D /elsewhere", "#SBATCH -o %j.out"],
            "line 3: the folder of --output, /elsewhere, does not exist",
        ),
    ],
)
def test_a_likely_mistake_is_reported_with_its_line(lines: list[str], words: str) -> None:
    assert any(words in line for line in remarks_on(*lines)), remarks_on(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["#SBATCH -t 24:00:00 --mem=64G --gres=gpu:2", "# comment", "### SBATCH Template", "##SBATCH -n 3"],
        ["#SBATCH -o %x/%j.out -J 'a#b'  # a comment", '#SBATCH --comment="costs $5"'],
        [
            "# use #SBATCH -n 2 for more",
            "#   an SBATCH line",
            "# PBSPRO is not here",
            "#SBATCH -n1",
            "echo '#SBATCH -n 2'",
        ],
        ["#SBATCH -t 90", "#SBATCH -t 90", "#SBATCH -t 90"],
        ["#SBATCH -t 1-00:00 --time-min=1:00:00"],
        ["#SBATCH -o slurm-%j.out", "#SBATCH -e slurm-%j.err"],
        ["#SBATCH --mail-user=me@lab --mail-type=ALL"],
        ["cat > second.sh <<EOF", "#SBATCH -n 2", "EOF", "sbatch second.sh"],
        ["#SBATCH --mail-type=END", "#SBATCH --mail-type=FAIL", "echo '#SBATCH'"],
    ],
)
def test_a_correct_script_has_no_remarks(lines: list[str]) -> None:
    assert [line for line in remarks_on(*lines) if "no effect here" not in line] == []


def test_the_number_of_remarks_is_bounded() -> None:
    assert len(remarks_on(*["# SBATCH -n 2"] * 5000)) == 200


def test_a_request_is_described_as_text() -> None:
    shown = {"nodes": "2", "gres": "gres:gpu:h100:4", "mem": "0?", "time": "1-00:00:00", "wckey": "x"}
    words = "2 node(s), all memory per node, gpu:h100:4 on each node, for at most 1-00:00:00, --wckey=x"
    assert ", ".join(in_words(shown)) == words
