"""Command: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.cli.app import Number, command, note

Host = Annotated[str, typer.Option(help="The address to listen on; by default only this machine can reach it.")]
Port = Annotated[int, typer.Option(help="The port to listen on.", min=0, max=65535)]
StoreOption = Annotated[
    str, typer.Option(help="Where feedback and studies are stored: a path, or a URL such as postgresql+psycopg://...")
]
Prefix = Annotated[str, typer.Option(help="The path that a proxy puts before everything, such as /reasons.")]
Titles = Annotated[Path | None, typer.Option(help="A file with columns item and title.")]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A host name of the service; requests for others are refused. May be repeated."),
]
Proxies = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy", help="The address or network of a proxy whose X-Forwarded-For is trusted. May be repeated."
    ),
]
Groups = Annotated[
    Path | None,
    typer.Option(help="A file with columns item and group (such as a provider), for minimum shares of places."),
]
DEFAULT_STORE = "sqlite:///whyrank.db"


@command("serve", "whyrank serve model --split split")
def serve_command(
    models: Annotated[list[str], typer.Argument(help="Model folders, or name=folder; the first is the default model.")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Annotated[
        int, typer.Option(help="The number of processes; they share the memory-mapped models.", min=1)
    ] = 1,
    split: Annotated[Path | None, typer.Option(help="A split folder whose test pairs studies may use.")] = None,
    number: Number = 1,
    store: StoreOption = DEFAULT_STORE,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="A file with a line `SHA256 name ask,log,administer,metrics` for each key; or set WHYRANK_API_KEYS."
        ),
    ] = None,
    unprotected: Annotated[
        bool, typer.Option("--open", help="Allow other machines to connect without API keys.")
    ] = False,
    allow_host: AllowedHosts = None,
    proxy: Proxies = None,
    prefix: Prefix = "",
    rate: Annotated[float, typer.Option(help="Requests per second and client; 0: no limit.", min=0)] = 100.0,
    titles: Titles = None,
    groups: Groups = None,
    log: Annotated[
        bool, typer.Option("--log", help="Log every list that is shown, even if the request does not ask for it.")
    ] = False,
    experiment: Annotated[
        str | None, typer.Option(help="The experiment that answers requests which name no model.")
    ] = None,
    retain_days: Annotated[
        int | None, typer.Option(help="Erase exposures and events after this many days; by default never.", min=1)
    ] = None,
    aspects: Annotated[
        Path | None,
        typer.Option(help="A file with columns id and aspect, such as explanations.parquet of `whyrank mine`."),
    ] = None,
) -> None:
    """Serve reasons over HTTP, with the page, feedback and studies. A replaced model folder is loaded again."""
    from whyrank.service.run import run
    from whyrank.service.settings import Settings, read_keys

    settings = Settings(
        models=tuple(models),
        store=store,
        split=None if split is None else str(split),
        split_number=number,
        titles=None if titles is None else str(titles),
        groups=None if groups is None else str(groups),
        aspects=None if aspects is None else str(aspects),
        keys=read_keys(keys),
        log=log,
        experiment=experiment,
        retain_days=retain_days,
        hosts=tuple(allow_host or ()),
        proxies=tuple(proxy or ()),
        prefix=prefix,
        workers=workers,
        rate=rate,
    )

    def announce(url: str) -> None:
        from whyrank.service.pages import is_built  # after `run`, which says what is not installed

        note(f"{'page and API' if is_built() else 'API'}: {url}   stop with Ctrl-C")
        if not is_built():
            note("the page is not built here: run `make page` (needs Node) and start again")

    run(settings, host, port, unprotected=unprotected, announce=announce)
