"""The page, and what stands in for it where it has not been built."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response
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


def add_page(app: FastAPI, folder: Path = FOLDER) -> None:
    """Serve the page at `/`."""
    if (folder / "index.html").is_file():
        app.mount("/", PageFiles(directory=folder, html=True))
        return

    @app.get("/", include_in_schema=False)
    def missing() -> HTMLResponse:
        return HTMLResponse(MISSING)
