"""Who may ask, and how much: API keys and token buckets."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Sequence

CLIENTS = 10_000  # buckets kept; the one used longest ago is forgotten first


class Keys:
    """Known API keys, by hash only."""

    def __init__(self, hashes: Sequence[str]) -> None:
        self._hashes = [bytes.fromhex(each) for each in hashes]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def find(self, key: bytes) -> str | None:
        """A short name of the key, or None for a wrong one; takes as long for any key. An empty one is wrong."""
        given = hashlib.sha256(key).digest()
        found = False
        for known in self._hashes:
            found |= hmac.compare_digest(known, given)
        return given.hex()[:16] if found and key else None


class Buckets:
    """One token bucket per client: `rate` requests a second on average, twice that at once."""

    def __init__(self, rate: float) -> None:
        self.rate, self.size = rate, max(2 * rate, 1.0)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float) -> float:
        """0 and one token taken, or the seconds until there will be one."""
        if not self.rate:
            return 0.0
        tokens, then = self._buckets.pop(client, (self.size, now))
        tokens = min(self.size, tokens + (now - then) * self.rate)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self.rate
