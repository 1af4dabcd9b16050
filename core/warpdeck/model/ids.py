"""Distinct types for the identifiers of jobs, nodes and GPUs."""

from typing import NewType

JobId = NewType("JobId", int)
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
