"""Proofs that a text comes from a controller of this site.

Agents store texts of the controller and return them later. A compromised node must not be able to invent one, for
example another controller that would fence this one. Each of these texts therefore carries a seal: a keyed hash
with the site's secret, which only the controller's database contains.
"""

from __future__ import annotations

import hmac


class SiteSeal:
    """Makes and verifies seals. Without a secret, as in a simulation, nothing can be verified."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    @property
    def has_secret(self) -> bool:
        return bool(self._secret)

    def sign(self, *parts: object) -> str:
        """Return the seal of these values, or "" without a secret."""
        if not self._secret:
            return ""
        text = "\0".join(str(part) for part in parts)
        return hmac.new(self._secret, text.encode("utf-8", "surrogateescape"), "sha256").hexdigest()

    def is_valid(self, seal: str, *parts: object, chars: int | None = None) -> bool:
        """Return whether a controller of this site has made the seal of these values, or its first characters."""
        made = self.sign(*parts)[:chars]
        return bool(made) and hmac.compare_digest(seal.encode("utf-8", "replace"), made.encode())
