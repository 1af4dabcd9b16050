"""Consistency rules between the tables."""

from __future__ import annotations

import pytest

from warpdeck.config import ConfigError, decode


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        decode(text, "f")
    return [problem.sentence("f") for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[health]\nignore = ["xid"]\nrequeue_on = ["heat"]\n',
            "f:3: health.requeue_on: there is no check 'heat'; there are: xid, ecc, row_remap, gpu_lost, thermal",
        ),
        (
            '[containment]\nprivate_dirs = ["/tmp", "scratch"]\n',
            "f:2: containment.private_dirs: 'scratch' is not an absolute path such as /tmp",
        ),
        (
            '[containment]\nprivate_dirs = ["/usr"]\n',
            "f:2: containment.private_dirs: /usr cannot be private: jobs need the node's own /usr",
        ),
        (
            '[containment]\nprivate_dirs = ["/tmp", "/tmp/a"]\n',
            "f:2: containment.private_dirs: /tmp/a is inside /tmp, which is already private",
        ),
        (
            '[containment]\nshared_dirs = ["/tmp/.."]\n',
            "f:2: containment.shared_dirs: '/tmp/..' is not an absolute path such as /tmp",
        ),
        ("metrics_port = 70000\n", "f:1: metrics_port: is not a port; use a number up to 65535"),
        (
            '[health]\nprogram = "check.sh"\n',
            "f:2: health.program: is not an absolute path: write its path on the nodes",
        ),
        (
            '[scheduler]\ndefault_partition = "cpu"\n[partitions.gpu]\n',
            "f:2: scheduler.default_partition: there is no partition 'cpu'; there are: gpu",
        ),
        (
            '[partitions.gpu]\nallow_qos = ["high"]\n',
            "f:2: partitions.gpu.allow_qos: there is no QoS 'high'; there are: none",
        ),
        (
            '[partitions.gpu]\ndeny_accounts = ["x"]\n[accounts.y.users.u]\n',
            "f:2: partitions.gpu.deny_accounts: there is no account 'x'; there are: y",
        ),
        (
            '[partitions.gpu]\nqos = "part"\n',
            "f:2: partitions.gpu.qos: there is no QoS 'part'; there are: none",
        ),
        (
            '[partitions.gpu]\nmax_time = "1:00:00"\ndefault_time = "2:00:00"\n',
            "f:3: partitions.gpu.default_time: is longer than max_time",
        ),
        (
            "[partitions.gpu]\nmin_nodes = 3\nmax_nodes = 2\n",
            "f:2: partitions.gpu.min_nodes: is more than max_nodes",
        ),
        (
            '[qos.a]\npreempts = ["b"]\n[qos.b]\npreempts = ["c"]\n[qos.c]\npreempts = ["a"]\n',
            "f:2: qos.a.preempts: is circular: a -> b -> c -> a",
        ),
        ('[qos.a]\npreempts = ["a"]\n', "f:2: qos.a.preempts: is circular: a -> a"),
        (
            '[accounts.a]\nparent = "b"\n',
            "f:2: accounts.a.parent: there is no account 'b'; there are: a",
        ),
        (
            '[accounts.a]\nparent = "b"\n[accounts.b]\nparent = "a"\n',
            "f:2: accounts.a.parent: is circular: a -> b -> a",
        ),
        (
            '[accounts.a]\nqos = ["x"]\ndefault_qos = "y"\n[qos.x]\n[qos.y]\n',
            "f:3: accounts.a.default_qos: 'y' is not in qos",
        ),
        (
            "[accounts.a.users]\nann = { default = true }\n[accounts.b.users]\nann.default = true\n",
            "f:4: accounts.b.users.ann.default: account a is already this user's default",
        ),
        (
            '[qos.a]\nmax_tres_per_job = "license/x=1"\n',
            "f:2: qos.a.max_tres_per_job: there is no license 'x'; there are: none",
        ),
        (
            '[nodes."n[1-3]"]\nswitch = "s1"\n[nodes.n2]\nswitch = "s2"\n',
            "f:4: nodes.n2.switch: conflicts with nodes.'n[1-3]', which sets 's1' for n2",
        ),
        ('[nodes."n[1-"]\n', "f:1: nodes.\"n[1-\": 'n[1-' is not a hostlist"),
        (
            '[scheduler]\nreservation_holds = "start"\nreservations = 3\n',
            'f:2: scheduler.reservation_holds: "start" works only with backfill = "easy"',
        ),
        (
            '[reservations.r]\nusers = ["u"]\nflags = ["MAGNETIC", "SPEC"]\n',
            "f:3: reservations.r.flags: unknown reservation flag; known flags: MAINT",
        ),
        (
            '[reservations.r]\nusers = ["u"]\nflags = ["PURGE_COMP=5"]\n',
            "f:3: reservations.r.flags: PURGE_COMP is only for reservations created with",
        ),
        (
            '[reservations.r]\nusers = ["u"]\nrepeat = "daily"\nflags = ["WEEKLY"]\n',
            "f:4: reservations.r.flags: WEEKLY conflicts with repeat = 'daily'; keep one of them",
        ),
        (
            '[reservations.r]\nusers = ["u"]\nflags = ["WEEKLY"]\n',
            "f:1: reservations.r.repeat: needs a start and a duration",
        ),
        ("[reservations.r]\n", "f:1: reservations.r: has no users or accounts; add some"),
        (
            '[reservations.r]\nusers = ["u"]\nduration = "60"\n',
            "f:3: reservations.r.duration: needs a start",
        ),
        (
            '[reservations.r]\nusers = ["u"]\nstart = 2027-01-02T00:00:00Z\nend = 2027-01-01T00:00:00Z\n',
            "f:4: reservations.r.end: is not after start",
        ),
        ('[partitions."a b"]\n', 'f:1: partitions."a b": names must not contain spaces'),
    ],
)
def test_a_contradiction_is_reported_with_line_and_key(text: str, sentence: str) -> None:
    (found,) = errors(text)
    assert found.startswith(sentence)


