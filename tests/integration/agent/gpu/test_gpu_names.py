"""The names of a job's GPUs in CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import pytest

from warpdeck_agent.gpu.gpu_names import names_of, with_gpu_names
from warpdeck_agent.wire.messages import GpuInfo

UUIDS = ("GPU-c", "GPU-a", "GPU-d", "GPU-b")
"""In the order of the GPUs' indices, which differs from the alphabetical order."""


def found(*cut: str) -> list[GpuInfo]:
    return [
        GpuInfo(index=index, uuid=uuid, name="x", mem_bytes=1, isolation="mig" if uuid in cut else "")
        for index, uuid in enumerate(UUIDS)
    ]


@pytest.mark.parametrize(
    ("own", "alone", "names"),
    [
        (["GPU-a", "GPU-b"], False, ["1", "3"]),
        (["GPU-a", "GPU-b"], True, ["0", "1"]),
        (["GPU-b", "GPU-a"], True, ["1", "0"]),
        ([*UUIDS], True, ["0", "1", "2", "3"]),
        ([], True, []),
    ],
)
def test_indices_count_the_gpus_that_the_job_can_open(own: list[str], alone: bool, names: list[str]) -> None:
    assert names_of(own, found(), how="index", alone=alone) == dict(zip(own, names, strict=True))


def test_uuids_are_used_on_request_or_if_indices_would_be_wrong() -> None:
    own = ["GPU-a"]
    assert names_of(own, found(), how="uuid", alone=True) == {}
    assert names_of(own, found("GPU-a"), how="index", alone=True) == {}, "MIG instances"
    assert names_of(own, found("GPU-b"), how="index", alone=False) == {}, (
        "the index would count instances of another GPU"
    )
    assert names_of(own, found("GPU-b"), how="index", alone=True) == {"GPU-a": "0"}
    assert names_of(["GPU-x"], found(), how="index", alone=False) == {}


def test_gpus_of_a_step_have_the_names_of_its_job() -> None:
    names = {"GPU-a": "0", "GPU-b": "1"}
    env = {"CUDA_VISIBLE_DEVICES": "GPU-b", "GPU_DEVICE_ORDINAL": "3", "SLURM_STEP_GPUS": "3"}
    assert with_gpu_names(env, names) == {**env, "CUDA_VISIBLE_DEVICES": "1", "GPU_DEVICE_ORDINAL": "1"}
    assert with_gpu_names({"CUDA_VISIBLE_DEVICES": ""}, names) == {"CUDA_VISIBLE_DEVICES": ""}
