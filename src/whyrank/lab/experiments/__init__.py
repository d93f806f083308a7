"""The paper's tables and figures, and reports."""
