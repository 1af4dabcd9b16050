"""--json=VERSION: the objects have the keys and types that slurmrestd's specification of the version has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_site import CommandSite

CONFIG = """
[scheduler]
default_partition = "gpu"
[licenses]
matlab = 4
[partitions.gpu]
nodes = "n[1-2]"
max_time = "2:00:00"
[partitions.debug]
nodes = "n1"
"""
FILE = Path(__file__).parents[2] / "data/slurm/data_parser.txt"
VERSIONS = (41, 42, 43, 44, 45)
TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "?": object}


def prepare(site: CommandSite) -> None:
    site.start("-J", "ended", "-N2")
    site.end(1, exit_code=3)
    site.start("-J", "runs", "--gpus=1", "--mem=500", "--comment=c", "-L", "matlab:1")
    for line in (
        "sbatch -J user --exclusive=user -N2 --wrap true",
        "sbatch -J held --hold --array=1-3%2 --time=5 --mail-type=END --wrap true",
        "scontrol create reservation reservationname=r1 starttime=now+3hours duration=60 nodes=n2 users=root "
        "flags=PURGE_COMP=00:05:00",
    ):
        done = site.run(line)
        assert done.code == 0, done.err


def _specified(kind: str, version: int) -> dict[str, str]:
    """Return the paths of an object and their types."""
    found = {}
    for line in FILE.read_text().splitlines():
        if line.startswith(f"{kind} "):
            _, path, name, span = line.split()
            first, last = map(int, span.split("-"))
            if first <= version <= last:
                found[path] = name
    return found


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each value, and the value. An empty list or object is a value."""
    if isinstance(value, dict) and value and value.keys() != {"set", "infinite", "number"}:
        for key, each in value.items():
            yield from _paths(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for each in value:
            yield from _paths(each, f"{path}[]")
    else:
        yield path, value


def _fits(value: Any, name: str) -> bool:
    if name == "number":
        return isinstance(value, int | float) or (isinstance(value, dict) and isinstance(value["set"], bool))
    return isinstance(value, TYPES[name]) and not (name == "integer" and isinstance(value, bool))


def _check(found: dict[str, Any], kind: str, version: int) -> None:
    specified = _specified(kind, version)
    shown = list(_paths(found))
    for path, value in shown:
        if value in ([], {}, None):  # An empty list, or an object that is missing.
            assert any(name.startswith(path) for name in specified), path
            continue
        assert path in specified, path
        assert _fits(value, specified[path]), (path, value)
    tops = {path.replace("[]", "").partition(".")[0] for path in specified}
    assert tops == found.keys()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("command", "key", "kind"),
    [
        ("squeue", "jobs", "job"),
        ("scontrol show job", "jobs", "job"),
        ("scontrol show node", "nodes", "node"),
        ("scontrol show partition", "partitions", "partition"),
        ("scontrol show reservation", "reservations", "reservation"),
        ("scontrol show lic", "licenses", "license"),
        ("sacct -a", "jobs", "accounted_job"),
    ],
)
def test_an_object_has_the_keys_and_types_of_its_version(
    site: CommandSite, command: str, key: str, kind: str, version: int
) -> None:
    done = site.run(f"{command} --json=v0.0.{version}")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["meta"]["plugin"]["data_parser"] == f"data_parser/v0.0.{version}"
    assert document[key]
    for found in document[key]:
        _check(found, kind, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_sinfo_groups_the_nodes_of_each_partition(site: CommandSite, version: int) -> None:
    groups = json.loads(site.run(f"sinfo --json=v0.0.{version}").out)["sinfo"]
    named = [(group["partition"]["name"], group["nodes"]["nodes"]) for group in groups]
    assert named == [("gpu", ["n1", "n2"]), ("debug", ["n1"])]
    for group in groups:
        _check(group["partition"], "partition", version)
        assert group["node"]["state"] == ["MIXED"]
        assert ("user" in group["reason"]) is (version < 45)


def test_a_job_has_its_values(site: CommandSite) -> None:
    jobs = json.loads(site.run("squeue --json=v0.0.45").out)["jobs"]
    ended, runs, user, held = jobs
    assert ended["exit_code"]["return_code"]["number"] == 3 and ended["exit_code"]["status"] == ["ERROR"]
    assert (runs["name"], runs["job_state"], runs["licenses"]) == ("runs", ["RUNNING"], "matlab:1")
    assert runs["job_resources"]["nodes"]["list"] == runs["nodes"] == "n1"
    assert runs["memory_per_node"] == {"set": True, "infinite": False, "number": 500}
    assert user["submit_line"].startswith("sbatch -J user") and not runs["hold"]
    assert user["shared"] == ["user"]
    assert held["hold"] and held["array_task_string"] == "1-3%2" and held["mail_type"] == ["END"]
    assert held["time_limit"]["number"] == 5 and held["array_job_id"]["number"] == held["job_id"]


def test_complex_numbers_are_plain(site: CommandSite) -> None:
    first = json.loads(site.run("squeue --json=v0.0.45+complex").out)["jobs"][1]
    assert first["memory_per_node"] == 500 and first["cores_per_socket"] is None and first["account"] is None


def test_slurm_json_makes_the_document_compact(site: CommandSite) -> None:
    assert "\n" not in site.run("squeue --json", env={"SLURM_JSON": "compact"}).out.strip()


@pytest.mark.parametrize("command", ["squeue", "sinfo", "sacct", "sdiag", "scontrol show node"])
def test_versions_are_listed_and_unknown_ones_are_refused(site: CommandSite, command: str) -> None:
    listed = site.run(f"{command} --json=list")
    assert (listed.code, listed.out.split()[0], listed.out.split()[-1]) == (
        0,
        "data_parser/v0.0.41",
        "data_parser/v0.0.45",
    )
    for wrong in ("v0.0.40", "v0.0.46", "far", "v0.0.45+far"):
        done = site.run(f"{command} --json={wrong}")
        assert (done.code, done.out) == (1, "")
        assert f"unable to find plugin: data_parser/{wrong}" in done.err and "v0.0.41, v0.0.42" in done.err
    assert site.run(f"{command} --yaml=v0.0.43").out.startswith("%YAML 1.1")
    assert json.loads(site.run(f"{command} --json").out)["meta"]["Slurm"]["release"] == "22.05.8"
