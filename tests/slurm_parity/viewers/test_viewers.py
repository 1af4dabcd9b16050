"""Output of squeue, sinfo, sprio, sshare, sstat and sdiag beside a real Slurm with the same site, jobs and
command lines.

Parts that necessarily differ are masked before the comparison: times of day, run times, and priorities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest
from tests.slurm_parity.peer.pair import TIME, Pair, side_by_side
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
FIRST_JOBS = (
    ("-H", "-J", "held"),
    ("-J", "runs", "-n2", "--gres=gpu:2", "-t", "2:00:00", "--comment", "a comment"),
    ("-J", "both", "-N2", "-n4", "-p", "debug", "--mem=2G", "-t", "10"),
    ("-J", "array", "--array=1-20%2", "-n1"),
)
"""All of these jobs except the first start at once. The array has the ids 4 to 6."""
LATER_JOBS = (
    ("-J", "follows", "-d", "afterok:2"),
    ("-J", "wide", "-N4", "--exclusive", "--gres=gpu:h100:4"),
    ("-J", "later", "--begin=now+2hours", "-t", "1-0"),
    ("-H", "-J", "asks", "-w", "n3", "-x", "n4", "--nice=50", "-c3", "--mem-per-cpu=300", "--no-requeue"),
    ("-H", "-J", "tasks", "--gpus-per-task=1", "-n4", "-p", "gpu,debug"),
    ("-H", "-J", "a-name-that-is-long", "--gpus=3", "-t", "5-12:30:00", "--array=1,3,5-9:2"),
)  # fmt: skip


TIME_MASKS = {**TIME, r"^\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4}$": "DATE"}


class JobPair(Pair):
    """Both schedulers with the same jobs."""

    masks = TIME_MASKS

    def submit(self, jobs: Sequence[Sequence[str]]) -> None:
        for job in jobs:
            self.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            self.warpdeck.submit(*job)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(JobPair) as pair:
        slurm, warpdeck = pair.slurm, pair.warpdeck
        pair.submit(FIRST_JOBS)
        eventually(
            lambda: slurm.ok("squeue", "-h", "-tR", "-o", "%t").split() == ["R"] * 4, what="Slurm's jobs run"
        )
        warpdeck.wait_until_running(2, 3, 5, 6)
        pair.submit(LATER_JOBS)
        for job, reason in ((4, "JobArrayTaskLimit"), (7, "Dependency"), (8, "Resources"), (9, "BeginTime")):
            argv = ("squeue", "-h", "-t", "PD", "-j", str(job), "-o", "%r")
            eventually(lambda argv=argv, reason=reason: slurm.ok(*argv) == f"{reason}\n", what=reason)
            eventually(lambda argv=argv, reason=reason: warpdeck.run(argv).out == f"{reason}\n", what=reason)
        yield pair


@pytest.mark.parametrize(
    "line",
    [
        "squeue -S i -o %i|%P|%j|%u|%t|%D|%R",
        "squeue -S i -o %.18i_%.9P_%.8j_%.8u_%.2t_%.6D_%R",
        "squeue -S i -o [%A][%F][%K][%a][%b][%B][%c][%C][%d][%f][%g][%G][%h][%H][%I][%J]",
        "squeue -S i -o [%k][%l][%m][%n][%N][%o][%O][%P][%r][%s][%T][%u][%U][%v][%w][%W][%x][%X][%y][%z][%Z]",
        "squeue -S i -o %V%E --noconvert",
        "squeue -S i -o %m --noconvert",
        "squeue -h -S i -o %-10i%5%%j%!%..5i%2Tx",
        "squeue -h -S -i -o %i",
        "squeue -h -S j,-i -o %i%j",
        "squeue -h -S P,-C,i -o %i",
        "squeue -h -S ? -o %i",
        "squeue -h -S q,i -o %i",
        "squeue -h --start -t PD -j 1,7 -S i -O jobid",
        "squeue -h -S # -o %i",
        "squeue -s -h -S zz,-i -o %i",
        "squeue -S i -O jobid:5,name:.3,name:.10X,name:0_,JOBID:|,,state",
        "squeue -h -S i -O jobid,gres:30,tres-per-node:30",
        "squeue -h -S i -O nope,jobid:7,nosuch",
        "squeue -h -j 4 -r -S i -o %i",
        "squeue -h -j 4_1,4_5 -S i -o %i%t",
        "squeue -h -t PD -S i -o %i",
        "squeue -h -t running,cg -S i -o %i",
        "squeue -t foo",
        "squeue -h -p debug -S i -o %i",
        "squeue -p nosuch",
        "squeue -h -n array,held -S i -o %i",
        "squeue -h -w n[1-2] -S i -o %i",
        "squeue -w n9 -o %i",
        "squeue -h -u nosuch",
        "squeue -u nosuch",
        "squeue -h -u nosuch,0 -S i -o %i",
        "squeue -h --me -S i -o %i",
        "squeue -h --users=root -S i -o %i",
        "squeue -h --accounts=none -o %i",
        "squeue -j 999",
        "squeue -j 999,2 -h -o %i",
        "squeue -j abc",
        "squeue -h -o %i --jobs=",
        "squeue -h -o %i -j ,",
        "squeue -h -S i -o %i -j",
        "squeue -h -o %i -j1 -j2",
        "squeue -h -o %i -j 1 -j2",
        "squeue -h -o %i -j -h 1",
        "squeue -s -h -o %i --steps=",
        "squeue -h -u 4242 -o %i",
        "squeue -h -u 4242,0 -S i -o %i",
        "squeue -o %i -O jobid",
        "squeue -l -o %i",
        "squeue -i 0",
        "squeue -V",
        "squeue -s -S i -o %i|%j|%P|%u|%N|%A|%U|%l",
        "squeue -s -S i -o %a%i",
        "squeue -s2",
        "squeue -h -S i -L none -o %i",
        "squeue -h -A none -o %i",
        "squeue --clusters=nosuch -h",
        "squeue -h -P -S i -o %i%P",
        "squeue -h -P -S i -r -o %i%P",
        "squeue -h -t R -S e,i -o %i",
        "squeue -h -S N,i -t R -o %i%N",
        "squeue -h -t R -S i -o %.1l|%1l|%.1N|%1N|%.1R|%1R|%.1t",
        "squeue -t R -S i -o %.1l|%.1N|%1N|%.1R|%1R|%.1Y|%.1n|%.1x",
        "squeue -h -t PD -S i -o %.4R|%4R|%.1Y|%2Y|%5k|%6k|%.5k",
        "squeue -h -S i -O resizetime:.1,schednodes:1_,nodelist:.1|,comment:3|,timelimit:.2",
        "squeue -S i -O jobid,cpuspertask,packjobid,packjobidset,packjoboffset,shared",
        "squeue -O jobid:4,nosuch:9|,name -S i",
        "squeue -s -S i -O jobid,stepid,arrayjobid,arraytaskid,cpufreq,cpus-per-tres,gres,resvports,network,stepstate",
        "squeue -s -S i -O tres-bind,tres-freq,tres-per-job,tres-per-node,tres-per-step,tres-per-task,name:3|,mem-per-tres",
        "squeue -s -h -n runs -S i -o %i",
        "squeue -l -t PD -S i",
        "squeue -lh -t PD -S i",
        "squeue -h --me -u nobody",
        "squeue -h -u nobody --me -S i -o %i",
        "squeue -h --nodes n3 -S i",
        "squeue -h --n -S i",
        "squeue -h -j 2.0 -o %i",
        "squeue -h -j 2.batch,3+0 -S i -o %i",
        "squeue -h -j 0",
        "squeue -h -j 4_99",
        "squeue -h -t , -S i -o %i",
        "squeue -t all,PD",
    ],
)  # fmt: skip
def test_squeue_prints_the_output_of_slurm(pair: Pair, line: str) -> None:
    if "clusters" in line:
        found = pair.warpdeck.run(line.split(" "))
        wanted = pair.slurm.run(line.split(" "))
        assert (found.rc, found.err.splitlines()[-1]) == (
            wanted.rc,
            wanted.err.splitlines()[-1],
        )  # This Slurm has no database.
        return
    if "-V" in line:
        assert (
            pair.warpdeck.run(["squeue", "-V"]).out.split()[1]
            == pair.slurm.run(["squeue", "-V"]).out.split()[1]
        )
        return
    pair.assert_same(*line.split(" "))


@pytest.mark.parametrize(
    "line",
    [
        "sinfo",
        "sinfo -l",
        "sinfo -N",
        "sinfo -Nl",
        "sinfo -Ne",
        "sinfo -s",
        "sinfo -R",
        "sinfo -Rl",
        "sinfo -T",
        "sinfo -d",
        "sinfo -r",
        "sinfo -h -o %a|%b|%B|%c|%d|%D|%E|%f|%F|%A|%g|%G|%h|%H|%I|%l|%L|%m|%M|%N",
        "sinfo -h -o %p|%P|%r|%R|%s|%S|%t|%T|%u|%U|%V|%w|%X|%Y|%Z|%z",
        "sinfo -o %P%C%t",
        "sinfo -h -N -t mix -o %N",
        "sinfo -h -t drain -o %P%N",
        "sinfo -h -t drain -o %a%N",
        "sinfo -h -t drain -o %D",
        "sinfo -o %.3N|%3N|%.3D|%.1l",
        "sinfo -o %20P|%.5a|%5D|%.3D|x",
        "sinfo -h -o %D%t",
        "sinfo -o %l",
        "sinfo -o %A%F",
        "sinfo -o %j%P",
        "sinfo -O partition,nodes:5,gresused,statecomplete:30,comment,extra,cluster",
        "sinfo -O nope",
        "sinfo -h -S P,-N -o %P%N",
        "sinfo -h -S P -o %3P|%4P|%.2P|%6b|%3b|%.3b",
        "sinfo -lh",
        "sinfo -h -t all",
        "sinfo -h -p nosuch,debug",
        "sinfo -h -n n9,n1 -p debug",
        "sinfo -h -S -t -o %P%t%D",
        "sinfo -h -S -N -N",
        "sinfo -t idle",
        "sinfo -t mix,alloc",
        "sinfo -t drain",
        "sinfo -t drained,down",
        "sinfo -t foo",
        "sinfo -t idle&drain",
        "sinfo -n n1",
        "sinfo -n n[1-2],n4",
        "sinfo -n nosuch",
        "sinfo -p debug",
        "sinfo -p nosuch",
        "sinfo -h -p debug -N -o %N%P",
        "sinfo -l -o %P",
        "sinfo -l -O partition",
        "sinfo -a -p debug",
        "sinfo -i 0",
        "sinfo word",
    ],
)
def test_sinfo_prints_the_output_of_slurm(pair: Pair, line: str) -> None:
    """Slurm's sinfo collects each partition in its own thread, so rows that it does not sort come in any
    order.
    """
    by_partition = re.search(r" -S|N| %D%t", line) is None
    pair.assert_same(*line.split(" "), in_order=by_partition)


@pytest.mark.parametrize(
    "line",
    [
        "sprio -w",
        "sprio -w -n",
        "sprio -w -l",
        "sprio -h -w",
        "sprio -w -o %i%Y%A%J",
        "sprio -o %.5i|%-5i|%10u|%r|%N|%S",
        "sprio -o %i%z%u",
        "sprio -h -o %i,%r",
        "sprio -j 4",
        "sprio -j 999",
        "sprio -j abc",
        "sprio -h -j , -o %i",
        "sprio -h --jobs= -o %i",
        "sprio -h -S zz,i -o %i",
        "sprio -h -u nobody -S zz -o %i",
        "sprio -l -o %i",
        "sprio -h -u 4242",
        "sprio -h -u root -o %i%u",
        "sprio -u nobody",
        "sprio -u nosuch",
        "sprio -p debug",
        "sshare",
        "sshare -l",
        "sshare -m",
        "sshare -n",
        "sshare -P",
        "sshare -p",
        "sshare -U",
        "sshare -o account,user%-5,rawshares%20",
        "sshare -o nope",
        "sshare --helpformat",
        "sshare -u 4242,root",
        "sstat -n -j 2 -o jobid",
        "sstat -n -j 2.7,1,2 -o jobid",
        "sstat -n -j 999 -o jobid",
        "sstat -n -j 2.x",
        "sstat -n -j 2_x",
        "sstat -j 2,foo",
        "sstat foo",
        "sstat -j ,",
    ],
)
def test_sprio_sshare_and_sstat_print_the_output_of_slurm(pair: Pair, line: str) -> None:
    pair.assert_same(*line.split(" "))


@pytest.mark.parametrize(
    "line",
    [
        "squeue --nosuch",
        "squeue -o",
        "squeue --sta pd",
        "squeue -L",
        "sinfo --nosuch",
        "sinfo -n",
        "sprio -x",
        "sprio -o",
    ]
    + ["sshare -x", "sshare word", "sdiag -x", "sacctmgr --json show user"],
)
def test_invalid_command_lines_print_the_messages_of_slurm(pair: Pair, line: str) -> None:
    pair.assert_same(*line.split(" "))


@pytest.mark.parametrize(
    "line", ["squeue word", "squeue -j 1 -j 2", "squeue -s -j 2 3", "sprio 1", "sprio -j 1 2 -w"]
)
def test_an_extra_argument_is_refused_with_the_usage(pair: Pair, line: str) -> None:
    """The usage text is our own, in the same place."""
    found, wanted = pair.warpdeck.run(line.split(" ")), pair.slurm.run(line.split(" "))
    assert (found.rc, found.err, found.out[:12]) == (wanted.rc, wanted.err, wanted.out[:12])


@pytest.mark.parametrize(
    "line", ["strigger --get", "strigger", "strigger --get --clear", "strigger --nosuch"]
)
def test_strigger_lists_no_triggers(pair: Pair, line: str) -> None:
    pair.assert_same(*line.split(" "))


def test_setting_a_trigger_is_refused_with_an_alternative(pair: Pair) -> None:
    result = pair.warpdeck.run(["strigger", "--set", "--fini", "--jobid=1", "--program=/bin/true"])
    assert result.rc == 1
    assert "--set is not supported" in result.err and "--dependency" in result.err


def test_sdiag_has_the_labels_of_slurm(pair: Pair) -> None:
    def labels(text: str) -> list[str]:
        before_calls = text.partition("Remote Procedure Call")[0]
        return [
            re.sub(r"[\d:]+( \w+)? *$|: .*|(output at|since).*", "", line)
            for line in before_calls.splitlines()
        ]

    slurm, warpdeck = pair.slurm.run(["sdiag"]), pair.warpdeck.run(["sdiag"])
    remaining = iter(labels(warpdeck.out))  # Slurm leaves out lines without any data yet.
    assert [label for label in labels(slurm.out) if label not in remaining] == []
    assert warpdeck.out.splitlines()[-2:] == slurm.out.splitlines()[-2:]


def test_json_of_jobs_and_nodes_has_the_keys_and_types_of_slurm(pair: Pair) -> None:
    """The names and types of the values match for a running job, a waiting job, and a node."""
    for command, things, number in (("squeue", "jobs", 1), ("squeue", "jobs", 0), ("sinfo", "nodes", 0)):
        slurm = json.loads(pair.slurm.ok(command, "--json"))
        warpdeck = json.loads(pair.warpdeck.run([command, "--json"]).out)
        assert warpdeck["meta"] == slurm["meta"]
        wanted, found = slurm[things][number], warpdeck[things][number]
        assert found.keys() - wanted.keys() == set()
        assert wanted.keys() - found.keys() <= {"job_resources"}
        for name, value in wanted.items():
            if value is not None and found.get(name) is not None:
                assert isinstance(found[name], type(value)), name
        assert found.get("cpus_per_task") is wanted.get("cpus_per_task") is None, (
            "always absent: neither reports a number"
        )


def test_json_of_nodes_has_the_values_of_slurm(pair: Pair) -> None:
    """Slurm lists GPUs in tres only if they are accounted for; our controller always lists them."""

    def node_values(text: str) -> list[list[str | None]]:
        compared = ("name", "architecture", "cpus", "alloc_cpus", "real_memory", "gres", "tres", "tres_used")
        nodes = json.loads(text)["nodes"]
        return sorted([node[name] for name in compared] for node in nodes)

    argv = ("sinfo", "--json")
    assert node_values(re.sub(r",gres/gpu=\d+", "", pair.warpdeck.run(argv).out)) == node_values(
        pair.slurm.ok(*argv)
    )
    assert '"tres": "cpu=16,mem=64G,billing=16,gres/gpu=4"' in pair.warpdeck.run(argv).out


def test_yaml_has_the_keys_of_the_json_in_the_same_order(pair: Pair) -> None:
    """The tags are YAML's own, so that any reader knows them. The keys are the same, in the same order."""
    text = pair.warpdeck.run(["squeue", "--yaml", "-j", "2"]).out
    job = json.loads(pair.warpdeck.run(["squeue", "--json", "-j", "2"]).out)["jobs"][0]
    slurm = pair.slurm.ok("squeue", "--yaml").splitlines()
    assert text.splitlines()[:14] == slurm[:14]
    keys = re.findall(r"^  !!str (\w+):", text, re.M)
    assert [key for key in keys if key in job] == list(job)


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({"SQUEUE_FORMAT": "%A|%j", "SQUEUE_SORT": "-i"}, "squeue"),
        ({"SQUEUE_FORMAT2": "jobid:9"}, "squeue -h -S i"),
        ({"SQUEUE_STATES": "R"}, "squeue -h -S i -o %i"),
        ({"SQUEUE_STATES": "R"}, "squeue -h -S i -o %i -t PD"),
        ({"SQUEUE_USERS": "nobody"}, "squeue"),
        ({"SQUEUE_PARTITION": "debug"}, "squeue -h -o %i"),
        ({"SQUEUE_NAMES": "held"}, "squeue -h -o %i"),
        ({"SQUEUE_FORMAT": "%i|%j", "SQUEUE_FORMAT2": "jobid,name"}, "squeue -S i"),
        ({"SQUEUE_PRIORITY": "1"}, "squeue -h -S i -o %i%P"),
        ({"SQUEUE_ALL": "1"}, "squeue -h -S i -o %i"),
        ({"SQUEUE_ACCOUNT": "x"}, "squeue -h -o %i"),
        ({"SQUEUE_QOS": "x"}, "squeue -h -o %i"),
        ({"SQUEUE_LICENSES": "x"}, "squeue -h -o %i"),
        ({"SINFO_ALL": "1"}, "sinfo -h -o %P"),
        ({"SQUEUE_ARRAY": "1"}, "squeue -h -j 12 -S i -o %i"),
        ({"SLURM_BITSTR_LEN": "5"}, "squeue -h -j 12 -o %i"),
        ({"SLURM_TIME_FORMAT": "xx"}, "squeue -h -j 1 -o %i%V"),
        ({"SLURM_TIME_FORMAT": "%Y"}, "squeue -h -j 1 -o %i%V"),
        ({"SINFO_FORMAT": "%P|%D"}, "sinfo"),
        ({"SINFO_FORMAT": "%P|%D"}, "sinfo -s"),
        ({"SINFO_PARTITION": "debug"}, "sinfo -h"),
        ({"SINFO_SORT": "-P"}, "sinfo -h -o %P"),
        ({"SPRIO_FORMAT": "%i|%r"}, "sprio -h"),
    ],
)
def test_environment_variables_replace_options_as_in_slurm(
    pair: Pair, env: dict[str, str], line: str
) -> None:
    pair.assert_same(*line.split(" "), env=env)


