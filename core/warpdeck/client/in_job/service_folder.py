"""The folder of a launch's own services on its node: in its TMPDIR, which is its user's alone and goes with it."""

from __future__ import annotations

PLACE = r"""
umask 077
place=$TMPDIR/.warpdeck
fail() {
    echo "$1" >&2
    exit 1
}
mkdir -p -m 700 "$place" 2>/dev/null || fail "the folder $place cannot be made"
"""
"""Begins a script: makes $place, and `fail WORDS`."""
