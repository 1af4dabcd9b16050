"""Random command lines of the reading commands beside a real Slurm with its database and the same site.

The tests compare the exit code, the lines of the output in any order, and whether there is an error message.
The order of equal lines depends on Slurm's internal lists. `peer/random_command_lines` generates the lines.
FOUND holds the lines that once showed a difference; each run repeats them.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator

import pytest
from tests.slurm_parity.peer.busy_site import BusySite, busy_site
from tests.slurm_parity.peer.random_account_lines import report_line, show_line
from tests.slurm_parity.peer.random_command_lines import GRAMMARS, random_line

pytestmark = pytest.mark.slurm
LINES = 40
"""Lines per command and seed."""
ACCOUNT_LINES = 25
FOUND = (
    "squeue -h -j 9x -o %i", "squeue -h -j '9 15' -o %i", "squeue -h -j 9. -o %i", "squeue -h -j 11_x -o %i", "squeue -j 1e3",
    "squeue -t foo -t R", "squeue -u 12345 -h", "squeue -h -A ,", "squeue -M ''", "squeue -S y,#", "squeue -h -S y,#",
    "squeue -h -t all -S i -o '%i %R'", "SQUEUE_NAMES= squeue", "SQUEUE_FORMAT=%i squeue -h --start -j 15",
    "SQUEUE_FORMAT=%i squeue -h -s -S i", "SLURM_BITSTR_LEN=5 squeue -h -j 11 -t PD -o %i", "SLURM_TIME_FORMAT=x squeue -h -o %i",
    "sinfo", "sinfo -N", "sinfo -s", "sinfo -R", "sinfo -h -R -o '%u %U'", "sinfo -t res", "sinfo -t compl", "sinfo -t failing",
    "sinfo -t blocked", "sinfo -t noresp", "sinfo -t idle", "sinfo -M ''", "SLURM_TIME_FORMAT=x sinfo -d", "sinfo -t error",
    "sacct -j 14", "sacct -s R -o jobid", "sacct -i 1- -j 1", "sacct -i 1k -j 1", "sacct -s SI", "sacct -s foo -s R",
    "sacct -n -X -j 15,17,21 -S now-1hour -o jobid,state", "sacct -X -I 1-3 -o jobid", "squeue --use root -h -o %i",
    "sprio -o %U -j 9", "sacct --units=", "sacct --units=MM -j 1", "sacct -k 0", "squeue -R ''", "sprio -w -j 999",
    "SPRIO_FORMAT=%i sprio -l", "sacct -l -o jobid", "sacct -B", "sacct -X -b -o jobname -j 1", "sacct -j 9x -o jobid",
    "sacct -j 9.", "sacct -j 9_x", "sacct --name= -o jobid", "sacct -u 12345", "sacct -g 99999", "sacct --whole-hetjob=x",
    "sprio -l -o %i", "sprio -j +18", "sprio -j 1x", "sprio -j 11_1", "sprio -u 12345", "sprio --sibling --local", "sstat -j 9",
    "sstat -j 15", "sstat -j 999", "sstat -j 9.9", "sstat -j 9.x", "sstat -j 9_x", "sstat -i -j 15 -o maxrss",
    "sstat -o maxrss%0,jobid%.5 -j 15", "sstat -j x -j 9",
    "sacctmgr ad account x", "sacctmgr sh account", "sacctmgr li user", "sacctmgr clear x", "sacctmgr m user",
    "sacctmgr show qos organization=sci", "sacctmgr show cluster adminlevel=admin", "sacctmgr show account defaultaccount=ml",
    "sacctmgr show federation priority=100", "sacctmgr show resource adminlevel=admin", "sacctmgr show wckey priority=100",
    "sacctmgr show event id=99", "sacctmgr show event withcoor", "sacctmgr show txn wopi", "sacctmgr -P show trans adminlevel=x",
    "sacctmgr show cluster=nosuch", "sacctmgr -n show qos wolimits", "sacctmgr show problem defaultaccount=ml",
    "sacctmgr show reservation adminlevel=none", "sacctmgr -P show assoc type=x", "sacctmgr show tres account=ml",
    "sacctmgr -nP show qos name=high description=high", "sacctmgr -nP show user root accounts=nosuch adminlevel=admin foo=1",
    "sacctmgr show event nodes=n4", "sacctmgr show event states=nosuch", "sacctmgr show event user=nosuch",
    "sacctmgr show event node format=nodename,event,eventraw,stateraw,state,reason,user", "sacctmgr show txn action=add",
    "sacctmgr show user withcoor", "sacctmgr show account withcoord -P", "sacctmgr show assoc withcoor", "sacctmgr show assoc ml",
    "sacctmgr -nP show user format=user,account,share,id,grpjobs,maxwall", "sacctmgr show qos f=name,maxt",
    "sacctmgr show qos format=share,name,id,maxjobs", "sacctmgr show wckey id=x", "sacctmgr show wckey f=name,id",
    "sacctmgr -i show user account=bio", "sacctmgr -i show account parent=sci", "sacctmgr show assoc a=ml",
    "sacctmgr show assoc qos=nosuch", "sacctmgr show assoc users= format=account", "sacctmgr show assoc withsub account=sci f=account",
    "sacctmgr show assoc onlydefaults f=account,user", "sacctmgr show tres gpu", "sacctmgr show tres type=gres/gpu",
    "sacctmgr show qos id=x", "sacctmgr show qos preemptmode=x", "sacctmgr show user format=user format=admin",
    "sacctmgr show user f=u,u", "sacctmgr show user adminlevel=x", "sacctmgr show reservation f=name,cluster,tres,unused",
    "sacctmgr show reservation", "sacctmgr show cluster wo f=cluster", "sacctmgr show resource withclusters", "sacctmgr quit",
    "sreport cluster us", "sreport c utilization", "sreport user acc",
    "sreport cluster UserUtilizationByWCKey start=2020-01-01 end=2020-02-01",
    "sreport -T cpu,mem cluster WCKeyUtilizationByUser start=2020-01-01 end=2020-02-01",
    "sreport -t hourper job SizesByAccountAndWckey start=2020-01-01 end=2020-02-01",
    "sreport job SizesByWckey start=2020-01-01 end=2020-02-01", "sreport -t hourper res util start=2020-01-01 end=2020-02-01",
    "sreport -P reservation util start=2020-01-01 end=2020-02-01", "sreport job sizes start=x end=x",
    "sreport -t percent res util start=2020-01-01 end=2020-02-01", "sreport -t x cluster acc start=2020-01-01 end=2020-02-01",
    "sreport cluster acc start=2020-02-01 end=2020-01-01", "sreport -t percent job sizesbywckey start=2020-01-01 end=2020-02-01",
    "sreport user top foo=1", "sreport user top topcount=x start=2020-01-01 end=2020-02-01", "sreport user top group nosuch",
    "sreport cluster acc tree start=2020-01-01 end=2020-02-01", "sreport cluster acc format=cl,ac,lo,us,foo",
    "sreport -t hourper job sizes start=2020-01-01 end=2020-02-01", "sreport -T gres/gpu job sizes start=2020-01-01 end=2020-02-01",
    "sreport -T cpu,mem job sizes", "sreport job sizes format=account printjobcount -t secper", "sreport job sizes foo",
    "sreport -T foo cluster util", "sreport -T '' user top", "sreport res util foo=1", "sreport cluster util cluster=nosuch",
    "sreport -M nosuch cluster util", "sreport cluster util foo", "sreport exit", "sreport parsable", "sreport --nosuch",
    "sreport -t", "sreport version", "sreport user top start=2020-01-01 end=2020-02-01 format=log,us,e,t",
    "scontrol show p", "scontrol show pa nosuch", "scontrol show partition=",
    "scontrol show part ''", "scontrol show res ''", "scontrol show daemons x", "scontrol show s=x",
    "squeue -h -n RUNS,nosuch -o %i", "SQUEUE_NAMES=Held squeue -h -o %i", "sacct -n -X --name=RUNS,Ok -o jobid", "squeue -h -n ru",
    "scontrol show r nosuch", "scontrol show assoc ''", "scontrol show daemons ''", "scontrol show node ''", "scontrol -d show job 9",
    "scontrol show job 11_50", "scontrol show job 9.0", "scontrol takeover x", "scontrol hide x",
    "scontrol update jobid=15 numnodes=3-1", "scontrol update jobid=15 numnodes=0", "scontrol update jobid=15 partition=",
    "scontrol update jobname=nosuch nice=4", "scontrol update jobid=23_x nice=4", "scontrol update jobid=18 taskspernode=x",
    "scancel -b 999", "scancel -b 1", "scancel -b 4",
)  # fmt: skip
"""A line may begin with the assignment of a variable."""
EXACT_LINES = (
    ("root", "scontrol show assoc ''"), ("root", "scontrol show daemons ''"), ("root", "scontrol show job 9.0"),
    ("root", "scontrol takeover x"), ("root", "scontrol update jobid=15 numnodes=3-1"),
    ("root", "scontrol update jobid=15 numnodes=0"), ("root", "scontrol update jobid=15 partition="),
    ("root", "scontrol update jobname=nosuch nice=4"), ("root", "scontrol update jobid=23_x nice=4"),
    ("nobody", "scontrol update partitionname=gpu state=down"), ("nobody", "scontrol create partitionname=x nodes=n1"),
    ("nobody", "scontrol create reservationname=z starttime=now duration=5 users=root nodes=n3"),
    ("nobody", "scontrol update reservationname=tune duration=10"), ("nobody", "scontrol delete reservationname=tune"),
    ("nobody", "scontrol delete reservationname=nosuch"), ("nobody", "scontrol hold 15"),
    ("root", "scontrol update jobid=18 contiguous=maybe"), ("root", "scontrol update jobid=9 contiguous=yes"),
    ("nobody", "scontrol update jobid=18 contiguous=yes"),
    ("nobody", "scontrol suspend 9"),
)  # fmt: skip
"""Users and their commands whose output must equal Slurm's exactly. No line changes anything."""


