"""After a reason is shown: exposures and events, experiments and their results, and erasure."""
