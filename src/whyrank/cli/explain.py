"""Commands: explain, recommend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import (
    Json,
    ModelFolder,
    RayAddress,
    Threads,
    command,
    console,
    note,
    parse_pairs,
    print_json,
    progress,
    told_if_interrupted,
)
from whyrank.errors import ParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from whyrank.ranking.options import Options
    from whyrank.ranking.reasons import Reason
    from whyrank.ranking.recommend import RecommendedPair

User = Annotated[str | None, typer.Option("--user", "-u", help="A user id.")]
Count = Annotated[int, typer.Option("-n", help="How many.", min=1)]
Grounded = Annotated[bool, typer.Option("--grounded", help="Only what someone has said of the item.")]
PolarityOption = Annotated[
    str, typer.Option("--polarity", help="any, positive (nothing against the item) or negative.")
]
Diversity = Annotated[float, typer.Option(help="0: by score alone; towards 1: reasons unlike each other.")]
Specificity = Annotated[float, typer.Option(help="Score minus this times log-popularity.")]
Exclude = Annotated[list[str] | None, typer.Option(help="An explanation id that is never shown; may be repeated.")]
Ban = Annotated[list[str] | None, typer.Option(help="A word whose explanations are never shown; may be repeated.")]

Boost = Annotated[list[str] | None, typer.Option(help="Added to an explanation's score: e00012=0.5; may be repeated.")]


@command("explain", "whyrank explain model --user u000001 --item i00001 --grounded")
def explain_command(
    model: ModelFolder,
    user: User = None,
    item: Annotated[str | None, typer.Option("--item", "-i", help="An item id.")] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="A file of pairs with columns user and item, to explain in bulk; with --ray also a folder of files."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where the reasons of --pairs go (.parquet; with --ray a folder)."),
    ] = None,
    n: Count = 5,
    grounded: Grounded = False,
    polarity: PolarityOption = "any",
    diversity: Diversity = 0.0,
    specificity: Specificity = 0.0,
    exclude: Exclude = None,
    ban: Ban = None,
    boost: Boost = None,
    threads: Threads = None,
    ray: RayAddress = None,
    json: Json = False,
) -> None:
    """Show the best reasons of a pair, or write those of millions of pairs, Parquet to Parquet."""
    from whyrank.models import load

    options = make_options(grounded, polarity, diversity, specificity, exclude, ban, boost)
    if pairs is not None and output is not None and user is None and item is None:
        explain_in_bulk(model, pairs, output, n, options, threads, ray, json)
        return
    if user is None or item is None or pairs is not None or output is not None:
        raise ParameterError("give --user and --item for one pair, or --pairs and -o for a file of pairs")
    if ray is not None:
        raise ParameterError("--ray is for --pairs; one pair is explained here")
    loaded = load(model)
    found = loaded.explain(user, item, n, **vars(options))
    if json:
        print_json({"user": user, "item": item, "model": loaded.id, "reasons": [each.as_dict() for each in found]})
    elif found:
        console().print(reason_table(f"why {item} for {user}", found, options))
    else:
        note(f"no reason for {item} passes these options")


def explain_in_bulk(
    model: Path, pairs: Path, output: Path, n: int, options: Options, threads: int | None, ray: str | None, json: bool
) -> None:
    """Reasons for a file of pairs or, on a cluster, for a folder of them."""
    from whyrank.models import load
    from whyrank.ranking.bulk import explain_file

    with told_if_interrupted(lambda: "the same command goes on where it stopped"), progress(json) as bar:
        task = bar.add_task("explaining", total=None, remark="")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if ray is None:
            reports = [explain_file(load(model), pairs, output, n, options, threads=threads, progress=tell)]
        else:
            from whyrank.cluster.explain import explain_files
            from whyrank.cluster.session import connect

            with connect(ray) as cluster:
                reports = explain_files(cluster, model, pairs, output, n, options, tell)
    if json:
        listed = [each.as_dict() for each in reports]
        print_json(listed[0] if ray is None else {"output": output, "files": listed})
    else:
        for each in reports:
            note(each.summary())


@command("recommend", "whyrank recommend model --user u000001 -n 3")
def recommend_command(
    model: ModelFolder,
    user: User = None,
    n: Count = 5,
    reasons: Annotated[int | None, typer.Option(help="Reasons for each item; 3 unless given.", min=0)] = None,
    joint: Annotated[bool, typer.Option("--joint", help="Rank (item, explanation) pairs as a whole, exactly.")] = False,
    weight: Annotated[
        float | None, typer.Option(help="With --joint: weight of the explanation's score; 1 unless given.")
    ] = None,
    grounded: Grounded = False,
    polarity: PolarityOption = "any",
    diversity: Diversity = 0.0,
    specificity: Specificity = 0.0,
    exclude: Exclude = None,
    ban: Ban = None,
    boost: Boost = None,
    json: Json = False,
) -> None:
    """Recommend items with reasons, for models that rank items."""
    from whyrank.models import load

    if user is None:
        raise ParameterError("give --user")
    if joint and reasons is not None:
        raise ParameterError("with --joint every item comes with the reason it is ranked with; leave out --reasons")
    if weight is not None and not joint:
        raise ParameterError("--weight is for --joint")
    options = make_options(grounded, polarity, diversity, specificity, exclude, ban, boost)
    loaded = load(model)
    if joint:
        best = loaded.recommend_pairs(user, n, 1.0 if weight is None else weight, **vars(options))
        if json:
            print_json({"user": user, "model": loaded.id, "pairs": [each.as_dict() for each in best]})
        elif best:
            console().print(pair_table(f"items and reasons for {user}, ranked together", best))
        else:
            note(f"nothing for {user} passes these options")
        return
    found = loaded.recommend(user, n, 3 if reasons is None else reasons, **vars(options))
    if json:
        print_json({"user": user, "model": loaded.id, "recommendations": [each.as_dict() for each in found]})
        return
    if not found:
        note(f"nothing to recommend: {user} knows every item")
    for place, each in enumerate(found, 1):
        title = f"{place}. {each.item}   (score {each.score:.3f})"
        console().print(reason_table(title, each.reasons, options) if each.reasons else title)


def make_options(
    grounded: bool,
    polarity: str,
    diversity: float,
    specificity: float,
    exclude: list[str] | None,
    ban: list[str] | None,
    boost: list[str] | None,
) -> Options:
    """The library's options from those of a command."""
    from whyrank.ranking.options import Options

    boosts = {}
    for name, text in parse_pairs(boost or [], "--boost").items():
        try:
            boosts[name] = float(text)
        except ValueError:
            raise ParameterError(f"--boost {name}: {text!r} is not a number") from None
    return Options(
        grounded=grounded,
        polarity=polarity,  # type: ignore[arg-type]
        diversity=diversity,
        specificity=specificity,
        exclude=tuple(exclude or ()),
        banned=tuple(ban or ()),
        boosts=boosts,
    )