@pytest.fixture(scope="module")
def pair() -> Iterator[BusySite]:
    with busy_site() as both:
        yield both


@pytest.mark.parametrize("line", FOUND)
def test_lines_that_once_differed_have_the_result_of_slurm(pair: BusySite, line: str) -> None:
    argv = shlex.split(line)
    env = {} if "=" not in argv[0] else dict([argv.pop(0).split("=")])
    assert pair.output_difference(argv, env) == ""


@pytest.mark.parametrize("command", sorted(GRAMMARS))
@pytest.mark.parametrize("seed", range(2))
def test_random_lines_of_reading_commands_have_the_result_of_slurm(
    pair: BusySite, command: str, seed: int
) -> None:
    rng = random.Random(f"{command} {seed}")
    lines = [random_line(command, rng) for _ in range(LINES)]
    differences = [pair.output_difference(argv, env) for argv, env in lines]
    assert not any(differences), "\n\n".join(filter(None, differences))


@pytest.mark.parametrize("generate_line", [show_line, report_line])
@pytest.mark.parametrize("seed", range(1))
def test_random_lines_about_accounts_and_usage_have_the_result_of_slurm(
    pair: BusySite, generate_line: Callable[[random.Random], list[str]], seed: int
) -> None:
    rng = random.Random(f"accounts {seed}")
    differences = [pair.output_difference(generate_line(rng), {}) for _ in range(ACCOUNT_LINES)]
    assert not any(differences), "\n\n".join(filter(None, differences))


