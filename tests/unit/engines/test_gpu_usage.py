"""Readings of the GPUs of running jobs: which card is which GPU of Slurm, and what sstat tells."""

from __future__ import annotations

from warpdeck.engines.slurm.gpus.readings import sampled
from warpdeck.engines.slurm.reading.usage_table import GpuNow, gpu_now
from warpdeck_agent.wire import messages as wire

GIB = 1 << 30


def line(*minors: int) -> wire.JobSample:
    """Return a line about cards with these minor numbers, each with its minor number as utilization."""
    cards = [
        wire.GpuInfo(index=at, uuid=f"GPU-{minor}", name="a100", mem_bytes=80 * GIB, minor=minor)
        for at, minor in enumerate(minors)
    ]
    gpus = [wire.GpuSample(index=at, util_pct=minor, mem_used_bytes=GIB) for at, minor in enumerate(minors)]
    return wire.JobSample(node="n1", at_unix=5.0, cards=cards, gpus=gpus)


def utils(sample: wire.JobSample, *gpus: int) -> dict[int, int | None]:
    return {reading.index: reading.util_pct for reading in sampled(sample, gpus)}


def test_cards_of_other_jobs_are_left_out() -> None:
    assert utils(line(0, 1, 2, 3), 1, 2) == {1: 1, 2: 2}
    (reading,) = sampled(line(0, 1), [1])
    assert (reading.source, reading.mem_bytes, reading.mem_used_bytes) == ("sampler", 80 * GIB, GIB)


def test_cards_that_slurm_has_numbered_anew_keep_their_order() -> None:
    assert utils(line(3, 2), 2, 3) == {2: 2, 3: 3}
    assert utils(line(0, 1), 4, 6) == {4: 0, 6: 1}


def test_a_driver_that_tells_nothing_gives_no_readings() -> None:
    assert utils(line(), 0, 1) == {}
    assert utils(line(0, 1, 2), -1) == {}
    broken = wire.JobSample(node="n1", at_unix=5.0, cards=line(0).cards)
    assert utils(broken, 0) == {}


def test_sstat_tells_the_sum_over_all_processes_and_gpus() -> None:
    batch = "4.batch|cpu=00:00:00,energy=0,fs/disk=35230,mem=12212K,pages=0,vmem=222212K|\n"
    assert gpu_now("") is None and gpu_now(batch) is None
    step = "4.{}|cpu=00:00:07,gres/gpumem={},gres/gpuutil={},mem=1G|\n"
    assert gpu_now(batch + step.format(0, "2048M", 150)) == GpuNow(150, 2 * GIB)
    assert gpu_now(step.format(0, "1G", 90) + step.format(1, "0", 5)) == GpuNow(95, GIB)
