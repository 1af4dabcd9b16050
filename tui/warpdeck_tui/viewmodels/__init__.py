"""From the controller's rows to what the widgets draw: frozen data made by pure functions."""

from .cells import Cell, Line

__all__ = ["Cell", "Line"]
