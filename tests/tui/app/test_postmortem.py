"""The cause of a job's failure in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.app.app_pilot import run_app
from tests.tui.app.test_viewmodels import NOW, details, ended, words

from warpdeck.protocol.job_rows import GpuUse, JobDetail, StepRow, UsageRow
from warpdeck_tui.viewmodels.jobs.postmortem import LAST_LINES, post_mortem

GIB = 2**30
TRACEBACK = b"""step 1
Traceback (most recent call last):
  File "train.py", line 1, in <module>
    raise ValueError("shape")
ValueError: bad shape (3, 4)
wandb: Run finished
"""


def detail(**fields: object) -> JobDetail:
    return JobDetail(row=ended(**fields))  # type: ignore[arg-type]


def test_gpu_out_of_memory_is_shown_with_the_memory_used() -> None:
    gpu = GpuUse(node="gpu01", index=0, uuid="u", mem_bytes=80 * GIB)
    used = UsageRow(gpu_mem_peak_bytes=round(79.6 * GIB))
    job = JobDetail(row=ended(used=used), gpus=[gpu])
    tail = b"\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    assert post_mortem(job, tail).words == ("GPU out of memory at 79.6G of 80G: Tried to allocate 2.50 GiB.")


def test_the_memory_limit_takes_precedence_over_the_log() -> None:
    used = UsageRow(peak_mem_bytes=round(63.9 * GIB))
    job = detail(state="OUT_OF_MEMORY", exit_cause="oom", used=used, mem_bytes=64 * GIB)
    assert post_mortem(job, TRACEBACK).words == "out of memory at 63.9G of 64G; request more with --mem"


@pytest.mark.parametrize(
    ("fields", "tail", "cause"),
    [
        ({}, TRACEBACK, "ValueError: bad shape (3, 4)"),
        ({}, b"a\nn0: NCCL WARN Call to connect failed\n", "n0: NCCL WARN Call to connect failed"),
        ({}, b"loss 1.0\rloss nan\nbye\n", "loss nan"),
        ({}, b"loss nan\rloss 1.0\nbye\n", ""),
        ({"exit_code": "137:0"}, b"bye\n", "killed by SIGKILL: sent by kill -9, or by the kernel when out of memory"),
        ({"exit_code": "0:11"}, b"", "killed by SIGSEGV: a crash in native code"),
        ({"exit_code": "3:0"}, b"", ""),
        ({}, b"FileNotFoundError: [Errno 2] No such file or directory: '/d/a.bin'\n", "No such file or directory: '/d/a.bin'"),
        ({}, b"RuntimeError: CUDA error: out of memory\n", "GPU out of memory"),
        ({}, b"[rank3]: OutOfMemoryError: CUDA out of memory. Tried to get 2 GiB\n", "GPU out of memory: Tried to get 2 GiB"),
        ({"state": "TIMEOUT", "time_limit_s": 3600}, TRACEBACK, "reached its time limit of 1:00:00; request more with --time"),
        ({"state": "NODE_FAIL"}, b"", "lost connection to gpu01"),
        ({"state": "COMPLETED"}, TRACEBACK, ""),
        ({"state": "CANCELLED"}, TRACEBACK, ""),
    ],
)  # fmt: skip
def test_the_cause_is_found_in_exit_status_and_log(
    fields: dict[str, object], tail: bytes, cause: str
) -> None:
    assert post_mortem(detail(**fields), tail).words == cause


def test_the_last_lines_are_few_and_without_control_characters() -> None:
    tail = b"".join(b"line %d\n" % number for number in range(50)) + b"\x1b]52;c;eA==\x07end\x00\n"
    lines = post_mortem(detail(), tail).lines
    assert len(lines) == LAST_LINES and lines[0] == "line 43"
    assert lines[-1].startswith("end") and all(line.isprintable() for line in lines)


def test_the_details_list_steps_with_their_usage() -> None:
    step = StepRow(
        id="1.0", name="train", state="FAILED", start=NOW - 90, end=NOW, exit_code="2:0", gpus=8, tasks=8
    )
    step.node_list, step.used = "gpu01", UsageRow(gpu_util_pct=91.0)
    shown = "\n".join(words(line) for line in details(JobDetail(row=ended(), steps=[step])))
    assert "1.0          ✗ FAILED  exit 2  1:30  train  8 tasks, 8 GPUs on gpu01  GPUs at 91 %" in shown


async def test_a_failed_jobs_page_shows_the_cause_and_the_last_lines(folder: Path) -> None:
    async with run_app(folder, size=(110, 40)) as ui:
        ui.cluster.ends["short"] = (1.0, 1)
        await ui.cluster.submit("short")
        await ui.shows("✗ F")
        await ui.press("4", "enter")
        await ui.shows(
            "exit 1 on gpu01", "GPU out of memory at ", "torch.OutOfMemoryError: CUDA out of memory"
        )
        await ui.press("d")
        await ui.shows("Why it failed", "cause GPU out of memory", "last lines", "loss.backward()")
