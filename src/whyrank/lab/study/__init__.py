"""The blind study: people choose which of two lists is closer to what was said."""
