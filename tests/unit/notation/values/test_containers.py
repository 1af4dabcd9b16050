"""The --container-* options: the `model.Container` that they make, and their errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from warpdeck.base.errors import UserError
from warpdeck.client.submission import command_options
from warpdeck.model import Container
from warpdeck.notation.request.job_request import build_request
from warpdeck.notation.step import srun_help
from warpdeck.notation.values.containers import OPTIONS
from warpdeck.slurm.interactive import salloc
from warpdeck.slurm.submit import sbatch


def container(*words: str) -> Container | None:
    request, _ = build_request(command_options(words, {}, now=0.0), {})
    found: Any = request.get("container")
    return None if found is None else msgspec.convert(found, Container)


def test_a_job_without_container_options_has_no_container() -> None:
    assert container("--ntasks=1") is None


def test_all_options_of_pyxis_are_read() -> None:
    made = container(
        "--container-image=nvcr.io#nvidia/pytorch:24.01-py3",
        "--container-mounts=/data:/in:ro+rprivate,./sub:/sub",
        "--container-mounts=/scratch",
        "--container-workdir=/in",
        "--container-name=mine:auto",
        "--container-env=PATH,LANG",
        "--container-mount-home",
        "--container-remap-root",
        "--container-entrypoint",
        "--container-readonly",
    )
    assert made is not None
    mounts = [(each.source, each.target, each.flags) for each in made.mounts]
    assert mounts == [
        ("/data", "/in", ("ro", "rprivate")),
        ("./sub", "/sub", ()),
        ("/scratch", "/scratch", ()),
    ]
    assert (made.image, made.workdir, made.name) == ("nvcr.io#nvidia/pytorch:24.01-py3", "/in", "mine")
    assert made.env == ("PATH", "LANG") and made.mount_home and made.remap_root and made.entrypoint
    assert not made.writable


def test_the_last_of_two_opposite_options_counts() -> None:
    made = container("--container-image=a", "--container-mount-home", "--no-container-mount-home")
    assert made is not None and not made.mount_home
    made = container("--container-image=a", "--container-readonly", "--container-writable")
    assert made is not None and made.writable


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "docker://a/b:1",
        "dockerd://x",
        "podman://localhost/x",
        "/a.sqsh",
        "./a.sif",
        "h:5000#a/b",
        "u@r#a:1",
    ],
)
def test_images_of_every_kind_are_accepted(image: str) -> None:
    made = container(f"--container-image={image}")
    assert made is not None and made.image == image


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--container-image=a b"], "--container-image=a b is not an image"),
        (["--container-image=-v/:/host"], "is not an image"),
        (["--container-image="], "is not an image"),
        (["--container-image=a", "--container-mounts=/a:b"], "'/a:b' is not a mount"),
        (["--container-image=a", "--container-mounts=rel"], "'rel' is not a mount"),
        (["--container-image=a", "--container-mounts=/a:/b:exec"], "unknown flag 'exec'"),
        (["--container-image=a", "--container-mounts=" + ",".join(["/a"] * 65)], "more than 64 mounts"),
        (["--container-image=a", "--container-workdir=x"], "is not an absolute path"),
        (["--container-image=a", "--container-env=A,1B"], "'1B' is not a variable name"),
        (["--container-name=../x"], "is not a container name"),
        (["--container-name=x:exec"], "'exec' is not supported"),
        (["--container-mount-home"], "the container has no image"),
        (["--container-image=a", "--container-save=/x"], "--container-save is not supported"),
    ],
)
def test_invalid_containers_are_refused_with_one_message(words: list[str], message: str) -> None:
    with pytest.raises(UserError) as refused:
        container(*words)
    assert message in refused.value.message and refused.value.hint


@pytest.mark.parametrize(
    "told", [srun_help.HELP, sbatch.USAGE, salloc.HELP], ids=["srun", "sbatch", "salloc"]
)
def test_help_texts_mark_every_option_as_pyxis_does(told: str) -> None:
    for option in OPTIONS:
        assert option in told or f"[no-]{option.removeprefix('no-')}" in told, option
    assert told.count("[pyxis]") == told.count("--container-") + told.count("--[no-]container-")
