"""The service: reasons over HTTP, the page, feedback and experiments."""
