"""What is saved: versioned, checksummed, memory-mapped, never pickled."""

from whyrank.artifacts.store import Stored, load, read_manifest, save

__all__ = ["Stored", "load", "read_manifest", "save"]
