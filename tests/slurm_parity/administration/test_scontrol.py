"""scontrol beside a real Slurm with the same site, jobs and command lines.

Values that necessarily differ are masked before the comparison: times of day, priorities, and the submitting
host.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.slurm_parity.peer.pair import JOB_FACTS, Pair, side_by_side
from tests.support.waiting import eventually

from warpdeck.config import load

pytestmark = pytest.mark.slurm
CONTROL_TEXTS = ("a\x1b]52;c;AA\x07b\x1b[2J\nFORGED\tc", "d\x1b[1m\n   FORGED=e")
JOBS = (
    ("-H", "-J", "plain"),
    (
        "-H",
        "-J",
        "sizes",
        "-N2",
        "-n4",
        "-c2",
        "--mem=2G",
        "-t",
        "25:00",
        "-p",
        "debug",
        "--comment",
        "a comment",
    ),
    ("-H", "-J", "gpus", "--gres=gpu:h100:2", "--mem-per-cpu=300", "-t", "3-0", "--nice=7", "--no-requeue"),
    ("-H", "-J", "array", "--array=1-9:2%2", "-w", "n3", "-x", "n4"),
    ("-H", "-J", "total", "--gres=gpu:3", "--exclusive", "--time-min=5", "-t", "20"),
    ("-H", "-J", "sparse", "--array=1,2,4,7,11,16,22,29,37,46,56,67,79,92"),
    ("-H", "-J", CONTROL_TEXTS[0], "--comment", CONTROL_TEXTS[1]),
)


class JobPair(Pair):
    """Both schedulers with the same jobs."""

    masks = JOB_FACTS


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(JobPair) as both:
        for job in JOBS:
            both.slurm.ok("sbatch", *job, "--wrap", "sleep 1000")
            both.warpdeck.submit(*job)
        yield both


@pytest.mark.parametrize("job", [1, 2, 3, 4, 5])
def test_scontrol_show_job_prints_the_output_of_slurm(pair: Pair, job: int) -> None:
    pair.assert_same("scontrol", "show", "job", str(job))
    pair.assert_same("scontrol", "-o", "show", "job", str(job))


def test_control_characters_are_printed_as_in_slurm(pair: Pair) -> None:
    assert all(text in pair.assert_same("scontrol", "show", "job", "7") for text in CONTROL_TEXTS)


def test_scontrol_show_partition_prints_the_output_of_slurm(pair: Pair) -> None:
    pair.assert_same("scontrol", "show", "partition")
    pair.assert_same("scontrol", "-o", "show", "partition", "debug")


@pytest.mark.parametrize(
    "line",
    [
        "show job 99",
        "show jobid -dd 2",
        "show jobid=3",
        "show jobs=1",
        "-o show job=4",
        "show partition=debug",
        "show node=zz",
        "show jobi 99",
        "show job abc",
        "show job 4_77",
        "errnumstr",
        "errnumstr 2017",
        "errnumstr 2037",
        "errnumstr 0",
        "errnumstr 13",
        "errnumstr x",
        "errnumstr 2 3",
        "errnumstr 99999",
        "setdebug",
        "setdebug foo",
        "setdebug 99",
        "setdebug info n1",
        "setdebugflags",
        "setdebugflags backfill",
        "token foo",
        "cancel_reboot",
        "cancel_reboot n1",
        "cancel_reboot nosuch",
        "cancel_reboot n1 n2",
        "fsdampeningfactor",
        "schedloglevel",
        "schedloglevel 1",
        "schedloglevel foo",
        "callerid",
        "callerid 1",
        "reboot",
        "reboot asap",
        "reboot nextstate=foo n1",
        "getaddrs n1",
        "takeover 9",
        "shutdown foo",
        "show frontend x",
        "show assoc_mgr foo",
        "show assoc_mgr flags=users",
        "show assoc_mgr flags=foo",
        "top x",
        "uhold 1",
        "pidinfo",
        "pidinfo x",
        "cluster",
        "version x",
        "verbose x",
        "quiet x",
        "all x",
        "oneliner x",
        "-Q foo",
        "-Q show job 99",
        "-Q hold 99",
        "-u 0 show hostnames n1",
        "--uid=nosuch show hostnames n1",
        "delete foo",
        "update nodename",
        "update nodename=n1 foo",
        "update nodename=n1 state=",
        "update nodename=n1 weight=-1",
        "exit 1",
        "quit",
        "completing x",
        "create foo",
        "update jobid",
        "notify 1 hello",
        "show node zz",
        "show partition zz",
        "show reservation zz",
        "show foo",
        "show",
        "foo",
        "hold",
        "hold 99",
        "release abc",
        "requeue 1",
        "requeue 99",
        "requeuehold 1",
        "notify 99 hello",
        "update",
        "update foo=bar",
        "update jobid=1",
        "update jobid=1 foo=bar",
        "update jobid=1 timelimit=xx",
        "update jobid=1 starttime=xx",
        "update jobid=1 endtime=now+1hour",
        "update jobid=99 comment=x",
        "update nodename=n1",
        "update nodename=n1 state=drain",
        "update nodename=zz state=resume",
        "update nodename=n1 state=foo",
        "update partitionname=zz state=up",
        "delete",
        "delete foo=bar",
        "delete reservationname=x",
        "create reservation",
        "create reservation starttime=now duration=5 users=root",
        "create reservation starttime=now duration=5 nodes=n1",
        "create reservation starttime=now users=root nodes=n1",
        "ping 1",
        "show job 1 2",
        "version",
        "--nothing",
        "-Z",
        "show licenses",
        "show reservation",
        "show step 99",
        "show partitionname=debug nothing",
        "show partitionname=zz",
        "show reservationname=zz",
        "show topology n1",
        "show bbstat",
        "show burstbuffer",
        "show federation",
        "show frontend",
        "write foo 1",
        "requeue 3",
        "notify 99 hello",
        "-o show job 4_3",
        "wait_job 99",
        "listpids 99",
        "listpids x",
        "requeue 1_2",
        "hold 1_2",
        "hold 98,99",
        "hold jobid=99",
        "uhold 99",
        "top 99",
        "completing",
        "requeuehold 98,99",
        "write batch_script 99",
        "show assoc_mgr",
        "update nodename=n[1-2] state=drain reason=x",
        "update nodename=n1,n2 state=resume",
        "show hostlistsorted n3,n1,n[5-7],n2",
        "show hostlist n3,n1,n[5-7],n2",
    ],
)  # fmt: skip
def test_scontrol_prints_the_output_of_slurm(pair: Pair, line: str) -> None:
    pair.assert_same("scontrol", *line.split())


@pytest.mark.parametrize(
    "lines",
    [
        "quit", "foo;quit", "show;show foo;exit", "version;!!", "quiet;foo;show job 99",
        "verbose;quiet;show job 99;verbose;show job 99",
        "oneliner;show job 1;details;all;hide;exit",
        "show node zz;hold 99;version", 'show "job 1', "quit now;version", "version x",
        "show job 99;show job 1", "requeue", "all x;help x;exit",
    ],
)  # fmt: skip
def test_the_scontrol_prompt_prints_the_output_of_slurm(pair: Pair, lines: str) -> None:
    data = lines.replace(";", "\n") + "\n"
    if "help" in lines:  # Our help text is our own.
        results = [cluster.run(["scontrol"], data=data) for cluster in (pair.slurm, pair.warpdeck)]
        assert (results[0].rc, results[0].err) == (results[1].rc, results[1].err)
        return
    pair.assert_same("scontrol", data=data)


@pytest.mark.parametrize(
    "line", ["shutdown", "abort", "reconfigure", "cancel_reboot n1", "suspend 1", "resume 1"]
)
def test_admin_commands_are_refused_to_ordinary_users_as_in_slurm(pair: Pair, line: str) -> None:
    pair.assert_same("scontrol", *line.split(), user="nobody")


@pytest.mark.parametrize("line", ["reboot n1", "token", "token lifespan=5", "reboot asap reason=x n1"])
def test_unsupported_commands_print_the_message_of_slurm_and_an_alternative(pair: Pair, line: str) -> None:
    slurm, warpdeck = (cluster.run(["scontrol", *line.split()]) for cluster in (pair.slurm, pair.warpdeck))
    assert (
        warpdeck.err.startswith(slurm.err)
        and len(warpdeck.err.splitlines()) == len(slurm.err.splitlines()) + 1
    )
    assert warpdeck.rc == slurm.rc == 1


@pytest.mark.parametrize(
    "case",
    [
        "SCONTROL_ALL=1 show partition",
        "SCONTROL_FEDERATION=1 show job 1",
        "SCONTROL_FUTURE=1 show node zz",
        "SCONTROL_LOCAL=1 show job 1",
        "SCONTROL_SIBLING=1 show job 1",
        "SLURM_BITSTR_LEN=5 show job 6",
        "SLURM_BITSTR_LEN=0 show job 6",
        "SLURM_BITSTR_LEN=20 show job 6",
        "SLURM_BITSTR_LEN=x show job 6",
        "SLURM_BITSTR_LEN= show job 6",
        "SLURM_TIME_FORMAT=%Y show job 1",
        "SLURM_TIME_FORMAT=xx show job 1",
        "SLURM_TIME_FORMAT=standard -o show job 2",
        "SLURM_TOPO_LEN=3 show topology n1",
        "SLURM_CONF_OUT=/nosuch show job 1",
    ],
)
def test_environment_variables_replace_options_as_in_slurm(pair: Pair, case: str) -> None:
    """The cases cover all variables of scontrol's man page except SLURM_CONF, SLURM_DEBUG_FLAGS and
    SLURM_CLUSTERS.
    """
    setting, _, line = case.partition(" ")
    name, _, value = setting.partition("=")
    pair.assert_same("scontrol", *line.split(), env={name: value})


def test_job_updates_have_the_effect_that_they_have_in_slurm(pair: Pair) -> None:
    for argv in (
        ("timelimit=50", "comment=other words", "name=new"),
        ("timelimit+=10",),
        ("timelimit=-5",),
        ("timel=90",),
        ("partition=debug", "timelimit=20"),
        ("nice=30",),
        ("requeue=0",),
        ("minmemorycpu=200",),
        ("minmemorynode=4096",),
        ("reqnodelist=n2",),
        ("reqnodelist=", "excnodelist=n1", "numnodes=1"),
        ("dependency=afterany:2",),
        ("dependency=",),
    ):
        pair.assert_same("scontrol", "update", "jobid=1", *argv)
        pair.assert_same("scontrol", "show", "job", "1")
    pair.assert_same("scontrol", "update", "jobid=4", "arraytaskthrottle=3")
    pair.assert_same("scontrol", "show", "job", "4")
    pair.assert_same("scontrol", "update", "jobname=total", "timelimit=15")
    pair.assert_same("scontrol", "show", "job", "5")
    pair.assert_same("scontrol", "update", "jobid=3,99", "comment=x")
    pair.assert_same("scontrol", "update", "jobid=4", "numnodes=2")
    pair.assert_same("scontrol", "show", "job", "4")
    pair.assert_same("scontrol", "update", "jobid=4_1", "comment=x")
    pair.assert_same("scontrol", "update", "jobid=4", "numnodes=1")


HOSTS = st.lists(st.from_regex(r"[a-c]{1,2}(-[a-c])?[0-9]{0,4}", fullmatch=True), min_size=1, max_size=8)


@settings(max_examples=15, deadline=None)
@given(HOSTS)
def test_hostlists_are_printed_as_in_slurm(pair: Pair, names: list[str]) -> None:
    for entity in ("hostlist", "hostlistsorted", "hostnames"):
        pair.assert_same("scontrol", "show", entity, ",".join(names))


PARTITIONS = (
    "update partitionname=debug state=down", "update partitionname=debug State=UP MaxTime=50", "update part=debug maxnodes=2",
    "update partitionname=debug state=foo", "update partitionname=debug PriorityTier=7 GraceTime=60", "update partitionname=debug",
    "update partitionname=debug MaxTime=30 maxnodes=UNLIMITED prioritytier=1 gracetime=0", "update partitionname=debug foo=bar",
    "update partitionname=debug maxtime=x", "update partitionname=debug maxnodes=x", "update partitionname=debug gracetime=x",
    "update partitionname=debug prioritytier=x", "update partitionname=debug preemptmode=foo",
    "create partition nodes=n1", "create partitionname=q nodes=zz", "create partitionname=q foo=bar",
    "create partitionname=fresh nodes=n3", "update partitionname=fresh nodes=n[3-4] DefaultTime=10",
    "delete partitionname=fresh", "delete partitionname=fresh", "delete partitionname=zz",
)  # fmt: skip


def test_partitions_are_created_updated_and_deleted_as_in_slurm(pair: Pair) -> None:
    for line in PARTITIONS:
        pair.assert_same("scontrol", *line.split())
        pair.assert_same("scontrol", "show", "partition", "debug")
        pair.assert_same("scontrol", "show", "partition", "fresh")


def test_an_updated_partition_is_written_to_the_configuration(pair: Pair) -> None:
    assert pair.warpdeck.served is not None
    path = pair.warpdeck.served.paths.config
    before = Path(path).read_text()
    argv = "State=down Nodes=n[1-2] MaxTime=5 MaxNodes=3 GraceTime=60 PreemptMode=OFF OverSubscribe=EXCLUSIVE Default=YES"
    assert pair.warpdeck.run(["scontrol", "update", "partitionname=debug", *argv.split()]).err == ""
    config = load(path).config
    debug = config.partitions["debug"]
    assert (debug.state, debug.grace_s, debug.max_nodes, debug.exclusive) == ("DOWN", 60, 3, True)
    assert config.scheduler.default_partition == "debug"
    for argv, message in (
        ("LLN=yes", "Update of this parameter is not supported: LLN=yes"),
        ("Default=maybe", "Update of this parameter is not supported: Default=maybe"),
        ("AllowAccounts=nosuch", "there is no account 'nosuch'"),
        # Slurm's partition would have no nodes then.
        ("nodes=zz", "slurm_update error: Invalid node name specified"),
        ("DefaultTime=x", "Invalid input DefaultTime=x"),
    ):
        result = pair.warpdeck.run(["scontrol", "update", "partitionname=debug", argv])
        assert result.rc == 1 and message in result.err
    refused = pair.warpdeck.run(["scontrol", "update", "partitionname=debug", "state=up"], user="nobody")
    assert refused.err == "slurm_update error: Invalid user id\n"
    Path(path).write_text(before)
    assert pair.warpdeck.run(["scontrol", "reconfigure"]).rc == 0


def test_node_features_and_weights_are_updated_as_in_slurm(pair: Pair) -> None:
    for line in (
        "n4 weight=5",
        "n[3-4] features=old,slow",
        "n4 weight=x",
        "zz weight=2",
        "n[3-4] weight=2",
        "n4 weight=3",
    ):
        pair.assert_same("scontrol", "update", *f"nodename={line}".split())
        argv = ["sinfo", "-h", "-N", "-p", "gpu", "-n", "n[3-4]", "-o", "%N %w %f"]
        expected = pair.slurm.run(argv)
        assert pair.warpdeck.run(argv) == expected
    assert expected.out == "n3 2 old,slow\nn4 3 old,slow\n"


def test_node_comments_are_stored_and_shown_as_in_slurm(pair: Pair) -> None:
    for argv in (
        ("nodename=n[1-2]", "comment=some words", "extra=rack=7"),
        ("nodename=n1", 'Extra={"gpu": "slow"}'),
        ("nodename=n1", "co=z"),
        ("nodename=n2", "e=x", "comment="),
        ("nodename=zz", "comment=a"),
        ("nodename=n1", "comment=", "extra="),
    ):
        pair.assert_same("scontrol", "update", *argv)
        for name in ("n1", "n2"):
            node_texts = [
                cluster.run(["scontrol", "show", "node", name]).out for cluster in (pair.slurm, pair.warpdeck)
            ]
            slurm, warpdeck = (re.findall(r"^ +(?:Comment|Extra)=.*$", text, re.M) for text in node_texts)
            assert warpdeck == slurm, argv
        pair.assert_same("sinfo", "-N", "-p", "debug", "-O", "nodelist:5,comment:30,extra:20")
    denied = pair.warpdeck.run(["scontrol", "update", "nodename=n1", "comment=x"], user="nobody")
    assert denied.err == "slurm_update error: Invalid user id\n"
    pair.warpdeck.run(["scontrol", "update", "nodename=n2", "extra="])
    pair.slurm.run(["scontrol", "update", "nodename=n2", "extra="])


def test_updated_node_features_are_written_to_the_configuration(pair: Pair) -> None:
    path = pair.warpdeck.folder / "home/config.toml"
    change = {"path": ["nodes", "n[1-2]"], "values": {"features": ["fast"]}}
    with pair.warpdeck.connect() as client:
        client.call("amend", changes=[change])
    assert pair.warpdeck.run(["scontrol", "update", "nodename=n1", "features=fast,ib", "weight=4"]).err == ""
    assert pair.warpdeck.run(["sinfo", "-h", "-n", "n1", "-p", "gpu", "-o", "%w %f"]).out == "4 fast,ib\n"
    assert load(str(path)).config.nodes["n1"].features == ("fast", "ib")
    before = path.read_text()
    denied = pair.warpdeck.run(["scontrol", "update", "nodename=n1", "weight=7"], user="nobody")
    assert denied.err == "slurm_update error: Invalid user id\n"
    assert pair.warpdeck.run(["scontrol", "update", "nodename=n1", "nodeaddr=x"]).rc == 1
    assert path.read_text() == before
    assert pair.warpdeck.run(["scontrol", "update", "nodename=n1", "features=ib"]).err == ""
    assert (
        pair.warpdeck.run(["sinfo", "-h", "-N", "-n", "n[1-2]", "-p", "gpu", "-o", "%f"]).out == "ib\nfast\n"
    )
    assert pair.warpdeck.run(["scontrol", "update", "nodename=n[1-4]", "features=", "weight=1"]).err == ""
    assert pair.warpdeck.run(["sinfo", "-h", "-p", "gpu", "-o", "%N %w %f"]).out == "n[1-4] 1 (null)\n"


def test_scontrol_show_config_has_the_keys_of_slurm(pair: Pair) -> None:
    def config_values(text: str) -> dict[str, str]:
        pairs = (line.partition("=") for line in text.splitlines() if " = " in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    slurm, warpdeck = (
        config_values(cluster.run(["scontrol", "show", "config"]).out)
        for cluster in (pair.slurm, pair.warpdeck)
    )
    assert warpdeck.keys() - slurm.keys() == set()
    compared = (
        *("AccountingStorageEnforce", "ClusterName", "DefMemPerCPU", "FirstJobId", "GresTypes", "JobRequeue"),
        *("KillWait", "Licenses", "MpiDefault", "PrivateData", "PriorityType", "Prolog", "SchedulerType"),
        *("SelectType", "SLURM_VERSION", "TaskEpilog", "TaskProlog", "TrackWCKey"),
    )
    assert {name: warpdeck.get(name) for name in compared} == {name: slurm[name] for name in compared}
    assert warpdeck["AccountingStorageType"] == "accounting_storage/slurmdbd", "sacct and sacctmgr work"


def test_a_pending_reason_names_the_unavailable_nodes(pair: Pair) -> None:
    pair.assert_same("scontrol", "update", "nodename=n2", "state=drain", "reason=x")
    for name, argv in (
        ("first", ["-N4"]),
        ("second", ["-w", "n2"]),
        ("third", ["-N2-4", "-p", "debug", "--exclusive"]),
    ):  # slurmctld words the reason of the first job differently.
        for cluster in pair.both:
            assert not cluster.run(["sbatch", "-o", "/dev/null", "-J", name, *argv, "--wrap", "true"]).err

    expected_row = "PENDING ReqNodeNotAvail, UnavailableNodes:n2|(ReqNodeNotAvail, UnavailableNodes:n2)\n"
    for cluster, name in itertools.product(pair.both, ("second", "third")):
        squeue_argv = ["squeue", "-h", "-n", name, "-o", "%T %r|%R"]
        eventually(
            lambda side=cluster, argv=squeue_argv: side.run(argv).out == expected_row,
            what="the job waits for the node",
        )
        node_texts = cluster.run(["scontrol", "show", "job"]).out
        assert "JobState=PENDING Reason=ReqNodeNotAvail,_UnavailableNodes:n2 " in node_texts
    for cluster in pair.both:
        cluster.run(["scancel", "-n", "first,second,third"])
    pair.assert_same("scontrol", "update", "nodename=n2", "state=resume")