def test_overlapping_node_tables_may_set_equal_values() -> None:
    text = '[nodes."n[1-3]"]\nswitch = "s1"\n[nodes.n2]\nswitch = "s1"\nweight = 3\n'
    assert decode(text, "f").warnings == ()


@pytest.mark.parametrize("table", ["accounts.lab", "accounts.lab.users.ann"])
def test_a_qos_only_limit_is_refused_in_an_account(table: str) -> None:
    assert errors(f"[{table}]\nmax_jobs_per_account = 3\n") == [
        f"f:2: {table}.max_jobs_per_account: is a QoS limit; for accounts use grp_jobs"
    ]
    assert decode(f"[{table}]\nmax_jobs_per_user = 3\n", "f").config.accounts


def test_a_deep_account_tree_is_not_circular() -> None:
    text = "[accounts.a0]\n" + "".join(
        f'[accounts.a{n}]\nparent = "a{n - 1}"\nusers.u = {{}}\n' for n in range(1, 2000)
    )
    assert len(decode(text, "f").config.accounts) == 2000


def test_the_check_for_circular_preemption_visits_each_qos_once() -> None:
    below = [", ".join(f'"q{m}"' for m in range(n)) for n in range(40)]
    text = "".join(f"[qos.q{n}]\npreempts = [{names}]\n" for n, names in enumerate(below))
    assert len(decode(text, "f").config.qos) == 40


def test_doubtful_settings_are_warnings() -> None:
    text = '[nodes.n1]\n[partitions.a]\nnodes = "n[1-2]"\n[partitions.b]\n[accounts.lonely]\n'
    assert [problem.sentence("f") for problem in decode(text, "f").warnings] == [
        "f: scheduler.default_partition: is not set: each job must name its partition",
        "f:3: partitions.a.nodes: no [nodes] table contains n2",
        "f:5: accounts.lonely: has no users and no subaccounts",
    ]
