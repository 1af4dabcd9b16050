"""The folder for a launch's own services on its node.

It is in the TMPDIR of the launch, which only its user can access and which is removed with it.
"""

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
"""Beginning of a script. It creates the folder $place and defines `fail MESSAGE`."""
