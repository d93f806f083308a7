"""The page, and what stands in for it where it has not been built."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "page"
MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>whyrank</title>
<h1>whyrank</h1>
<p>The service runs, but its page has not been built.
Build it with <code>make page</code> (needs Node) and start again.</p>
<p>The API is described in <a href="openapi.json">openapi.json</a>.</p>
</html>
"""


class PageFiles(StaticFiles):
    """Files whose names change with their content are kept by browsers; the page itself is asked for every time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        kept = path.startswith("assets/") and response.status_code == 200
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if kept else "no-cache"
        return response


def is_built() -> bool:
    """Whether the page is there, as it is in a wheel."""
    return (FOLDER / "index.html").is_file()


def page_route() -> BaseRoute:
    """Return what serves the page at `/`."""
    if is_built():
        return Mount("/", PageFiles(directory=FOLDER, html=True))
    return Route("/", missing)


async def missing(request: Request) -> HTMLResponse:
    """Say how the page is built."""
    return HTMLResponse(MISSING)
