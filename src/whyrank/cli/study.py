"""Commands: study create, serve, results, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from whyrank.cli.app import Json, Number, Seed, SplitFolder, app, command, console, note, print_json
from whyrank.cli.labels import LabelledGroup
from whyrank.cli.serve import DEFAULT_STORE, AllowedHosts, Host, Port, Prefix, Proxies, StoreOption, Titles
from whyrank.cli.stores import opened_store, store_option
from whyrank.errors import ParameterError
from whyrank.render import FittingTable, number_of

if TYPE_CHECKING:
    from whyrank.online.store import Store

study_app = typer.Typer(
    cls=LabelledGroup,
    help="Run a blind study: people choose which of two models' lists is closer to what was really said.",
    epilog="Example: `whyrank study create split model_a model_b --cases 10`",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(study_app, name="study")

Folder = Annotated[str, typer.Argument(help="A model folder, or name=folder.")]
StudyId = Annotated[str | None, typer.Argument(help="The study's id; by default the newest one.")]
Address = Annotated[str, typer.Option(help="The address of the page; links to participants begin with it.")]


@command("create", "whyrank study create split model_a model_b --cases 10", study_app)
def create_command(
    split: SplitFolder,
    a: Folder,
    b: Folder,
    cases: Annotated[int, typer.Option(help="Test pairs to show.", min=1, max=1000)] = 10,
    n: Annotated[int, typer.Option("-n", help="Reasons in a list.", min=1, max=20)] = 5,
    participants: Annotated[int, typer.Option(help="Links to make.", min=1, max=1000)] = 3,
    agreement: Annotated[int, typer.Option(help="How many participants must agree for a case to be valid.", min=1)] = 2,
    ties: Annotated[
        bool, typer.Option("--ties", help="Participants may answer that both lists are equally close.")
    ] = False,
    title: Annotated[str, typer.Option(help="A title for you; participants never see it.")] = "",
    question: Annotated[str | None, typer.Option(help="What participants are asked.")] = None,
    grounded: Annotated[bool, typer.Option("--grounded", help="Only reasons that people gave for the item.")] = False,
    titles: Titles = None,
    url: Address = "http://127.0.0.1:8000/",
    store: StoreOption = DEFAULT_STORE,
    number: Number = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw cases from a split's test pairs, store them, and print a link for every participant."""
    from whyrank.data import read_split
    from whyrank.data.names import read_titles
    from whyrank.explain.options import Options
    from whyrank.lab.study import studies as study
    from whyrank.lab.study.cases import sample_cases
    from whyrank.models import load
    from whyrank.service.settings import named_folders

    _link(url, "")
    (name_a, folder_a), (name_b, folder_b) = named_folders((a, b))
    if folder_a.resolve() == folder_b.resolve():
        raise ParameterError(f"{folder_a}: both lists would be the same; name two models")
    model_a, model_b = load(folder_a), load(folder_b)
    same = model_a.id == model_b.id
    name_a = name_a or (folder_a.name if same else model_a.id)
    name_b = name_b or (folder_b.name if same else model_b.id)
    test = read_split(split, number).test
    options = Options.plain(grounded=grounded)
    made = sample_cases(test, model_a, model_b, count=cases, n=n, seed=seed, options=options)
    with opened_store(store) as opened:
        id_ = study.create(
            opened,
            made,
            a=name_a,
            b=name_b,
            n=n,
            title=title,
            question=question,
            people=participants,
            agreement=agreement,
            ties=ties,
            seed=seed,
            titles=read_titles(titles),
        )
        made_study = study.shown(opened, id_)
    for each in made_study["participants"]:
        each["link"] = _link(url, each["path"])
    if json:
        print_json(made_study)
        return
    note(f"study {id_}: {name_a} against {name_b}, {cases} cases; one link for each participant:")
    for each in made_study["participants"]:
        typer.echo(each["link"])
    there = store_option(store)
    note(f"next: whyrank study serve{_port(url)}{there}, send the links, then whyrank study results {id_}{there}")
    note(f"links begin with {url}; where participants reach the page at another address, give it with --url")


