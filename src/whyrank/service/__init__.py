"""The service: reasons over HTTP, the page, feedback and the blind study.

FastAPI and what comes with it are imported by `app` and the modules of routes only, so that the command line can run a
study's results without them.
"""
