"""Words for reasons: sentences from templates, what may be claimed of reasons, and whether a text claims no more."""