def test_assoc_mgr_shows_the_default_account_of_a_user(pair: BusySite) -> None:
    for cluster in (pair.slurm, pair.warpdeck):
        assert re.search(
            r"UserName=root\S* DefAccount=ml ", cluster.run(["scontrol", "show", "assoc_mgr"]).out
        )


def test_unknown_nodes_are_reported_in_the_order_of_the_list(pair: BusySite) -> None:
    node_lines = [
        re.findall(r"^(?:NodeName=\S+|Node .*| *Partitions=.*)", result.out, re.M)
        for result in (
            cluster.run(["scontrol", "show", "node", "n1,n9,n3"]) for cluster in (pair.slurm, pair.warpdeck)
        )
    ]
    assert node_lines[1] == node_lines[0] and len(node_lines[0]) == 5


def test_a_help_option_takes_effect_before_a_later_invalid_option(pair: BusySite) -> None:
    for cluster in (pair.slurm, pair.warpdeck):
        result = cluster.run(["scontrol", "-hide", "show", "job", "9"])
        assert (result.rc, result.err, "JobId" in result.out) == (0, "", False)


def test_a_waiting_job_can_be_updated_to_contiguous_nodes(pair: BusySite) -> None:
    shown = []
    for word in ("yes", "no"):
        pair.assert_same("scontrol", "update", "jobid=19", f"contiguous={word}")
        shown.append(" Contiguous=1 " in pair.assert_same("scontrol", "show", "job", "19"))
    assert shown == [True, False]


@pytest.mark.parametrize(("user", "line"), EXACT_LINES)
def test_commands_without_effect_have_the_exact_output_of_slurm(pair: BusySite, user: str, line: str) -> None:
    pair.assert_same(*shlex.split(line), user=user)