def pair_table(title: str, pairs: list[RecommendedPair]) -> Table:
    """Items and reasons that were ranked together."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for header in ("item", "because", "score", "of the item"):
        table.add_column(header)
    for pair in pairs:
        table.add_row(pair.item, pair.reason.text, f"{pair.score:.3f}", f"{pair.item_score:.3f}")
    return table


CAPTION = "score and its parts; how often it was said of this item, of similar items and by this user"


def reason_table(title: str, reasons: list[Reason], options: Options | None = None) -> Table:
    """Reasons with the parts of their scores and their evidence; what options add to scores is a part, too."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=CAPTION, caption_justify="left")
    parts = list(reasons[0].parts) if reasons else []
    rest = "boost" if options is not None and (options.boosts or options.specificity) else "evidence"
    names = [{"bonus": rest, "popularity": "popular"}.get(part, part) for part in parts]
    table.add_column("because", overflow="fold")
    for header in ("score", *names, "of item", "of similar", "by user"):
        table.add_column(header, justify="right", no_wrap=True, min_width=len(header))
    for reason in reasons:
        said = reason.evidence
        shares = (f"{reason.parts.get(part, 0.0):.2f}" for part in parts)
        counts = (str(said.item), str(said.similar_items), str(said.user))
        table.add_row(reason.text, f"{reason.score:.2f}", *shares, *counts)
    return table
