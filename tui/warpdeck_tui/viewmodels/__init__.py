"""View models: pure functions that turn the controller's rows into immutable data for the widgets."""

from .cells import Cell, Line

__all__ = ["Cell", "Line"]
