"""The page about Prometheus and the health checks."""

from __future__ import annotations

from warpdeck.controller.presenters.loop_counters import LoopCounters
from warpdeck.controller.presenters.prometheus_gauges import GPU_METRICS, NODE_METRICS, GaugeCollector
from warpdeck.controller.state.state import State
from warpdeck.model.health import CHECKS, CLEARING

from .markdown import cell, code, page, sentence, table


def monitoring_page() -> str:
    """Return the page of the metrics and the health checks."""
    gpu = [[code(name), cell(sentence(words))] for name, words, _ in GPU_METRICS]
    node = [[code(name), cell(sentence(words))] for name, words, _ in NODE_METRICS]
    families = GaugeCollector(State(), LoopCounters(), clients=0).collect()
    others = [
        [code(family.name + "_total" * (family.type == "counter")), cell(sentence(family.documentation))]
        for family in families
    ]
    checks = [
        [
            code(name),
            cell(sentence(words)),
            "when the check succeeds again"
            if name in CLEARING
            else "when an administrator resumes the GPU or node",
        ]
        for name, words in CHECKS.items()
    ]
    return page(
        "Metrics and health checks",
        "## Metrics of each GPU\n",
        "The labels are `gpu`, `UUID`, `device`, `modelName`, `Hostname` and `hpc_job`, as in NVIDIA's DCGM exporter.\n",
        table(["Metric", "Meaning"], gpu),
        "## Metrics of each node\n",
        table(["Metric", "Meaning"], node),
        "## Metrics of jobs and of the controller\n",
        "`warpdeck_jobs` has the labels `state` and `partition`.\n",
        table(["Metric", "Meaning"], others),
        "## Health checks\n",
        table(["Check", "What it looks at", "The drain ends"], checks),
    )
