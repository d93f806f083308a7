"""What a service is started with; it travels to its workers as JSON in the environment."""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from whyrank import artifacts
from whyrank.errors import ParameterError

SCOPES = ("ask", "log", "administer", "metrics")
VARIABLE = "WHYRANK_SERVICE"
KEYS_VARIABLE = "WHYRANK_API_KEYS"
STORE = "sqlite:///whyrank.db"
EMPTY = tuple(hashlib.sha256(key).hexdigest() for key in (b"", b"\n", b"\r\n"))  # what a variable without a value gives
SHA256 = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True)
class Settings:
    """Everything a worker needs to know. Limits hold for one worker, except `rate`, which is shared out among them."""

    models: tuple[str, ...] = ()  # folders, or name=folder
    store: str = STORE
    split: str | None = None  # where studies take their test pairs from
    split_number: int = 1
    titles: str | None = None  # a table with columns item and title
    groups: str | None = None  # a table with columns item and group, for least shares of places
    aspects: str | None = None  # a table with columns id and aspect, such as a mined folder's explanations.parquet
    keys: tuple[str, ...] = ()  # SHA-256 of the API keys, in hexadecimal; what a key may, after a blank, unless all
    log: bool = False  # store what is shown, also for requests that do not ask for it
    experiment: str | None = None  # whose arms answer requests that name neither a model nor an experiment
    retain_days: int | None = None  # after which exposures and events are erased; None: never
    hosts: tuple[str, ...] = ()  # names under which the service answers; none: any
    proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For is believed
    prefix: str = ""
    workers: int = 1
    body_limit: int = 1 << 20
    rate: float = 100.0  # requests per second and client; 0: no limit
    in_flight: int = 64
    reload_seconds: float = 1.0  # how often model folders are looked at; 0: never
    study_only: bool = False

    def __post_init__(self) -> None:
        if self.retain_days is not None and self.retain_days < 1:
            raise ParameterError(f"retain_days is {self.retain_days}; use at least 1")
        for name in ("workers", "body_limit", "in_flight"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; use at least 1")
        for name in ("rate", "reload_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ParameterError(f"{name} is {getattr(self, name)}; use 0 or more")
        if self.prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", self.prefix):
            raise ParameterError(f"prefix is {self.prefix!r}; use a path such as /reasons, without a slash at its end")

        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ParameterError(f"proxy is {proxy!r}; use an address or a network such as 10.0.0.0/8") from None

    def to_environment(self) -> None:
        """Leave the settings where `from_environment` of a worker finds them."""
        os.environ[VARIABLE] = json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_environment(cls) -> Settings:
        try:
            values: dict[str, Any] = json.loads(os.environ[VARIABLE])
        except KeyError:
            raise ParameterError(f"{VARIABLE} is not set; start the service with `whyrank serve`") from None
        for name in ("models", "keys", "hosts", "proxies"):
            values[name] = tuple(values[name])
        return cls(**values)


def named_folders(models: tuple[str, ...]) -> list[tuple[str | None, Path]]:
    """Names (None: after the model's kind) and folders from arguments such as `old=models/bper`."""
    found: list[tuple[str | None, Path]] = []
    for text in models:
        name, separator, folder = text.partition("=")
        if separator and NAME.fullmatch(name) and folder and not Path(text).exists():
            found.append((name, Path(folder)))
        else:
            found.append((None, Path(text)))
    names = [name for name, _ in found if name is not None]
    if len(set(names)) < len(names):
        raise ParameterError("two models have the same name; names before = must differ")
    return found


def served_names(models: tuple[str, ...]) -> list[str]:
    """What models are called in a service that is started with these arguments."""
    found: list[str] = []
    for name, folder in named_folders(models):
        kind = str(artifacts.read_manifest(folder, "model").get("model"))
        found.append(name or free_name(kind, found))
    return found


def free_name(kind: str, taken: Container[str]) -> str:
    """The name of a model that was given none: its kind, or with a number where that is taken."""
    return next(name for number in count(1) if (name := kind if number == 1 else f"{kind}-{number}") not in taken)


def read_keys(file: Path | None) -> tuple[str, ...]:
    """API keys: a file with lines `SHA256 name scope,scope`, or the environment (hashes only), or none.

    A key without scopes may do everything.
    """
    if file is None:
        lines = os.environ.get(KEYS_VARIABLE, "").split(",")
        where = KEYS_VARIABLE
    else:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"{file}: cannot be read as a file of key hashes") from error
        where = str(file)
    words = [line.split() for line in lines]
    listed = [parts for parts in words if parts and not parts[0].startswith("#")]
    hashes = tuple(parts[0].lower() for parts in listed)
    for each in hashes:
        if not SHA256.fullmatch(each):
            raise ParameterError(
                f"{where}: holds a line that is not a SHA-256 in hexadecimal; never put a key itself there"
            )
        if each in EMPTY:
            raise ParameterError(f"{where}: holds the hash of an empty key; make the key first, then its hash")
    if file is not None and not hashes:
        raise ParameterError(f"{where}: holds no key hashes; every request would be refused")
    return tuple(f"{each} {_scopes(parts[2:], where)}".strip() for each, parts in zip(hashes, listed, strict=True))


def _scopes(words: list[str], where: str) -> str:
    """What stands after the name of a key: nothing, or scopes with commas between them."""
    scopes = [each for word in words for each in word.split(",") if each]
    for each in scopes:
        if each not in SCOPES:
            raise ParameterError(f"{where}: {each!r} is not a scope; after a key's name come {', '.join(SCOPES)}")
    if words and not scopes:
        raise ParameterError(f"{where}: a key has no scope but a comma; leave it out for all of them")
    return ",".join(scopes)
