"""What is saved: versioned, checksummed, memory-mapped, never pickled."""

from whyrank.artifacts.report import REPORT, add_report, read_report, report_text
from whyrank.artifacts.store import MARKER, Chunks, Stored, load, read_manifest, save

__all__ = ["MARKER", "REPORT", "Chunks", "Stored", "add_report", "load", "read_manifest", "read_report", "report_text"]
__all__ += ["save"]
