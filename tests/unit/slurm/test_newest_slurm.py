"""Options and output fields of the listing commands that came after Slurm 22.05."""

from __future__ import annotations

import importlib
import time

import pytest
from tests.support.command_site import CommandSite
from tests.support.newest_options import newest_fields, newest_options

from warpdeck.notation.options.getopt import full_name
from warpdeck.notation.options.option_table import SALLOC, SBATCH, SRUN
from warpdeck.slurm.command_table import COMMANDS

CONFIG = """
[scheduler]
default_partition = "gpu"
[licenses]
matlab = 4
[partitions.gpu]
nodes = "n[1-2]"
"""
NOW = 1_800_000_000.0
LISTED = sorted(
    newest_options().keys() & COMMANDS.keys() - {table.command for table in (SBATCH, SALLOC, SRUN)}
)


def stamp(at_unix: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_unix))


def prepare(site: CommandSite) -> None:
    site.start("-J", "runs", "-w", "n1", "-L", "matlab:1", "--exclusive=user", "-o", "/tmp/o.%j")
    site.now = NOW + 600
    site.start("-J", "late", "-w", "n2", "--exclusive")
    site.now = NOW + 660
    site.run("sbatch -J held --hold --wrap true")
    made = site.run(
        f"scontrol create reservation reservationname=r1 starttime={stamp(NOW + 660)} duration=3650-0 nodes=n2 "
        "users=root flags=ignore_jobs"
    )
    assert made.code == 0, made.err


@pytest.mark.parametrize("command", LISTED)
def test_every_option_of_the_newest_slurm_is_known(command: str) -> None:
    known = importlib.import_module(f"warpdeck.slurm.{COMMANDS[command]}").OPTIONS
    for option in newest_options()[command]:
        assert full_name(option, known)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("squeue -O", "squeue"),
        ("squeue -s -O", "squeue-steps"),
        ("sinfo -O", "sinfo"),
        ("sacct -o", "sacct"),
        ("sshare -o", "sshare"),
        ("sstat -j 1 -a -o", "sstat"),
    ],
)
def test_every_field_of_the_newest_slurm_is_known(site: CommandSite, command: str, kind: str) -> None:
    done = site.run(f"{command} {','.join(newest_fields()[kind])}")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("command", "kind"),
    [("squeue", "squeue-letters"), ("sinfo", "sinfo-letters"), ("sprio", "sprio-letters")],
)
def test_every_letter_of_the_newest_slurm_is_known(site: CommandSite, command: str, kind: str) -> None:
    done = site.run(f"{command} -o {'|'.join(f'%{letter}' for letter in newest_fields()[kind])}")
    assert (done.code, done.err) == (0, "")


def test_squeue_shows_the_new_fields(site: CommandSite) -> None:
    fields = "jobid:|,exclusive:|,licensesalloc:|,cronjob:|,segmentsize:|,containertype:|,sluid:|"
    assert site.run(f"squeue -h -O {fields}").lines == [
        "3|NO|(null)|No|N/A|(null)|(null)|",
        "1|USER|matlab:1|No|N/A|(null)|(null)|",
        "2|NODE|(null)|No|N/A|(null)|(null)|",
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--running-over=5", ["runs"]),
        ("--running-over=12", []),
        ("--running-under=5:00", ["late"]),
        ("--running-over=0:30 --running-under=1:00:00", ["runs", "late"]),
        ("--notme", []),
        ("--notme --me", ["held", "runs", "late"]),
        ("--expand-patterns -j 1", ["runs"]),
    ],
)
def test_squeue_chooses_by_the_new_options(site: CommandSite, options: str, names: list[str]) -> None:
    assert site.run(f"squeue -h -o %j {options}").lines == names


def test_squeue_refuses_an_invalid_run_time(site: CommandSite) -> None:
    done = site.run("squeue --running-under=far")
    assert (done.code, done.err) == (1, "squeue: fatal: Invalid time limit specification\n")


def test_sinfo_shows_the_reservation_of_each_node(site: CommandSite) -> None:
    assert site.run("sinfo -h -N -o %i,%N").lines == [",n1", "r1,n2"]
    assert site.run("sinfo -h -N -O reservation:|,nodelist:").lines == ["|n1", "r1|n2"]
    assert "RESERVATION" not in site.run("sinfo -o %all").lines[0]


@pytest.mark.parametrize(
    ("states", "nodes"),
    [
        ("~idle", ["n1", "n2"]),
        ("mix+~drain", ["n1"]),
        ("~mix", ["n2"]),
        ("idle+drain", []),
        ("~drain,idle", ["n1", "n2"]),
    ],
)
def test_sinfo_chooses_by_several_and_inverted_states(
    site: CommandSite, states: str, nodes: list[str]
) -> None:
    listed = site.run(f"sinfo -h -N -o %N -t {states}")
    assert (listed.err, listed.lines) == ("", nodes)


def test_sacct_shows_the_new_fields(site: CommandSite) -> None:
    fields = "jobid,planned,plannedcpuraw,restarts,exclusive,oversubscribe,licenses,stdout,segmentsize"
    assert site.run(f"sacct -n -P -X -j 1,2 -o {fields}").lines == [
        "1|00:00:00|0|0|USER|NO|matlab:1|/tmp/o.1|",
        "2|00:00:00|0|0|NODE|NO||/home/ann/slurm-2.out|",
    ]
    assert "Planned" not in site.run("sacct -e").out


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("squeue --helpFormat", "account"),
        ("squeue --helpformat", "%a"),
        ("squeue --helpstate", "pending"),
        ("sinfo --helpFormat", "available"),
        ("sinfo --helpformat", "%a"),
        ("sinfo --helpstate", "unknown"),
        ("sacct --helpstate", "PENDING"),
        ("sprio --helpformat", "%a"),
    ],
)
def test_a_command_lists_its_choices(site: CommandSite, command: str, first: str) -> None:
    done = site.run(command)
    assert (done.code, done.err, done.out.split()[0]) == (0, "", first)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("scancel --admin-comment=x 3", "write `scontrol update jobid=JOB admincomment=TEXT` first"),
        ("sshare --json", "use --parsable2"),
        ("sacct --helpreason", "`warpdeck why JOB` explains"),
        ("scontrol listjobs", "squeue --nodelist=NODE"),
        ("scontrol liststeps n1", "squeue --steps --nodelist=NODE"),
        ("scontrol power down n1", "nodes are not powered from here"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_a_reason(
    site: CommandSite, command: str, said: str
) -> None:
    done = site.run(command)
    assert done.code == 1 and "is not supported" in done.err and said in done.err
