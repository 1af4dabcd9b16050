"""Identifiers with types of their own."""

from typing import NewType

JobId = NewType("JobId", int)
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