def test_drained_nodes_are_shown_as_in_slurm(pair: Pair) -> None:
    """Drain an idle and a busy node, and resume both afterwards."""
    for name in ("n1", "n4"):
        pair.slurm.ok(
            "scontrol", "update", f"nodename={name}", "state=drain", "reason=bad disk, and more words"
        )
        with pair.warpdeck.connect() as client:
            client.call("node_drain", name=name, reason="bad disk, and more words")
    for line in (
        "sinfo",
        "sinfo -l",
        "sinfo -s",
        "sinfo -h -R -o %20E|%E|%t|%T|%N",
        "sinfo -h -o %P%F%t%N",
        "sinfo -t drain",
        "sinfo -t drained",
        "sinfo -t draining",
        "sinfo -t idle",
        "sinfo -h -t drain,idle -o %P%D%t",
        "sinfo -O partition,statecomplete,statelong,reason:30",
    ):
        pair.assert_same(*line.split(" "), in_order=" -R" not in line)
    for name in ("n1", "n4"):
        pair.slurm.ok("scontrol", "update", f"nodename={name}", "state=resume")
        with pair.warpdeck.connect() as client:
            client.call("node_resume", name=name)


def test_cancelling_an_unknown_step_of_a_running_job_prints_the_message_of_slurm(pair: Pair) -> None:
    """The message appears twice and names only the job."""
    pair.assert_same("scancel", "2.7")


def test_ended_jobs_are_shown_as_in_slurm(pair: Pair) -> None:
    pair.slurm.ok("scancel", "2")
    with pair.warpdeck.connect() as client:
        client.call("cancel", jobs=["2"])
    pair.warpdeck.report_job_end(2, signal=15)
    eventually(
        lambda: pair.slurm.ok("squeue", "-h", "-j2", "-tCA", "-o", "%t") == "CA\n",
        what="the job ended in Slurm",
    )
    eventually(
        lambda: pair.warpdeck.run(["squeue", "-h", "-j2", "-tCA", "-o", "%t"]).out == "CA\n",
        what="the job ended in warpdeck",
    )
    for line in (
        "squeue -j 2",
        "squeue -h -t CA -o %i|%t|%T|%r|%R|%N|%C|%D",
        "squeue -h -t CA -O jobid,exit_code",
        "squeue -h -t all -j 2 -o %i%T",
    ):
        pair.assert_same(*line.split(" "))
