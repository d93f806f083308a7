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
    note,
    print_json,
    print_text,
    progress,
    told_if_interrupted,
)
from whyrank.cli.cards import card, score_table
from whyrank.cli.options import with_options
from whyrank.cli.serve import Titles
from whyrank.errors import ParameterError
from whyrank.ranking.options import Options

if TYPE_CHECKING:
    from whyrank.ranking.reasons import Reason
    from whyrank.ranking.sentences import Templates

User = Annotated[str | None, typer.Option("--user", "-u", help="A user id.")]
Count = Annotated[int, typer.Option("-n", help="How many.", min=1)]
Scores = Annotated[bool, typer.Option("--scores", help="Show scores and their parts instead of sentences.")]
TemplatesFile = Annotated[
    Path | None,
    typer.Option("--templates", help="A JSON file of templates for sentences: other words, another language."),
]
QUOTES = "Show what people wrote; of --pairs it is written only if asked for."


@command("explain", "whyrank explain model --user u000001 --item i00001")
@with_options
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
    titles: Titles = None,
    templates: TemplatesFile = None,
    quotes: Annotated[bool | None, typer.Option("--quotes/--no-quotes", help=QUOTES)] = None,
    scores: Scores = False,
    threads: Threads = None,
    ray: RayAddress = None,
    json: Json = False,
    *,
    options: Options,
) -> None:
    """Show the best reasons of a pair, or write those of millions of pairs, Parquet to Parquet."""
    from whyrank.data.names import read_titles
    from whyrank.models import load
    from whyrank.ranking.sentences import Templates

    written = Templates.read(templates)
    if pairs is not None and output is not None and user is None and item is None:
        if scores or titles is not None:
            raise ParameterError("--scores and --titles are for one pair; a file of reasons has scores and item ids")
        explain_in_bulk(model, pairs, output, n, options, bool(quotes), written, threads, ray, json)
        return
    if user is None or item is None or pairs is not None or output is not None:
        raise ParameterError("give --user and --item for one pair, or --pairs and -o for a file of pairs")
    if ray is not None:
        raise ParameterError("--ray is for --pairs; one pair is explained here")
    title = read_titles(titles).get(item)
    loaded = load(model)
    found = loaded.explain(user, item, n, templates=written, **vars(options))
    if json:
        listed = [each.as_dict() for each in found]
        fallback = found[0].fallback if found else None
        about = {"user": user, "item": item, "title": title, "model": loaded.id, "fallback": fallback}
        print_json({**about, "reasons": listed})
    elif found:
        show(f"{title or item} for {user}", found, scores, quotes is not False, options)
    else:
        note(f"no reason for {item!r} passes these options; --no-grounded and --polarity any show more")


def show(title: str, reasons: list[Reason], scores: bool, quotes: bool, options: Options | None = None) -> None:
    """A card, or a table with scores."""
    if scores:
        print_text(score_table(title, reasons, options))
    else:
        print_text("\n".join(card(title, reasons, quotes=quotes)))


def explain_in_bulk(
    model: Path,
    pairs: Path,
    output: Path,
    n: int,
    options: Options,
    quotes: bool,
    templates: Templates,
    threads: int | None,
    ray: str | None,
    json: bool,
) -> None:
    """Reasons for a file of pairs or, on a cluster, for a folder of them."""
    from whyrank.models import load
    from whyrank.ranking.bulk import explain_file

    with told_if_interrupted(lambda: "the same command goes on where it stopped"), progress(json) as bar:
        task = bar.add_task("explaining", total=None, remark="")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if ray is None:
            loaded = load(model)
            reports = [
                explain_file(
                    *(loaded, pairs, output, n, options),
                    quotes=quotes,
                    templates=templates,
                    threads=threads,
                    progress=tell,
                )
            ]
        else:
            from whyrank.cluster.explain import explain_files
            from whyrank.cluster.session import connect

            with connect(ray) as cluster:
                reports = explain_files(
                    *(cluster, model, pairs, output, n, options), quotes=quotes, templates=templates, progress=tell
                )
    if json:
        listed = [each.as_dict() for each in reports]
        print_json(listed[0] if ray is None else {"output": output, "files": listed})
    else:
        for each in reports:
            note(each.summary())


@command("recommend", "whyrank recommend model --user u000001 -n 3")
@with_options
def recommend_command(
    model: ModelFolder,
    user: User = None,
    n: Count = 5,
    reasons: Annotated[int | None, typer.Option(help="Reasons for each item; 3 unless given.", min=0)] = None,
    joint: Annotated[bool, typer.Option("--joint", help="Rank (item, explanation) pairs as a whole, exactly.")] = False,
    weight: Annotated[
        float | None, typer.Option(help="With --joint: weight of the explanation's score; 1 unless given.")
    ] = None,
    titles: Titles = None,
    templates: TemplatesFile = None,
    quotes: Annotated[bool, typer.Option("--quotes/--no-quotes", help="Show what people wrote.")] = True,
    scores: Scores = False,
    json: Json = False,
    *,
    options: Options,
) -> None:
    """Recommend items with reasons, for models that rank items."""
    from whyrank.data.names import read_titles
    from whyrank.models import load
    from whyrank.ranking.sentences import Templates

    if user is None:
        raise ParameterError("give --user")
    if joint and reasons is not None:
        raise ParameterError("with --joint every item comes with the reason it is ranked with; leave out --reasons")
    if weight is not None and not joint:
        raise ParameterError("--weight is for --joint")
    named, written = read_titles(titles), Templates.read(templates)
    loaded = load(model)
    if joint:
        pairs = loaded.recommend_pairs(user, n, 1.0 if weight is None else weight, templates=written, **vars(options))
        found = [(each.item, each.score, [each.reason], each.as_dict()) for each in pairs]
    else:
        how_many = 3 if reasons is None else reasons
        items = loaded.recommend(user, n, how_many, templates=written, **vars(options))
        found = [(each.item, each.score, each.reasons, each.as_dict()) for each in items]
    if json:
        listed = [{**document, "title": named.get(item)} for item, _, _, document in found]
        print_json({"user": user, "model": loaded.id, "pairs" if joint else "recommendations": listed})
        return
    if not found:
        nothing = "nothing for {!r} passes these options" if joint else "nothing to recommend: {!r} knows every item"
        note(nothing.format(user))
    for place, (item, score, because, _) in enumerate(found, 1):
        title = f"{place}. {named.get(item, item)}" + (f"   (score {score:.3f})" if scores else "")
        show(title, because, scores and bool(because), quotes, options)
