"""sinfo: how nodes are grouped into lines, chosen and sorted, and which arguments are refused."""

from __future__ import annotations

import json
import time

import pytest
from tests.support.command_site import CommandSite, Printed

CONFIG = """
[partitions.gpu]
nodes = "n[1-3]"
max_time = "1-0"
[partitions.debug]
nodes = "n[3-4]"
state = "DOWN"
[scheduler]
default_partition = "gpu"
default_mem_per_cpu = "100M"
[nodes.n1]
features = ["a100"]
weight = 5
[nodes.n4]
features = ["v100"]
"""
NODES = ("n1", "n2", "n3", "n4")
NOW = time.mktime((2026, 1, 5, 10, 0, 0, 0, 0, -1))
HEADER = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"
MIXED = "gpu*         up 1-00:00:00      1    mix n1"
ALLOCATED = "gpu*         up 1-00:00:00      1  alloc n2"
IDLE = "gpu*         up 1-00:00:00      1   idle n3"
DRAINED = "debug      down   infinite      1  drain n4"
IDLE_TOO = "debug      down   infinite      1   idle n3"
NO_GPU = "gpu*         up 1-00:00:00      0    n/a "
NO_DEBUG = "debug      down   infinite      0    n/a "
TABLE = [HEADER, MIXED, ALLOCATED, IDLE, DRAINED, IDLE_TOO]


def prepare(site: CommandSite) -> None:
    """Use one node in part and one in full, and drain another one."""
    site.start("-w", "n1", "-n4", "--gres=gpu:2")
    site.start("-w", "n2", "-n16", "--mem=1G")
    site.run_words(["scontrol", "update", "nodename=n4", "state=drain", "reason=a reason of several words"])


def lines(site: CommandSite, line: str) -> list[str]:
    printed = site.run(line)
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.lines


# ---- Layouts


def test_nodes_of_a_partition_in_the_same_state_are_a_line(site: CommandSite) -> None:
    assert lines(site, "sinfo") == lines(site, "sinfo -r") == TABLE
    assert lines(site, "sinfo -h") == TABLE[1:]


def test_the_long_layout_begins_with_the_time(site: CommandSite) -> None:
    assert lines(site, "sinfo -l")[1:] == [
        "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST",
        "gpu*         up 1-00:00:00 1-infinite   no       NO        all      1       mixed n1",
        "gpu*         up 1-00:00:00 1-infinite   no       NO        all      1   allocated n2",
        "gpu*         up 1-00:00:00 1-infinite   no       NO        all      1        idle n3",
        "debug      down   infinite 1-infinite   no       NO        all      1     drained n4",
        "debug      down   infinite 1-infinite   no       NO        all      1        idle n3",
    ]


def test_each_node_of_each_partition_is_a_line(site: CommandSite) -> None:
    assert lines(site, "sinfo -N") == [
        "NODELIST   NODES PARTITION STATE ",
        "n1             1      gpu* mix   ",
        "n2             1      gpu* alloc ",
        "n3             1      gpu* idle  ",
        "n3             1     debug idle  ",
        "n4             1     debug drain ",
    ]


def test_the_long_lines_of_nodes(site: CommandSite) -> None:
    header, first, *_, last = lines(site, "sinfo -N -l")[1:]
    assert header == (
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              "
    )
    assert first == (
        "n1             1      gpu*       mixed 16     16:1:1  65536        0      5     a100 none                "
    )
    assert last == (
        "n4             1     debug     drained 16     16:1:1  65536        0      1     v100 a reason of several "
    )


def test_a_summary_counts_nodes(site: CommandSite) -> None:
    assert lines(site, "sinfo -s") == [
        "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST",
        "gpu*         up 1-00:00:00          2/1/0/3 n[1-3]",
        "debug      down   infinite          0/1/1/2 n[3-4]",
    ]


def test_reasons(site: CommandSite) -> None:
    assert lines(site, "sinfo -R") == [
        "REASON               USER      TIMESTAMP           NODELIST",
        "a reason of several  root      2026-01-05T10:00:00 n4",
    ]
    assert lines(site, "sinfo -R -l")[1:] == [
        "REASON               USER         TIMESTAMP           STATE  NODELIST",
        "a reason of several  root(0)      2026-01-05T10:00:00 drain  n4",
    ]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("%P|%N", ["gpu*|n[1-3]", "debug|n[3-4]"]),
        ("%P|%t|%D", ["gpu*|mix|1", "gpu*|alloc|1", "gpu*|idle|1", "debug|drain|1", "debug|idle|1"]),
        ("%D|%c|%m", ["4|16|65536"]),
        ("%f|%N", ["a100|n1", "(null)|n[2-3]", "v100|n4"]),
        ("%w|%D", ["1+|4"]),
        ("%F|%A", ["2/1/1/4|2/1"]),
        ("%P|%C", ["gpu*|20/28/0/48", "debug|0/16/16/32"]),
        ("%10P|%.5D|%4R|", ["gpu*      |    3|gpu |", "debug     |    2|debu|"]),
        ("%n|%G", ["n[1-4]|gpu:h100:4"]),
        ("%H|%u|%E", [
            "Unknown|Unknown|none",
            "2026-01-05T10:00:00|root|a reason of several words",
        ]),
    ],
)  # fmt: skip
def test_columns_decide_which_nodes_are_a_line(site: CommandSite, form: str, expected: list[str]) -> None:
    assert sorted(lines(site, f"sinfo -h -o {form}")) == sorted(expected)


