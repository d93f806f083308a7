"""Who may ask, and how much: API keys and token buckets."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Sequence

from whyrank.service.settings import SCOPES

CLIENTS = 10_000  # buckets kept; the one used longest ago is forgotten first


class ApiKeys:
    """Known API keys, by hash only, and what each may: `HASH` (everything) or `HASH scope,scope`."""

    def __init__(self, keys: Sequence[str]) -> None:
        words = [each.split() for each in keys]
        self._hashes = [bytes.fromhex(each[0]) for each in words]
        self._scopes = [frozenset(each[1].split(",")) if each[1:] else frozenset(SCOPES) for each in words]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def find(self, key: bytes) -> tuple[str, frozenset[str]] | None:
        """A short name of the key and its scopes, or None for a wrong one; takes as long for any key. An empty one is
        wrong."""
        given = hashlib.sha256(key).digest()
        found: frozenset[str] | None = None
        for known, scopes in zip(self._hashes, self._scopes, strict=True):
            if hmac.compare_digest(known, given):
                found = scopes if found is None else found | scopes
        return (given.hex()[:16], found) if found is not None and key else None


ASKING = ("/v1/explain", "/v1/recommend", "/v1/pairs")
LOOKING = ("/v1/models", "/v1/users", "/v1/items", "/v1/explanations", "/v1/aspects")


def needed_scope(method: str, path: str) -> str:
    """What a key must be allowed for a request; whatever is not listed is for administrators."""
    if path in ASKING:
        return "ask"
    if path == "/metrics":
        return "metrics"
    if path == "/v1/feedback" and method == "POST":
        return "log"
    looks = any(path == each or path.startswith(each + "/") for each in LOOKING)
    if looks and method in ("GET", "HEAD") and not path.endswith("/export"):
        return "ask"
    return "administer"


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
