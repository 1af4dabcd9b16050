"""A simulated fleet behind the real controller, for `warpdeck demo`, for `warpdeck simulate`, and for tests
of the whole core.
"""
