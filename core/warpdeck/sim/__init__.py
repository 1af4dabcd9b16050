"""A simulated fleet behind the real controller: for `warpdeck demo` and for tests of the whole core."""
