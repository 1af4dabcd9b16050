"""#SBATCH lines and the values that sbatch 22.05.8 read from them, measured with `sbatch -vv`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.model import Request
from warpdeck.notation.reading.script import script_options
from warpdeck.notation.request.job_request import parse_request
from warpdeck.notation.values.durations import format_duration

GIB = 2**30
REFUSED = "refused"


def read(line: str) -> Any:
    """Return the request of a script with this line, or REFUSED."""
    text = f"#!/bin/bash\n{line}\ntrue\n"
    try:
        request, _ = parse_request(script_options(text, "job.sh"), {}, now=1000.0)
    except UserError as error:
        assert error.hint, error.message
        return REFUSED
    return msgspec.convert(request, Request)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("90", "1:30:00"),
        ("1:30", "2:00"),
        ("1:30:00", "1:30:00"),
        ("2-0", "2-00:00:00"),
        ("2-12:30", "2-12:30:00"),
        ("2-12:30:15", "2-12:31:00"),
        ("03-00:00:00", "3-00:00:00"),
        ("0-2:0", "2:00:00"),
        ("00-8:00:00", "8:00:00"),
        ("100:00:00", "4-04:00:00"),
        ("24:00", "24:00"),
        ("INFINITE", "UNLIMITED"),
        ("unlimited", "UNLIMITED"),
        ("0", "UNLIMITED"),
        ("-1", "UNLIMITED"),
        ("1-", "1-00:00:00"),
        ('"2-00:00:00"', "2-00:00:00"),
        ("6:0", "6:00"),
        ("12h", REFUSED),
        ("1d", REFUSED),
        ("1:2:3:4", REFUSED),
        ("1.5", REFUSED),
        ("30:00.5", REFUSED),
        ("48:00:00:00", REFUSED),
    ],
)
def test_time_limits_are_read_as_in_sbatch(text: str, limit: str) -> None:
    got = read(f"#SBATCH -t {text}")
    assert (got if got == REFUSED else format_duration(got.time_limit_s)) == limit


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("64G", 65536),
        ("64GB", 65536),
        ("64Gb", 65536),
        ("64g", 65536),
        ("64gb", 65536),
        ("0", 0),
        ("0G", 0),
        ("512000", 512000),
        ("512000M", 512000),
        ("1T", 1024**2),
        ("100K", 1),
        ('"64G"', 65536),
        ("64GiB", REFUSED),
        ("1.5G", REFUSED),
        ("64 G", REFUSED),
        ("64G,", REFUSED),
        ("all", REFUSED),
    ],
)
def test_memory_sizes_are_read_as_in_sbatch(text: str, mib: Any) -> None:
    got = read(f"#SBATCH --mem={text}")
    assert (got if got == REFUSED else (got.resources.mem_per_node_bytes or 0) // 2**20) == mib


@pytest.mark.parametrize(
    ("option", "gpus"),
    [
        ("--gres=gpu", (1, None, "")),
        ("--gres=gpu:1", (1, None, "")),
        ("--gres gpu:2", (2, None, "")),
        ("--gres=gpu:a100:2", (2, None, "a100")),
        ("--gres=gpu:a100", (1, None, "a100")),
        ("--gres=gpu:nvidia_h100_80gb_hbm3_3g.40gb:1", (1, None, "nvidia_h100_80gb_hbm3_3g.40gb")),
        ("--gres=gpu:0", (None, None, "")),
        ("--gres=none", (None, None, "")),
        ("--gpus=a100:2", (None, 2, "a100")),
        ("-G 2", (None, 2, "")),
        ("--gpus-per-node=h100:4", (4, None, "h100")),
        ("--gres=gpu=2", REFUSED),
        ("--gres=gpu:", REFUSED),
        ("--gres=foo:1", REFUSED),
        ("--gres=gpu:2(S:0)", REFUSED),
    ],
)
def test_gpus_are_read_as_in_sbatch(option: str, gpus: Any) -> None:
    got = read(f"#SBATCH {option}")
    if got != REFUSED:
        asked = got.resources.gpus
        got = (asked.per_node, asked.total, asked.type)
    assert got == gpus


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("0-9", (((0, 9, 1),), 0)),
        ("0-9%4", (((0, 9, 1),), 4)),
        ("1,3,5", (((1, 1, 1), (3, 3, 1), (5, 5, 1)), 0)),
        ("0-15:4", (((0, 12, 4),), 0)),
        ("0-15:4%2", (((0, 12, 4),), 2)),
        ("5", (((5, 5, 1),), 0)),
        ("[0-9]", (((0, 9, 1),), 0)),
        ("0-9%0", (((0, 9, 1),), 0)),
        ("4-4", (((4, 4, 1),), 0)),
        ("01-10", (((1, 10, 1),), 0)),
        ("1-1001", (((1, 1001, 1),), 0)),
        ("0-9,20-29%3", (((0, 9, 1), (20, 29, 1)), 3)),
        ("%4", (((0, 0, 1),), 4)),
        ("0-", REFUSED),
        ("9-0", REFUSED),
    ],
)
def test_arrays_are_read_as_in_slurmctld(text: str, array: Any) -> None:
    """sbatch itself accepts the last two, and slurmctld refuses them."""
    got = read(f"#SBATCH --array={text}")
    assert (got if got == REFUSED else (got.array.ranges, got.array.throttle)) == array


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("#SBATCH--ntasks=2", {"tasks": 2}),
        ("#SBATCH\t-n\t3", {"tasks": 3}),
        ("#SBATCH -n=2", REFUSED),
        ("#SBATCH --ntasks =2", REFUSED),
        ("#SBATCH --ntasks= 2", REFUSED),
        ('#SBATCH -J "a b"', {"name": "a b"}),
        ("#SBATCH -J a b", REFUSED),
        ('#SBATCH -J "a#b" # c', {"name": "a#b"}),
        ("#SBATCH -J a#b", {"name": "a"}),
        ('#SBATCH --comment="" -n 4', {"comment": "", "tasks": 4}),
        ("#SBATCH --job-name=$USER-x", {"name": "$USER-x"}),
        ("#SBATCH -J 'it\"s'", {"name": 'it"s'}),
        ('#SBATCH -J "unterminated', REFUSED),
        ("#SBATCH --out=x.out --err=y", {"output": "x.out", "error": "y"}),
        ("#SBATCH --job x", {"name": "x"}),
        ("#SBATCH -p gpu -A acc -n1 -N1", {"partition": "gpu", "account": "acc", "tasks": 1}),
        ("#SBATCH", {}),
        ("#SBATCH # only comment", {}),
        ("#SBATCH :", REFUSED),
        ("#SBATCH –nodes=2", REFUSED),
        ("# SBATCH -n 9", {"tasks": None}),
        ("##SBATCH -n 9", {"tasks": None}),
        (" #SBATCH -n 9", {"tasks": None}),
        ("#sbatch -n 9", {"tasks": None}),
        ("#SLURM -n 9", {"tasks": 9}),
        ("#SBATCH -n 3\n \n\n#SBATCH -N 2", {"tasks": 3, "nodes_min": 2}),
        ("#SBATCH -n 3\nset -e\n#SBATCH -N 2", {"tasks": 3, "nodes_min": 1}),
        ("#SBATCH -n 3\n: <<X\n#SBATCH -N 2", {"tasks": 3, "nodes_min": 1}),
        ("#SBATCH -n 3\n#SBATCH -n 5", {"tasks": 5}),
        ("#SBATCH --exclusive", {"exclusive": True, "share_with": ""}),
        ("#SBATCH --exclusive=user", {"exclusive": False, "share_with": "user"}),
        ("#SBATCH --exclusive=MCS", {"exclusive": False, "share_with": "mcs"}),
        ("#SBATCH --exclusive=mine", REFUSED),
        ("#SBATCH --exclusive=user --exclusive", {"exclusive": True, "share_with": ""}),
        ("#SBATCH --exclusive --oversubscribe", {"exclusive": False, "share_with": "anybody"}),
        ("#SBATCH -s --exclusive=user", {"exclusive": False, "share_with": "user"}),
        ("#SBATCH --exclusive user", REFUSED),
        ("#SBATCH --requeue --no-requeue", {"requeue": False}),
        ("#SBATCH --nodes=1 \\\n#  --ntasks=3", {"nodes_min": 1, "tasks": None}),
        ("#SBATCH -o logs/%x_%j.out", {"output": "logs/%x_%j.out"}),
        ("#SBATCH --mail-type=ALL,TIME_LIMIT_80", {}),
        ("#SBATCH --begin=now+12hours", {"begin_at_unix": 1000.0 + 43_200}),
        ("#SBATCH --nice", {"nice": 100}),
        ("#SBATCH --nice=100", {"nice": 100}),
        ("#SBATCH --export=NONE", {"env": {}}),
        ('#SBATCH --export=ALL,A=1,B="x y"', {"env": {"A": "1", "B": "x y"}}),
        ("#SBATCH -N1-1", {"nodes_min": 1, "nodes_max": 1}),
        ("#SBATCH -N 2-4", {"nodes_min": 2, "nodes_max": 4}),
        ("#SBATCH -N 4k", {"nodes_min": 4096}),
        ("#SBATCH -N 2,4", REFUSED),
        ("#SBATCH -w node[01-03,7]", {"nodelist": ("node01", "node02", "node03", "node7")}),
        ("#SBATCH -x sls-sm-[5]", {"exclude": ("sls-sm-5",)}),
        ("#SBATCH --container-image x/y", {}),
        ("#SBATCH --container-image x/y --container-save=/z", REFUSED),
        ("#SBATCH --hint=nomultithread", {}),
        ("#SBATCH --propagate=MEMLOCK", {}),
        ("#SBATCH -C (a100|h100)&ib", {"constraint": "(a100|h100)&ib"}),
        ("#SBATCH --constraint=[ivb|hsw]", {"constraint": "[ivb|hsw]"}),
        ("#SBATCH -p gpu,long", {"partition": "gpu,long"}),
        ("#SBATCH -L foo:2,bar", {"licenses": (("bar", 1), ("foo", 2))}),
        ("#SBATCH -L foo=2;bar:1", {"licenses": (("bar", 1), ("foo", 2))}),
        ("#SBATCH -L foo@db:2", {"licenses": (("foo@db", 2),)}),
        ("#SBATCH -L foo:0", {"licenses": ()}),
        ("#SBATCH --reservation=hug", {"reservation": "hug"}),
        ("#SBATCH --deadline=now+1hour", {"deadline_unix": 4600.0}),
        ("#SBATCH -t 60 --time-min=10", {"time_limit_s": 3600, "time_min_s": 600}),
        ("#SBATCH --time-min=x", REFUSED),
        ("#SBATCH -t 10 --time-min=60", REFUSED),
        ("#SBATCH -t 60", {"time_limit_s": 3600, "unlimited": False}),
        ("#SBATCH -t UNLIMITED", {"time_limit_s": None, "unlimited": True}),
        ("#SBATCH -t 0 -t 60", {"time_limit_s": 3600, "unlimited": False}),
        ("#SBATCH -n 2", {"time_limit_s": None, "unlimited": False}),
        ("#SBATCH --switches=2", {"max_switches": 2, "switches_wait_s": 300}),
        ("#SBATCH --switches=1@10:00", {"max_switches": 1, "switches_wait_s": 600}),
        ("#SBATCH --switches=0", REFUSED),
        ("#SBATCH --cpus-per-gpu=6", {"cpus_per_gpu": 6}),
        ("#SBATCH --cpus-per-gpu=0", REFUSED),
        ("#SBATCH --kill-on-invalid-dep=yes", {"kill_on_invalid_dep": True}),
        ("#SBATCH --kill-on-invalid-dep=no", {"kill_on_invalid_dep": False}),
        ("#SBATCH --kill-on-invalid-dep=YES", {"kill_on_invalid_dep": True}),
        ("#SBATCH --open-mode=App", {"open_append": True, "open_truncate": False}),
        ("#SBATCH --open-mode=t", {"open_append": False, "open_truncate": True}),
        ("#SBATCH --open-mode=x", REFUSED),
        ("#SBATCH --array=", {"array": None}),
        ("#SBATCH --array=1-3 --array=", {"array": None}),
        ("#SBATCH --dependency=", {"dependencies": None}),
        ("#SBATCH --licenses=", {"licenses": ()}),
        ("#SBATCH --kill-on-invalid-dep=1", REFUSED),
        ("#SBATCH --gpu-bind=closest", {}),
        ("#SBATCH --gpu-bind none", {}),
        ("#SBATCH --gpu-bind=foo", REFUSED),
        ("#SBATCH --threads-per-core=1 --overcommit", {}),
        ("#SBATCH --gres-flags=enforce-binding", {}),
        ("#SBATCH -n 8 --ntasks-per-node=4", {"nodes_min": 2, "nodes_max": 8, "nodes_open": True}),
        ("#SBATCH --gpus=16", {"nodes_min": 1, "nodes_max": 16}),
        ("#SBATCH --gpus=16 -n 4", {"nodes_max": 4, "nodes_open": True}),
        ("#SBATCH -n 64", {"nodes_min": 1, "nodes_max": 64, "nodes_open": True}),
        ("#SBATCH -n 1", {"nodes_max": 1, "nodes_open": True}),
        ("#SBATCH -N 1", {"nodes_max": 1, "nodes_open": False}),
        ("#SBATCH -n 1 --gpus=6 --gpus-per-node=2", {"nodes_min": 3, "nodes_max": 3, "tasks": 3}),
        ("#SBATCH -n 64 -N 2-4", {"nodes_min": 2, "nodes_max": 4, "nodes_open": False}),
        ("#SBATCH -n 3 -N 4", {"nodes_min": 3, "nodes_max": 3}),
        ("#SBATCH -n 3 -N 2-8", {"nodes_min": 2, "nodes_max": 3}),
        ("#SBATCH -w n[1-3]", {"nodes_min": 3, "nodes_max": 3, "nodelist": ("n1", "n2", "n3")}),
        ("#SBATCH -w n1 -N 2", {"nodes_min": 2, "nodes_max": 2, "nodelist": ("n1",)}),
        ("#SBATCH -w n[1-2] -N 1-4", {"nodes_min": 2, "nodes_max": 4}),
        ("#SBATCH -w n[1-2] -N 1", REFUSED),
        ("#SBATCH -w n10,n9,n1 -n 2", {"nodes_min": 2, "nodes_max": 2, "nodelist": ("n1", "n9")}),
        ("#SBATCH -w n[1-2] -n 8", {"nodes_min": 2, "nodes_max": 8, "nodes_open": True}),
        ("#SBATCH --gpus=4 --gpus-per-node=2", {"nodes_min": 2, "nodes_max": 2}),
        ("#SBATCH --gpus=4 --gpus-per-node=2 -N 1", REFUSED),
        ("#SBATCH --gpus=a:4 --gres=gpu:b:2", REFUSED),
        ("#SBATCH --gpus=5 --gpus-per-node=2", REFUSED),
        ("#SBATCH --gpus=4 --gpus-per-task=2", {"tasks": 2}),
        ("#SBATCH --gpus-per-node=4 --gpus-per-task=2 -N 2", {"tasks_per_node": 2, "nodes_min": 2}),
        ("#SBATCH --gpus=16 -N 2", {"nodes_min": 2, "nodes_max": 2}),
    ],
)
def test_options_are_read_as_in_sbatch(line: str, wanted: Any) -> None:
    assert_read(line, wanted)


def assert_read(line: str, wanted: Any) -> None:
    """Assert that the request of a script with this line has these values."""
    got = read(line)
    if wanted == REFUSED or got == REFUSED:
        assert got == wanted
        return
    for name, value in wanted.items():
        holder = got if name in Request.__struct_fields__ else got.resources
        assert getattr(holder, name) == value, name


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("#SBATCH --ntasks=+5", {"tasks": 5}),
        ("#SBATCH --ntasks=5k", REFUSED),
        ("#SBATCH --mem=+5G", {"mem_per_node_bytes": 5 * GIB}),
        ("#SBATCH --mem=5B", REFUSED),
        ("#SBATCH --time=1-:30", REFUSED),
        ("#SBATCH --time=-5", REFUSED),
        ("#SBATCH --nodes=-3", {"nodes_min": 1, "nodes_max": 3}),
        ("#SBATCH --nodes=0-3", REFUSED),
        ("#SBATCH --exclusive=oversubscribe", {"exclusive": False, "share_with": "anybody"}),
        ("#SBATCH --switches=1@10:30", {"max_switches": 1, "switches_wait_s": 630}),
        ("#SBATCH --switches=1@x", {"max_switches": 1, "switches_wait_s": 300}),
        ("#SBATCH --switches=1@-5", {"max_switches": 1, "switches_wait_s": 300}),
        ("#SBATCH --kill-on-invalid-dep=yes --kill-on-invalid-dep=no", {"kill_on_invalid_dep": True}),
        ("#SBATCH --sockets-per-node=0", REFUSED),
        ("#SBATCH '--hint=compute_bound;memory_bound'", {"threads_per_core": 1}),
        ("#SBATCH -m plane", REFUSED),
        (
            "#SBATCH -m plane=2",
            {"step_variables": {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"}},
        ),
        ("#SBATCH --gpu-bind=C", {"step_variables": {"SLURM_GPU_BIND": "closest"}}),
        ("#SBATCH --gpu-bind=single", REFUSED),
        ("#SBATCH -n2 -Hk", {"tasks": 2, "hold": True}),
    ],
)
def test_rare_values_are_read_as_in_slurm(line: str, wanted: Any) -> None:
    assert_read(line, wanted)


def test_b_of_signal_stays_set() -> None:
    warning = read("#SBATCH --signal=B:USR1 --signal=TERM@9").warn
    assert (warning.number, warning.before_s, warning.batch_only) == (15, 9, True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("WINCH", REFUSED),
        ("65546@9", (10, 9, False)),
        ("100", REFUSED),
        ("USR1@120", (10, 120, False)),
        ("B:USR1@120", (10, 120, True)),
        ("SIGUSR1@300", (10, 300, False)),
        ("B:SIGTERM@120", (15, 120, True)),
        ("10@60", (10, 60, False)),
        ("USR1", (10, 60, False)),
        ("usr1@5", (10, 5, False)),
        ("b:USR1", (10, 60, True)),
        ("B:TERM", (15, 60, True)),
        ("R:USR1@60", (10, 60, False)),
        ("BR:USR1@60", (10, 60, True)),
        ("USR1@", (10, 0, False)),
        ("B:USR1@0", (10, 0, True)),
        ("FOO@60", REFUSED),
        ("USR1@70000", REFUSED),
        ("B:R:USR1@9", REFUSED),
        ("@60", REFUSED),
        ("B:", REFUSED),
        ("0@5", REFUSED),
        ("USR1@1:00", REFUSED),
    ],
)
def test_signals_are_read_as_in_sbatch(text: str, wanted: Any) -> None:
    got = read(f"#SBATCH --signal={text}")
    if got != REFUSED:
        got = (got.warn.number, got.warn.before_s, got.warn.batch_only)
    assert got == wanted


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("singleton", [("singleton", 0, None)]),
        ("afterok:123", [("afterok", 123, None)]),
        ("afterok:123:124", [("afterok", 123, None), ("afterok", 124, None)]),
        ("afterok:123,afterany:124", [("afterok", 123, None), ("afterany", 124, None)]),
        ("afterok:123?afterany:124", [("afterok", 123, None), ("afterany", 124, None)]),
        ("afternotok:9", [("afternotok", 9, None)]),
        ("after:5+10", [("after", 5, None)]),
        ("afterok:123_4", [("afterok", 123, 4)]),
        ("afterok: 123", REFUSED),
        ("afterok:", REFUSED),
        ("123", REFUSED),
        ("aftercorr:12", [("aftercorr", 12, None)]),
        ("afterburstbuffer:3", [("afterburstbuffer", 3, None)]),
        ("expand:3", REFUSED),
    ],
)
def test_dependencies_are_read_or_refused(text: str, clauses: Any) -> None:
    """sbatch accepts all of them. Dependencies that are not supported here are refused, not ignored."""
    got = read(f"#SBATCH --dependency={text}")
    if got != REFUSED:
        got = [(clause.kind, clause.job_id, clause.task) for clause in got.dependencies.clauses]
    assert got == clauses
