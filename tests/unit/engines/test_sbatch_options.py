"""The table of sbatch's options covers all fields of a request, and passes any text on unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.submitting.sbatch_options import (
    ELSEWHERE,
    REFUSED,
    ROWS,
    options_of,
    submission_arguments,
)
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import NodeMinimum, Request, Resources
from warpdeck.model.request import Container, ContainerMount, GpuRequest

OLD, NEW = Version(20, 11, 4), Version(26, 5, 0)
NESTED = {"resources", "gpus", "node_minimum"}
TEXTS = ("name", "comment", "partition", "account", "qos", "reservation", "output", "error", "input", "chdir")


def fields_of(kind: type[msgspec.Struct], prefix: str = "") -> set[str]:
    return {prefix + name for name in kind.__struct_fields__ if name not in NESTED}


def test_each_field_of_a_request_reaches_slurm_or_is_refused() -> None:
    known = {name for row in ROWS for name in row.fields} | {each.field for each in REFUSED}
    known |= {name.removeprefix("resources.") for name in ELSEWHERE}
    fields = (
        fields_of(Request)
        | fields_of(Resources)
        | fields_of(GpuRequest, "gpus.")
        | fields_of(NodeMinimum, "node_minimum.")
    )
    assert fields - known == set()
    assert known - fields == set()


def test_no_option_is_written_twice() -> None:
    assert len({row.option for row in ROWS}) == len(ROWS)


def test_a_plain_request_has_only_the_options_that_slurm_would_choose_differently() -> None:
    assert options_of(Request(), NEW) == ["--job-name=job", "--nodes=1"]


@given(st.dictionaries(st.sampled_from(TEXTS), st.text(st.characters(exclude_characters="\0"), max_size=99)))
def test_texts_are_passed_on_unchanged_in_one_word(texts: dict[str, str]) -> None:
    found = options_of(Request(**texts), NEW)  # type: ignore[arg-type]
    words = {word.partition("=")[0].removeprefix("--"): word.partition("=")[2] for word in found}
    assert all(word.startswith("--") for word in found)
    for name, text in texts.items():
        assert words.get({"name": "job-name"}.get(name, name), "") == text


@pytest.mark.parametrize(
    ("request_fields", "reason"),
    [
        ({"resources": Resources(gpus=GpuRequest(share_pct=50))}, "percentage of a GPU"),
        ({"admin_comment": "x"}, "admin comment"),
        ({"requeue_at_limit": True}, "at its time limit"),
        ({"name": "a\0b"}, "NUL"),
    ],
)
def test_what_slurm_cannot_express_is_refused(request_fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        options_of(Request(**request_fields), NEW)


def test_an_option_of_newer_versions_is_refused_by_name() -> None:
    request = Request(resources=Resources(prefer="fast"))
    with pytest.raises(UserError, match=r"Slurm 20\.11\.4 has no --prefer"):
        options_of(request, OLD)
    assert "--prefer=fast" in options_of(request, NEW)
    shards = Request(resources=Resources(gpus=GpuRequest(shards=3)))
    assert "--gres=shard:3" in options_of(shards, NEW)


def test_containers_have_the_options_of_pyxis() -> None:
    mount = ContainerMount(source="/a", target="/b", flags=("ro", "rprivate"))
    container = Container(image="ubuntu", mounts=(mount,), env=("A", "B"), writable=False)
    found = options_of(Request(container=container), NEW)
    assert found[-4:] == [
        "--container-image=ubuntu",
        "--container-mounts=/a:/b:ro+rprivate",
        "--container-env=A,B",
        "--container-readonly",
    ]


def test_components_are_separated_and_the_script_comes_last() -> None:
    found = submission_arguments([Request(name=":"), Request(name="b")], NEW, "/x/run")
    assert found == ["--job-name=:", "--nodes=1", ":", "--job-name=b", "--nodes=1", "/x/run"]
