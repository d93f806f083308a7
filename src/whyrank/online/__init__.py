"""After a reason is shown: exposures and events, experiments, estimates, learning, and erasure."""
