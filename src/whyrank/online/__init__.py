"""After a reason is shown: exposures, feedback, estimates, learning."""