@command("serve", "whyrank study serve --host 0.0.0.0", study_app)
def serve_command(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    store: StoreOption = DEFAULT_STORE,
    allow_host: AllowedHosts = None,
    proxy: Proxies = None,
    prefix: Prefix = "",
) -> None:
    """Serve the participants' page only. It has no models and no results, so nobody can tell which list is whose."""
    from whyrank.service.run import run
    from whyrank.service.settings import Settings

    def announce(url: str) -> None:
        note(f"participants only: {url}   stop with Ctrl-C")

    hosts, proxies = tuple(allow_host or ()), tuple(proxy or ())
    settings = Settings(store=store, prefix=prefix, study_only=True, hosts=hosts, proxies=proxies)
    run(settings, host, port, announce=announce)


@command("results", "whyrank study results --svg chart.svg", study_app)
def results_command(
    study_id: StudyId = None,
    svg: Annotated[Path | None, typer.Option(help="Write the bar chart to this file.")] = None,
    url: Address = "http://127.0.0.1:8000/",
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Show how many valid cases each model won, with exact intervals, and how well participants agree."""
    from whyrank.atomic import new_file
    from whyrank.lab.study import results as study_results
    from whyrank.lab.study import studies as study

    with opened_store(store) as opened:
        id_ = study_id or _newest(opened)
        result, people = study_results.results(opened, id_), study.shown(opened, id_)["participants"]
    if svg is not None:
        with new_file(svg) as aside:
            aside.write_text(study_results.chart(result), encoding="utf-8")
    if json:
        print_json({**result, "participants": people})
        return
    rows = []
    for each in result["outcomes"]:
        share = "" if each["share"] is None else f"{each['share']:.1%}"
        interval = "" if each["share"] is None else f"{each['low']:.1%} to {each['high']:.1%}"
        rows.append([each["option"], str(each["cases"]), share, interval])
    headers = ["closer to what the user said", "cases", "share of valid cases", "95% interval"]
    console().print(FittingTable(headers, rows, title=f"study {id_} {result['title']}".rstrip()))
    kappa = "not defined yet" if result["kappa"] is None else f"{result['kappa']:.2f}"
    note(
        f"{result['valid_cases']} of {result['cases']} cases valid, {number_of(result['answers'], 'answer')}; "
        f"Fleiss' kappa {kappa}"
    )
    for each in people:
        note(f"  participant {each['participant']}: {each['answered']} answered, link {_link(url, each['path'])}")


@command("export", "whyrank study export -o answers.csv", study_app)
def export_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="The CSV file to write.")],
    study_id: StudyId = None,
    store: StoreOption = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Write one row per answer: case, user, item, participant, choice."""
    from whyrank.atomic import new_file
    from whyrank.lab.study import results as study_results

    with opened_store(store) as opened:
        id_ = study_id or _newest(opened)
        text = study_results.answers_csv(opened, id_)
    with new_file(output) as aside:
        aside.write_text(text, encoding="utf-8")
    answers = text.count("\n") - 1
    if json:
        print_json({"study": id_, "answers": answers, "output": output})
    else:
        note(f"study {id_}: {number_of(answers, 'answer')} -> {output}")


def _link(url: str, path: str) -> str:
    """What a participant is sent."""
    if not url.startswith(("http://", "https://")):
        raise ParameterError(
            f"--url is {url!r}; give the address that participants reach, such as https://example.org/"
        )
    return url.rstrip("/") + "/" + path


def _port(url: str) -> str:
    """What `study serve` needs so that links to this machine lead to it."""
    parts = urlsplit(url)
    return f" --port {parts.port}" if parts.hostname in ("127.0.0.1", "localhost") and parts.port else ""


def _newest(store: Store) -> str:
    from whyrank.lab.study import studies as study
    from whyrank.online.store import NotInStore

    found = study.listed(store)
    if not found:
        raise NotInStore("there is no study; make one with `whyrank study create`")
    return str(found[0]["id"])
