"""Command: refresh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyrank.cli.app import (
    Columns,
    Json,
    OnErrorOption,
    Threads,
    Trim,
    command,
    note,
    parse_columns,
    print_json,
    progress,
    told_if_interrupted,
    warn_first_run,
)
from whyrank.cli.fit import Settings, bar_monitor, make_model
from whyrank.cli.mine import parse_rules, stages_on
from whyrank.cli.serve import Titles
from whyrank.errors import MissingExtra

REFUSED = 3  # exit code
WORSE = "the new one is worse or knows far less, or too little shows that it does not"
NOW = {  # what became of the model folder
    "swapped": "is in service",
    "refused": f"stays as it was: {WORSE}",
    "nothing new": "stays as it was",
}


@command("refresh", "whyrank refresh models/current reviews --model profile-j")
def refresh_command(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder that is served; made if missing.")],
    reviews: Annotated[list[Path], typer.Argument(help="Files of reviews, or folders; files read before are skipped.")],
    work: Annotated[
        Path | None, typer.Option(help="The folder for the pool and the state; by default MODEL.refresh.")
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="For the first refresh: the mined folder that the served model was fitted to.")
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Begin a new pool with these reviews alone, whatever the served model knows."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Which model to fit, see `whyrank models`; by default the same as the served one."),
    ] = None,
    settings: Settings = None,
    config: Annotated[Path | None, typer.Option(help="A configuration file, as `whyrank tune` writes it.")] = None,
    rules: Annotated[list[str] | None, typer.Option("--rule", help="A rule of mining: --rule min_count=10.")] = None,
    titles: Titles = None,
    columns: Columns = None,
    on_error: OnErrorOption = "raise",
    trim: Trim = False,
    holdout: Annotated[float, typer.Option(help="Share of the new records that both models are measured on.")] = 0.1,
    tolerance: Annotated[float, typer.Option(help="Share of the served model's NDCG that may be lost.")] = 0.02,
    least: Annotated[
        int, typer.Option(min=0, help="Do not replace the model if fewer records than this can be used to compare.")
    ] = 0,
    forget: Annotated[
        bool, typer.Option("--forget-reactions", help="Leave out what the served model learned from reactions.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Try files again that were refused before.")] = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Read new reviews, fit, compare with the served model, and replace it if the new one is not worse. Made for cron.

    Exit codes: 0 replaced or nothing new, 3 refused (the served model stays), 2 an error (nothing was replaced).
    """
    try:
        from whyrank.data.names import read_titles
        from whyrank.mining import MiningRules
        from whyrank.service.refresh import Recipe, refresh
    except ImportError as error:
        raise MissingExtra("mine", "mining") from error

    chosen = make_model(model, settings, config) if model or settings or config or not folder.exists() else None
    recipe = Recipe(
        model=chosen,
        rules=parse_rules(rules, MiningRules, "--rule"),
        columns=parse_columns(columns),  # type: ignore[arg-type]
        titles=read_titles(titles, trim=trim),
        on_error=on_error,  # type: ignore[arg-type]
        trim=trim,
        holdout=holdout,
        tolerance=tolerance,
        least=least,
        reactions=not forget,
        threads=threads,
    )
    warn_first_run()

    def how_to_go_on() -> str:
        return "the same command goes on where it stopped"

    with told_if_interrupted(how_to_go_on), progress(json) as bar:
        found = refresh(
            folder,
            reviews,
            work=work,
            pool=pool,
            fresh=fresh,
            recipe=recipe,
            again=again,
            tell=(lambda text: None) if json else note,
            mined=stages_on(bar),
            monitors=(bar_monitor(bar, "the new model"),),
        )
    if json:
        print_json(found.as_dict())
    else:
        note(f"{found.outcome}: {folder} {NOW[found.outcome]} ({found.seconds:.1f} s)")
        if found.report:
            note(f"what new reviews say: {found.report}")
    if found.outcome == "refused":
        raise typer.Exit(REFUSED)
