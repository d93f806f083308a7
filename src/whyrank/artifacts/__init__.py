"""What is saved: versioned, checksummed, memory-mapped, never pickled."""

from whyrank.artifacts.report import REPORT, add_report, read_report
from whyrank.artifacts.store import MANIFEST, Chunks, Stored, load, read_manifest, save

__all__ = ["MANIFEST", "REPORT", "Chunks", "Stored", "add_report", "load", "read_manifest", "read_report", "save"]
