"""Commands: explain, recommend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
)
from whyrank.cli.bulk import explain_in_bulk, recommend_in_bulk, shown_in_bulk
from whyrank.cli.cards import card, score_table
from whyrank.cli.options import with_options
from whyrank.cli.serve import Groups, Titles
from whyrank.errors import ParameterError
from whyrank.explain.options import ItemGoals, Options

if TYPE_CHECKING:
    from whyrank.explain.reasons import Reason

User = Annotated[str | None, typer.Option("--user", "-u", help="A user id.")]
Count = Annotated[int, typer.Option("-n", help="How many.", min=1)]
Scores = Annotated[bool, typer.Option("--scores", help="Show scores and their parts instead of sentences.")]
TemplatesFile = Annotated[
    Path | None,
    typer.Option("--templates", help="A JSON file of templates for sentences: other words, another language."),
]
QUOTES = "Show what people wrote; in files only with this option."
FORMS = "(.parquet, .csv, .tsv or .jsonl)"
Sentences = Annotated[
    bool, typer.Option("--sentences/--no-sentences", help="With files: write sentences. It is faster without them.")
]


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
        typer.Option("-o", "--output", help=f"The file for the reasons of --pairs {FORMS}; with --ray a folder."),
    ] = None,
    n: Count = 5,
    titles: Titles = None,
    templates: TemplatesFile = None,
    quotes: Annotated[bool | None, typer.Option("--quotes/--no-quotes", help=QUOTES)] = None,
    sentences: Sentences = True,
    scores: Scores = False,
    threads: Threads = None,
    ray: RayAddress = None,
    json: Json = False,
    *,
    options: Options,
) -> None:
    """Show the best reasons for a pair, or write the reasons for millions of pairs to a file."""
    from whyrank.data.names import read_titles
    from whyrank.models import load
    from whyrank.wording.templates import Templates

    if pairs is not None and output is not None and user is None and item is None:
        if scores:
            raise ParameterError("--scores is for one pair; a file of reasons has scores")
        shown = shown_in_bulk(titles, templates, bool(quotes), sentences)
        explain_in_bulk(model, pairs, output, n, options, shown, threads, ray, json)
        return
    if not sentences:
        raise ParameterError("--no-sentences is for --pairs; --scores shows one pair without sentences")
    written = Templates.read(templates, quotes=quotes is not False)
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
        note(nothing_passes(item, options))


def nothing_passes(item: str, options: Options) -> str:
    """What to try where no reason passes; only options that would change something are named."""
    if options.polarity == "negative":
        said = f"too few people complain about {item!r}"
        hint = "--support 1 shows what one person says, --polarity positive what speaks for it"
        return f"{said}; {hint}" if options.grounded else f"nothing in the pool speaks against {item!r}"
    more = ["--no-grounded"] * options.grounded + ["--polarity any"] * (options.polarity != "any")
    verb = "show" if len(more) > 1 else "shows"
    return f"no reason for {item!r} passes these options" + (f"; {' and '.join(more)} {verb} more" if more else "")


def show(title: str, reasons: list[Reason], scores: bool, quotes: bool, options: Options | None = None) -> None:
    """A card, or a table with scores."""
    if scores:
        print_text(score_table(title, reasons, options))
    else:
        print_text("\n".join(card(title, reasons, quotes=quotes)))


@command("recommend", "whyrank recommend model --user u000001 -n 3")
@with_options
def recommend_command(
    model: ModelFolder,
    user: User = None,
    users: Annotated[
        str | None,
        typer.Option(
            help="A file with a column user, or all: recommend to all of them and write a file.", metavar="FILE|all"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help=f"The file for the items and reasons of --users {FORMS}.")
    ] = None,
    n: Count = 5,
    reasons: Annotated[int | None, typer.Option(help="Reasons for each item; by default 3.", min=0)] = None,
    joint: Annotated[bool, typer.Option("--joint", help="Rank (item, explanation) pairs as a whole, exactly.")] = False,
    weight: Annotated[
        float | None, typer.Option(help="With --joint: weight of the explanation's score; by default 1.")
    ] = None,
    groups: Groups = None,
    titles: Titles = None,
    templates: TemplatesFile = None,
    quotes: Annotated[bool | None, typer.Option("--quotes/--no-quotes", help=QUOTES)] = None,
    sentences: Sentences = True,
    scores: Scores = False,
    threads: Threads = None,
    json: Json = False,
    *,
    options: Options,
    goals: dict[str, Any],
) -> None:
    """Recommend items with reasons, to one user or to all of them, for models that rank items."""
    from whyrank.data.names import read_titles
    from whyrank.explain.recommend import best_items
    from whyrank.models import load
    from whyrank.wording.templates import Templates

    how_many = 3 if reasons is None else reasons
    if users is not None and output is not None and user is None:
        if joint or weight is not None or scores:
            raise ParameterError("--joint, --weight and --scores are for --user; a file of items has scores")
        shown = shown_in_bulk(titles, templates, bool(quotes), sentences)
        recommend_in_bulk(model, users, output, n, how_many, options, shown, threads, json)
        return
    if user is None or users is not None or output is not None:
        raise ParameterError("give --user for one user, or --users and -o for many")
    if not sentences:
        raise ParameterError("--no-sentences is for --users; --scores shows one user's items without sentences")
    if joint and reasons is not None:
        raise ParameterError("with --joint every item comes with the reason it is ranked with; leave out --reasons")
    if weight is not None and not joint:
        raise ParameterError("--weight is for --joint")
    named, written = read_titles(titles), Templates.read(templates, quotes=quotes is not False)
    loaded, wanted = load(model), item_goals(goals, groups)
    if joint and wanted is not None:
        raise ParameterError("--serendipity and --share are for lists of items; leave out --joint")
    if joint:
        pairs = loaded.recommend_pairs(user, n, 1.0 if weight is None else weight, templates=written, **vars(options))
        found = [(each.item, each.score, [each.reason], each.as_dict()) for each in pairs]
    else:
        items = loaded.recommend(user, n, how_many, goals=wanted, templates=written, **vars(options))
        found = [(each.item, each.score, each.reasons, each.as_dict()) for each in items]
    numbers = loaded.catalog_.users.numbers([user], missing="negative")
    ndcg = 1.0 if wanted is None else best_items(loaded, numbers, n, wanted).ndcg
    if json:
        listed = [{**document, "title": named.get(item)} for item, _, _, document in found]
        about = {"user": user, "model": loaded.id} | ({} if wanted is None else {"ndcg_of_best_list": ndcg})
        print_json({**about, "pairs" if joint else "recommendations": listed})
        return
    if wanted is not None:
        note(f"these goals cost {100 * (1 - ndcg):.1f}% of the NDCG of the list by score alone")
    if not found:
        nothing = "nothing for {!r} passes these options" if joint else "nothing to recommend: {!r} knows every item"
        note(nothing.format(user))
    for place, (item, score, because, _) in enumerate(found, 1):
        title = f"{place}. {named.get(item, item)}" + (f"   (score {score:.3f})" if scores else "")
        show(title, because, scores and bool(because), quotes is not False, options)
        if not because and how_many:
            print_text("  (no reason passes these options)")


def item_goals(given: dict[str, Any], groups: Path | None) -> ItemGoals | None:
    """Goals as options give them; None: none."""
    from whyrank.data.names import read_groups

    if bool(given["shares"]) != (groups is not None):
        raise ParameterError("--share says how much, --groups which items; give both")
    if not any(given.values()):
        return None
    return ItemGoals(**given, groups=read_groups(groups))