def test_columns_by_name(site: CommandSite) -> None:
    assert lines(site, "sinfo -O nodehost:5,cpusstate:.12,gresused:20 -N") == [
        "HOSTNCPUS(A/I/O/TGRES_USED           ",
        "n1      4/12/0/16gpu:h100:2(IDX:0-1) ",
        "n2      16/0/0/16gpu:h100:0(IDX:N/A) ",
        "n3      0/16/0/16gpu:h100:0(IDX:N/A) ",
        "n3      0/16/0/16gpu:h100:0(IDX:N/A) ",
        "n4      0/0/16/16gpu:h100:0(IDX:N/A) ",
    ]


def test_json_has_every_node(site: CommandSite) -> None:
    nodes = json.loads(site.run("sinfo --json").out)["nodes"]
    assert [(node["name"], node["state"], node["state_flags"]) for node in nodes] == [
        ("n1", "mixed", []),
        ("n2", "allocated", []),
        ("n3", "idle", []),
        ("n4", "idle", ["DRAIN"]),
    ]
    assert (nodes[0]["alloc_cpus"], nodes[0]["idle_cpus"], nodes[0]["weight"]) == (4, 12, 5)


# ---- Choosing and sorting


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("-p gpu", [HEADER, MIXED, ALLOCATED, IDLE]),
        ("-p debug,gpu", TABLE),
        ("-p nosuch", [HEADER]),
        ("-n n1,n4", [HEADER, MIXED, DRAINED]),
        ("-n nosuch", [HEADER, NO_GPU, NO_DEBUG]),
        ("-t alloc,mix", [HEADER, MIXED, ALLOCATED, NO_DEBUG]),
        ("-t ALLOCATED -p gpu", [HEADER, MIXED, ALLOCATED]),
        ("-t idle", [HEADER, IDLE, DRAINED, IDLE_TOO]),
        ("-t drain", [HEADER, NO_GPU, DRAINED]),
        ("-t mix&drain", [HEADER, NO_GPU, NO_DEBUG]),
        ("-t idle&drain", [HEADER, NO_GPU, DRAINED]),
        ("-d", [HEADER, NO_GPU, NO_DEBUG]),
        ("-S -P", [HEADER, MIXED, ALLOCATED, IDLE, IDLE_TOO, DRAINED]),
        ("-S P,-t", [HEADER, DRAINED, IDLE_TOO, MIXED, ALLOCATED, IDLE]),
        ("-S N", [HEADER, MIXED, ALLOCATED, IDLE, IDLE_TOO, DRAINED]),
        ("-S -N", [HEADER, DRAINED, IDLE, IDLE_TOO, ALLOCATED, MIXED]),
        ("-S -D,N", [HEADER, MIXED, ALLOCATED, IDLE, IDLE_TOO, DRAINED]),
    ],
)
def test_lines_are_chosen_and_sorted(site: CommandSite, given: str, expected: list[str]) -> None:
    assert lines(site, f"sinfo {given}") == expected


def test_no_lines_for_partitions_without_such_nodes_if_each_node_is_a_line(site: CommandSite) -> None:
    assert lines(site, "sinfo -h -N -t mix -o %N") == ["n1"]
    assert lines(site, "sinfo -h -N -t down -o %N") == []


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"SINFO_FORMAT": "%P %N"}, ["PARTITION NODELIST", "gpu* n[1-3]", "debug n[3-4]"]),
        ({"SINFO_PARTITION": "debug"}, [HEADER, DRAINED, IDLE_TOO]),
        ({"SINFO_SORT": "-N", "SINFO_PARTITION": "gpu"}, [HEADER, IDLE, ALLOCATED, MIXED]),
    ],
)
def test_the_environment_holds_defaults(site: CommandSite, env: dict[str, str], expected: list[str]) -> None:
    assert site.run("sinfo", env=env).lines == expected


def test_the_name_of_the_cluster_precedes_its_table(site: CommandSite) -> None:
    assert lines(site, "sinfo -M warpdeck") == ["CLUSTER: warpdeck", *TABLE]


# ---- Messages


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "-t zz",
            'sinfo: error: Bad state string: "zz"\n'
            "sinfo: error: valid states: unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,"
            "reserved,perfctrs,cloud,completing,powering_down,powered_down,power_down,powering_up,fail,maint,reboot,"
            "reboot^,unknown\n",
        ),
        ("-i 0", "sinfo: error: Error: invalid entry for --iterate=0\n"),
        ("-o", "sinfo: option requires an argument -- 'o'\nTry \"sinfo --help\" for more information\n"),
        (
            "--nosuch",
            "sinfo: unrecognized option '--nosuch'\nTry \"sinfo --help\" for more information\n",
        ),
        (
            "-M other",
            "sinfo: error: No cluster 'other' known by database.\n"
            "sinfo: error: 'other' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters.\n",
        ),
    ],
)
def test_wrong_arguments_get_slurms_message(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"sinfo {given}") == Printed(1, "", message)


def test_an_unknown_column_is_printed_as_it_is(site: CommandSite) -> None:
    assert site.run("sinfo -h -o %q") == Printed(0, "%q\n", "Invalid node format specification: q\n")
    assert site.run("sinfo -h -O zz").err == "sinfo: error: Invalid job format specification: zz\n"
