"""The same engine on several machines, by Ray: only files and references travel, and the bits stay the same."""
