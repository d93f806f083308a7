"""The page in a real Chromium, against a service in a process of its own."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

import whyrank as wr
from needs import need
from page_world import ARGUMENTS, CHROMIUM, experiment_of_two_weeks
from whyrank.lab.simulate import simulate_reviews
from whyrank.models import model_class
from whyrank.online.store import Store
from whyrank.service.refresh_log import add_refresh

KEY = "open sesame"
PREFIX = "/reasons"
VIEWS = (
    *("?", "?user={user}", "?user={user}&compare=pop&scores=1", "?view=item&item={item}", "?view=model&compare=pop"),
    *("?view=pool", "?view=pool&by=aspect", "?view=study", "?view=experiments", "?view=experiments&experiment=diverse"),
    *("?view=experiments&experiment=diverse&lists=1", "?view=feedback", "?view=feedback&by=explanation"),
    "?view=feedback&by=explanation&experiment=diverse",
)
AXE = Path(__file__).parent.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"


def _playwright() -> Any:
    try:
        from playwright import sync_api
    except ImportError:
        return None
    return sync_api


need(CHROMIUM.exists(), "Chromium is missing: apt-get install chromium", always=True)
PAGE = resources.files("whyrank.service") / "page" / "index.html"
need(PAGE.is_file(), "the page is not built: make page", always=True)
need(_playwright(), "Playwright is missing: pip install playwright", always=True)

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright  # noqa: E402

from service_world import Process  # noqa: E402

REPORT = {
    "evaluation": {
        "k": 10,
        "pairs": 100,
        "explanation": {"ndcg_paper": 0.0312, "f1": 0.05, "hit": 0.271},
        "recommendation": None,
    },
    "baseline": {"explanation": {"ndcg_paper": 0.0311, "hit": 0.22}, "p_value": {"ndcg_paper": 0.4, "hit": 0.00002}},
    "missed": [{"user": "u000001", "item": "i00001", "said": ["friendly staff"]}],
    "training": [{"epoch": epoch, "loss": 0.7 / epoch} for epoch in (1, 2, 3, 1, 2)],  # two trainings in a row
    "mu_curve": [{"mu": mu / 10, "ndcg_paper": 0.03 - (mu / 10 - 0.5) ** 2 / 50} for mu in range(11)],
    "alpha_curve": [],
    "strata": [
        {"stratum": "1-5", "pairs": 20, "ndcg_paper": 0.01},
        {"stratum": "over 5", "pairs": 80, "ndcg_paper": 0.04},
    ],
}


WAIT = 60_000  # milliseconds until what never comes is a failure; a busy machine may need many of them
expect.set_options(timeout=WAIT)


class Watched:
    """A page whose requests and complaints are remembered."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.hosts: set[str] = set()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("request", self._request)
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("blob:", "data:")):
            self.hosts.add(urlsplit(request.url).netloc)
            self.asked.append(urlsplit(request.url).path)

    def open(self, query: str = "") -> Page:
        self.page.goto(self.base + query)
        return self.page

    def expect_complaint(self, text: str) -> None:
        """Allow what the browser itself logs about an answer that the test provokes."""
        assert any(text in complaint for complaint in self.complaints)
        self.complaints.clear()

    def check(self) -> None:
        assert self.hosts <= {urlsplit(self.base).netloc}, "the page asked another host"
        assert self.complaints == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split, two models and a report."""
    folder = tmp_path_factory.mktemp("page")
    split = wr.simulate("small", seed=0).split(seed=0)
    split.write(folder / "split")
    model_class("bper-j")(epochs=20).fit(split).save(folder / "bper-j")
    model_class("pop")().fit(split).save(folder / "pop")
    reviews = simulate_reviews("small", seed=0, users=60, items=20, records=500)
    model_class("counts")().fit(wr.mine(reviews).triplets).save(folder / "mined")
    (folder / "bper-j.metrics.json").write_text(json.dumps(REPORT))
    return folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[str]:
    store = Store(f"sqlite:///{folder}/store.db").create()
    experiment_of_two_weeks(store, wr.load(folder / "mined").catalog_.explanations.ids.to_list())
    store.close()
    models = [str(folder / name) for name in ("bper-j", "pop", "mined")]
    items = wr.load(folder / "bper-j").catalog_.items.ids.to_list()
    table = "\n".join(f"{item},{'small' if at % 5 == 0 else 'large'}" for at, item in enumerate(items))
    (folder / "groups.csv").write_text(f"item,group\n{table}\n")
    more = ["--split", str(folder / "split"), "--store", f"sqlite:///{folder}/store.db", "--rate", "0"]
    more += ["--groups", str(folder / "groups.csv")]
    with Process("serve", *models, *more) as process:
        yield process.url


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[str]:
    """One model that ranks no items, behind a prefix and a key."""
    store = ["--store", f"sqlite:///{folder}/guarded.db", "--prefix", PREFIX]
    key, looks, logs = (hashlib.sha256(each.encode()).hexdigest() for each in (KEY, "looks", "logs"))
    keys = f"{key},{looks} shop ask,{logs} shop log"
    with Process("serve", str(folder / "pop"), *store, WHYRANK_API_KEYS=keys) as process:
        yield process.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def watched(browser: Browser, service: str) -> Iterator[Watched]:
    """A fresh page; in the end it must have asked nobody else and logged no error."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        watched = Watched(context.new_page(), service)
        yield watched
        watched.check()


@pytest.fixture
def mined(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The page of a model of mined statements, which have aspects and quotes."""
    plain = watched.open
    monkeypatch.setattr(watched, "open", lambda query="": plain(f"{query}&model=counts"))
    return watched


@pytest.fixture(scope="module")
def user(folder: Path) -> str:
    """Someone with much to say."""
    catalog = wr.load(folder / "pop").catalog_
    return str(catalog.users.ids[int(np.diff(catalog.user_items.indptr).argmax())])


def cards(page: Page) -> Locator:
    return page.get_by_role("article")


def reasons(page: Page) -> list[str]:
    """What is shown, once it is."""
    cards(page).first.wait_for()
    return page.locator("article .text").all_inner_texts()


# -- explore -----------------------------------------------------------------------------------------------------------


def test_a_user_is_found_with_the_keyboard_and_gets_items_with_reasons(watched: Watched, user: str) -> None:
    page = watched.open()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Rank the reasons")
    field = page.get_by_role("combobox", name="User")
    field.focus()
    page.keyboard.type(user[:-1])
    expect(page.get_by_role("option").first).to_contain_text(user[:-1])
    page.keyboard.press("ArrowDown")
    chosen = page.get_by_role("option", selected=True).inner_text().split()[0]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"user={chosen}"))
    expect(page.get_by_role("heading", name=f"What {chosen} said before")).to_be_visible()
    expect(cards(page)).to_have_count(10)
    expect(page).to_have_title(f"Recommended for {chosen} · whyrank")
    expect(page.get_by_role("region", name="Reasons")).to_be_focused()
    first = cards(page).first
    expect(first).to_contain_text(re.compile(r"\d+ (people|person) for"))
    expect(first.locator(".text").first).to_have_text(re.compile(r"(people|person).*\.", re.I))
    expect(first.get_by_role("img")).to_have_count(0)
    page.get_by_role("button", name="Show scores").click()
    bar = first.get_by_role("img").first.get_attribute("aria-label") or ""
    assert re.search(r"Net score .*: .*popularity ", bar)


def test_what_is_marked_stays_marked_when_a_later_list_has_it(watched: Watched, user: str) -> None:
    page, held = watched.open(), []
    page.get_by_role("combobox", name="User").focus()
    page.keyboard.type(user[:-2])
    expect(page.get_by_role("option").first).to_contain_text(user)
    page.route("**/v1/users?*", lambda route: held.append(route))
    with page.expect_request("**/v1/users?*"):
        page.keyboard.type(user[-2])
        page.keyboard.press("ArrowDown")  # in the list that is there while the next is asked for
    expect(page.get_by_role("option", selected=True)).to_contain_text(user)
    with page.expect_response("**/v1/users?*"):
        held[-1].continue_()
    expect(page.get_by_role("option").filter(has_not_text=user[:-1])).to_have_count(0)
    expect(page.get_by_role("option", selected=True)).to_contain_text(user)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"user={user}"))


def test_enter_takes_the_only_one_that_is_left(watched: Watched, user: str) -> None:
    page = watched.open()
    page.get_by_role("combobox", name="User").focus()
    page.keyboard.type(user[1:])
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("option").first).to_contain_text(user)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"user={user}"))


def test_a_model_that_is_not_served_is_named(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}&model=gone")
    expect(page.get_by_role("alert")).to_contain_text("No model “gone” is served here")
    expect(cards(page)).to_have_count(10)


def test_a_slider_ranks_anew_and_the_address_says_so(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}")
    before = reasons(page)
    slider = page.get_by_role("slider", name="Weight of the user")
    with page.expect_response("**/v1/recommend") as answer:
        slider.focus()
        page.keyboard.press("Home")
    assert answer.value.request.post_data_json["mu"] == 0
    assert answer.value.request.post_data_json["similar"] is True
    expect(page).to_have_url(re.compile("mu=0"))
    expect(page.locator("article .text")).not_to_have_text(before)
    after = reasons(page)
    page.reload()
    assert reasons(page) == after
    page.get_by_role("button", name="Reset to the model's settings").click()
    expect(page.locator("article .text")).to_have_text(before)


def test_goals_of_items_are_set_where_items_are_chosen_and_their_cost_is_told(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}")
    before = cards(page).first.inner_text()
    slider = page.get_by_role("slider", name="Minimum share of small")
    with page.expect_response("**/v1/recommend") as answer:
        slider.focus()
        page.keyboard.press("End")
    assert answer.value.request.post_data_json["shares"] == {"small": 1}
    expect(page.get_by_text("of the NDCG of the list by score alone")).to_be_visible()
    assert cards(page).first.inner_text() != before
    with page.expect_response("**/v1/recommend") as answer:
        page.get_by_role("slider", name="Serendipity").focus()
        page.keyboard.press("End")
    assert answer.value.request.post_data_json["serendipity"] == 1
    page.get_by_role("button", name="Reset to the model's settings").click()
    expect(page.get_by_text("of the NDCG of the list by score alone")).to_have_count(0)
    page.goto(f"{watched.base}?user={user}&item=i00001")
    expect(page.get_by_role("slider", name="Rare reasons")).to_be_visible()
    expect(page.get_by_role("slider", name="Serendipity")).to_have_count(0)


def test_disrecommendation_shows_what_speaks_against(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}")
    cards(page).first.wait_for()
    page.get_by_role("radio", name="Against").check(force=True)
    expect(page.get_by_role("heading", name="What speaks against")).to_be_visible()
    expect(cards(page).get_by_text(re.compile("(people|person) against")).first).to_be_visible()
    expect(page.locator("article .sentiment:not(.negative)")).to_have_count(0)
    expect(page.locator("article .sentiment").first).to_be_visible()


def test_two_models_stand_side_by_side_with_differences_marked(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}&grounded=0")
    page.get_by_label("Compare with").select_option("pop")
    expect(page).to_have_url(re.compile("compare=pop"))
    expect(cards(page).first.get_by_role("list")).to_have_count(2)
    marked = 0
    for card in cards(page).all():
        mine, theirs = (card.get_by_role("list").nth(side) for side in (0, 1))
        others = [each.get_attribute("href") for each in theirs.locator(".text").all()]
        for place, reason in enumerate(mine.get_by_role("listitem").all()):
            link, marks = reason.locator(".text").get_attribute("href"), reason.locator(".mark").all_inner_texts()
            assert marks == difference(place, others.index(link) if link in others else None)
            marked += len(marks)
    assert marked > 0


def difference(place: int, other: int | None) -> list[str]:
    """The marks of a reason that stands at `place` here and at `other` in the other list."""
    if other is None:
        return ["only here"]
    by = abs(place - other)
    return [f"{by} place{'s' * (by > 1)} {'higher' if other > place else 'lower'} here"] if by else []


@pytest.mark.parametrize("model", ["bper-j", "pop"])
def test_net_scores_add_up_fall_with_rank_and_count_from_the_average(watched: Watched, user: str, model: str) -> None:
    page = watched.open(f"?user={user}&model={model}&scores=1")
    cards(page).first.wait_for()
    nets = []
    for line in cards(page).first.locator(".numbers").all_inner_texts():
        total, parts = line.replace("−", "-").split("=")
        values = [float(value) for value in re.findall(r"[+-]\d+\.\d+", parts)]
        assert sum(values) == pytest.approx(float(total), abs=0.03)
        nets.append(float(total))
    assert nets == sorted(nets, reverse=True)
    assert nets[0] > 0, "what people say about an item is more popular than the average of the pool"


def test_a_new_user_is_told_from_a_known_one(watched: Watched) -> None:
    page = watched.open("?user=nobody")
    expect(page.get_by_text("This user is new here")).to_be_visible()
    expect(cards(page)).to_have_count(10)
    watched.expect_complaint("404")


def test_a_mistyped_id_suggests_the_nearest(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}0")
    page.get_by_text("Did you mean").wait_for()
    page.locator("a.chip", has_text=user).first.click()
    expect(page).to_have_url(re.compile(f"user={user}"))
    expect(page.get_by_role("heading", name=f"What {user} said before")).to_be_visible()
    watched.expect_complaint("404")
    page = watched.open("?view=item&item=i0000")
    expect(page.get_by_role("heading", name="There is no item “i0000”")).to_be_visible()
    page.locator("a.chip").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("i0")
    watched.expect_complaint("404")


def test_an_item_has_a_page_with_praise_criticism_and_similar_items(mined: Watched) -> None:
    page = mined.open("?item=i00001")  # an item and nobody: the item's own page
    expect(page.get_by_role("heading", level=1)).to_have_text("i00001")
    expect(page).to_have_title("i00001 · whyrank")
    answer = page.request.get(f"{mined.base}v1/items/i00001?model=counts").json()
    aspect = answer["aspects"][0]
    section = page.get_by_role("region", name=aspect["aspect"], exact=True)
    votes = [(aspect["praising"], "for"), (aspect["blaming"], "against")]
    for count, side in ((count, side) for count, side in votes if count):
        expect(section).to_contain_text(re.compile(rf"{count}( people| person)? {side}"))
    section.locator("summary").first.click()
    expect(section.get_by_text(re.compile(r"Review \d+")).first).to_be_visible()
    page.get_by_role("combobox", name="Why this item for a user?").fill("u00000")
    page.get_by_role("option").first.click()
    expect(page).to_have_title(re.compile("Why i00001 for u00000"))
    page.get_by_role("link", name="About i00001").click()
    page.locator(".similar a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(answer["similar"][0]["id"])


def test_the_field_of_an_item_shows_its_title_and_still_means_the_item(watched: Watched, user: str) -> None:
    def titled(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "title": "The Old Mill"})

    watched.page.route("**/v1/items/i00001*", titled)
    page = watched.open(f"?user={user}&item=i00001")
    field = page.get_by_role("combobox", name="Item")
    expect(field).to_have_value("The Old Mill")
    expect(page).to_have_title(f"Why The Old Mill for {user} · whyrank")
    field.click()
    expect(page.get_by_role("option").first).to_be_visible()
    field.press("Escape")
    field.press("Enter")
    expect(page).to_have_url(re.compile("item=i00001"))
    field.fill("i0000")
    page.get_by_role("option").filter(has_text="i00002").click()
    expect(page).to_have_url(re.compile("item=i00002"))
    expect(field).to_have_value("i00002")
    page.go_back()
    expect(field).to_have_value("The Old Mill")


def test_the_pool_opens_as_a_tree_of_aspects(mined: Watched) -> None:
    page = mined.open("?view=pool")
    page.get_by_role("radio", name="By aspect").check(force=True)
    branch = page.get_by_role("button", expanded=False).filter(has_text="explanation").first
    name = branch.locator(".name").inner_text()
    branch.click()
    expect(page.locator("tbody tr").first).to_contain_text(name.split()[-1].rstrip("s")[:4])
    page.get_by_label("Search").fill("zebra")
    expect(page.get_by_text("No aspect contains “zebra”")).to_be_visible()
    expect(page.get_by_text("0 aspects")).to_be_visible()


def test_an_aspect_shows_its_own_explanations_after_the_back_button(mined: Watched) -> None:
    page, held = mined.open("?view=pool&by=aspect"), []
    aspects = page.locator("button[aria-expanded]")
    for place in (0, 1):
        aspects.nth(place).click()
        expect(aspects.nth(place)).to_have_attribute("aria-expanded", "true")
        expect(page.locator("tbody tr").first).to_be_visible()
    second = page.locator("tbody tr").first.inner_text()
    page.route("**/v1/explanations?*", lambda route: held.append(route))
    with page.expect_request("**/v1/explanations?*"):
        page.go_back()
    expect(aspects.first).to_have_attribute("aria-expanded", "true")
    expect(page.locator("tbody tr")).to_have_count(0)
    with page.expect_response("**/v1/explanations?*"):
        held[-1].continue_()
    expect(page.locator("tbody tr").first).to_be_visible()
    assert page.locator("tbody tr").first.inner_text() != second


def test_a_pool_whose_aspects_do_not_come_says_so(mined: Watched) -> None:
    mined.page.route("**/v1/aspects*", lambda route: route.abort())
    page = mined.open("?view=pool&by=aspect")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    mined.expect_complaint("ERR_FAILED")
    mined.page.unroute("**/v1/aspects*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", expanded=False).first).to_contain_text("explanation")


def test_what_is_shown_can_be_saved_as_table_and_picture(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}")
    count = len(reasons(page))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == count
    assert rows[0]["sentence"] == page.locator("article .text").first.inner_text()
    for view in (f"?user={user}&item=i00001", "?view=model", "?view=pool"):
        watched.open(view)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as PNG").first.click()
        assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


# -- model and pool ----------------------------------------------------------------------------------------------------


def test_the_model_page_shows_metrics_and_values_under_the_pointer(watched: Watched) -> None:
    page = watched.open("?view=model")
    expect(page.get_by_text("finds a right reason in 27 of 100 lists of 10")).to_be_visible()
    expect(page.get_by_text("only 22 of 100; p\u00a0<\u00a00.001")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("NDCG .paper."))).to_contain_text("3.12%")
    expect(page.get_by_role("row", name=re.compile("Hit rate"))).to_contain_text(re.compile(r"27.10%\*\s*22.00%"))
    expect(page.get_by_role("link", name="i00001 for u000001")).to_be_visible()
    chart = page.locator("section", has_text="Weight of the user").get_by_role("img", name="NDCG (paper)")
    expect(chart).to_contain_text("0.00%")  # the axis begins at zero
    chart.hover()
    expect(page.locator(".tip")).to_contain_text("BPER-J")
    page.mouse.move(0, 0)
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip")).to_contain_text("weight of the user (mu) 0")
    expect(page.locator(".tip")).to_contain_text("2.50%")
    expect(page.get_by_role("img", name=re.compile("over 5: .*4.00%"))).to_be_visible()
    page.get_by_label("Model", exact=True).select_option("pop")
    expect(page.get_by_text("POP has not been evaluated yet")).to_be_visible()


def test_the_model_page_says_which_versions_were_served_and_why_one_was_refused(watched: Watched, folder: Path) -> None:
    gate = {"metric": "ndcg", "records": 50, "served": 0.4, "candidate": 0.3, "difference": -0.1, "tolerance": 0.02}
    about = {"run": "a", "digest": "0123456789ab", "kind": "pop", "data": "x", "sizes": {"triplets": 77}, "files": 2}
    more = {"gate": {**gate, "interval": [-0.2, 0], "passed": False}}
    add_refresh(folder / "pop", {"time": "2999-01-01T00:00:00Z", "outcome": "refused", **about, **more})
    page = watched.open("?view=model&model=pop")
    versions = page.get_by_role("region", name="History").get_by_role("listitem")
    expect(versions).to_have_count(2)
    expect(versions.first).to_contain_text("Refused")
    expect(versions.first).to_contain_text("77 triplets · 2 new files of reviews")
    expect(versions.first).to_contain_text("25.0% worse than the model in service; at most 2% is allowed")
    expect(versions.first).to_contain_text("NDCG 30.00%, against 40.00% of the model before it (50 held-out records)")
    expect(versions.nth(1)).to_contain_text("In service")
    expect(versions.nth(1)).to_contain_text(wr.load(folder / "pop").digest()[:8])
    with page.expect_download() as saved:
        page.get_by_role("region", name="History").get_by_role("button", name="Save as CSV").click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["refused", "served"]


def test_the_pool_is_searched_and_paged_and_says_who_says_it(watched: Watched) -> None:
    page = watched.open("?view=pool")
    first = page.get_by_role("row").nth(1).inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(re.compile("offset=25"))
    expect(page.get_by_role("row").nth(1)).not_to_have_text(first)
    page.get_by_label("Search").fill("breakfast")
    expect(page).to_have_url(re.compile("query=breakfast"))
    expect(page.locator("tbody tr").first).to_contain_text(re.compile("breakfast", re.I))
    page.locator("tbody a").first.click()
    detail = page.get_by_role("complementary")
    expect(detail.get_by_role("heading", name="Near-duplicates")).to_be_visible()
    detail.get_by_role("heading", name="Users who say it").wait_for()
    detail.locator("a.chip").first.click()
    expect(page).to_have_url(re.compile("view=explore.*user="))
    expect(page.get_by_role("heading", name=re.compile("said before"))).to_be_visible()
    watched.open("?view=pool&query=zebra")
    expect(page.get_by_text("Nothing in the pool matches")).to_be_visible()


def test_near_duplicates_are_saved_as_a_review_that_mining_applies(mined: Watched, folder: Path) -> None:
    def with_duplicates(route: Any) -> None:
        others = [("staff|kind|+", "kind, helpful staff"), ("staff|cold|-", "cold staff")]
        found = [{"id": id_, "text": text, "frequency": 3, "overlap": 0.8} for id_, text in others]
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "near_duplicates": found})

    one = wr.load(folder / "mined").catalog_.explanations.ids[0]
    mined.page.route(re.compile(r"v1/explanations/[^?]"), with_duplicates)
    page = mined.open(f"?view=pool&explanation={quote(one)}")
    save = page.get_by_role("button", name="Save merges")
    expect(save).to_be_disabled()
    page.get_by_label("“kind, helpful staff” means the same").check()
    with page.expect_download() as saved:
        save.click()
    assert saved.value.suggested_filename == "merges.csv"
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row == {"decision": "merge", "into": one, "id": "staff|kind|+", "text": "kind, helpful staff"}


# -- study -------------------------------------------------------------------------------------------------------------


def take_part(page: Page, link: str, keys: str) -> str:
    """Answer every case, the first with the button and the others with a key; all that the page held on the way."""
    page.goto(link)
    expect(page.get_by_role("navigation")).to_have_count(0)
    page.get_by_role("button", name="Start").click()
    total = int(page.locator(".progress").inner_text().split()[-1])
    seen = ""
    for number in range(total):
        expect(page.locator(".progress")).to_contain_text(f"{number + 1} of {total}")
        seen += page.content()
        if number == 0:
            page.get_by_role("button", name="Left is closer" if keys == "ArrowLeft" else "Right is closer").click()
            expect(page.locator(".progress")).to_contain_text(f"2 of {total}")
            page.get_by_role("button", name="Change my last answer").click()
            expect(page.locator(".progress")).to_contain_text(f"1 of {total}")
            page.keyboard.press(keys)
            expect(page.locator(".progress")).to_contain_text(f"2 of {total}")
            page.reload()  # who comes back goes on where they were
        else:
            page.keyboard.press(keys)
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    return seen + page.content()


def test_a_study_is_created_taken_blindly_and_counted(watched: Watched, browser: Browser) -> None:
    page = watched.open("?view=study")
    expect(page.get_by_text("No study yet")).to_be_visible()
    expect(page).to_have_title("Studies · whyrank")
    page.get_by_label("Cases", exact=True).fill("3")
    page.get_by_role("button", name="Create the study").click()
    expect(page.get_by_role("heading", name="BPER-J or POP?")).to_be_visible()
    links = page.get_by_role("link", name=re.compile(r"Participant \d"))
    expect(links).to_have_count(3)
    targets = [str(link.get_attribute("href")) for link in links.all()]
    for target, key in zip(targets, ("ArrowLeft", "ArrowLeft", "ArrowRight"), strict=True):
        with browser.new_context() as context:
            guest = Watched(context.new_page(), watched.base)
            bodies: list[str] = []
            guest.page.on("response", lambda answer, to=bodies: "/v1/" in answer.url and to.append(answer.text()))
            seen = take_part(guest.page, target, key) + "".join(bodies)
            assert not re.search(r"bper|pop\b", seen, re.I), "a participant could tell which model is which"
            assert all(path.startswith("/v1/take/") for path in guest.asked if path.startswith("/v1/"))
            guest.check()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("done")).to_have_count(3)
    expect(page.get_by_role("definition").first).to_have_text("9")
    expect(page.get_by_role("definition").nth(1)).to_have_text(re.compile(r"\d of 3"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save answers (CSV)").click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 9
    page.get_by_text("Case 1").click()
    expect(page.get_by_text("What the user said").first).to_be_visible()
    page.get_by_role("link", name="All studies").click()
    expect(page.get_by_text("9 of 9 answers")).to_be_visible()


def test_an_answer_is_saved_after_a_lost_connection_and_keys_work_in_any_case(
    watched: Watched, browser: Browser
) -> None:
    asked = {"a": "bper-j", "b": "pop", "cases": 2, "participants": 1, "agreement": 1, "ties": True}
    made = watched.page.request.post(f"{watched.base}v1/studies", data=asked).json()
    page = watched.open(made["participants"][0]["path"])
    page.get_by_role("button", name="Start").click()
    page.route("**/v1/take/*", lambda route: route.abort())
    page.keyboard.press("E")
    expect(page.get_by_role("alert")).to_contain_text("not saved yet")
    watched.expect_complaint("ERR_FAILED")
    page.unroute("**/v1/take/*")
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_text("your answer was saved")).to_be_visible()
    expect(page.locator(".progress")).to_contain_text("2 of 2")
    watched.open(f"?view=study&study={made['id']}")
    expect(page.get_by_text("no votes yet")).to_have_count(1)
    expect(page.get_by_text("Question: Which list is closer in meaning")).to_be_visible()


def test_what_does_not_exist_is_not_asked_for_again(watched: Watched) -> None:
    page = watched.open("?view=study&study=none")
    expect(page.get_by_role("alert")).to_have_text("There is no study 'none' in this store.")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    watched.expect_complaint("404")


def test_a_wrong_link_is_answered_kindly(watched: Watched) -> None:
    page = watched.open("?view=take&token=wrong")
    expect(page.get_by_role("heading", name="We do not know this link")).to_be_visible()
    watched.expect_complaint("404")


# -- experiments and feedback ------------------------------------------------------------------------------------------


def test_an_experiment_is_read_from_its_verdict_to_its_lists(watched: Watched) -> None:
    page = watched.open("?view=experiments")
    card = page.get_by_role("listitem").filter(has_text="diverse")
    expect(card).to_contain_text("running for 100% of users")
    expect(card).to_contain_text("enough to decide")
    page.get_by_role("link", name="diverse", exact=True).click()
    answer = page.request.get(f"{watched.base}v1/experiments/diverse/results").json()
    expect(page.locator(".verdict")).to_have_text(answer["verdict"])
    expect(page).to_have_title("diverse · Experiments · whyrank")
    expect(page.get_by_role("row").nth(2)).to_contain_text(f"{100 * answer['comparisons'][0]['uplift']:+.1f}%")
    chart = page.get_by_role("img", name="b against a")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    last = answer["comparisons"][0]
    expect(page.locator(".tip")).to_contain_text(f"{100 * last['low']:+.2f} to {100 * last['high']:+.2f}")
    expect(page.get_by_text("Numbers of users are as they should be")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        assert [row["users"] for row in csv.DictReader(file)] == [str(arm["users"]) for arm in answer["arms"]]
    page.get_by_role("link", name="clicks of arm b").click()
    expect(page).to_have_url(re.compile("arm=b&event=clicked"))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(25)
    expect(rows.filter(has_text="clicked")).to_have_count(25)
    first = rows.first.inner_text()
    page.get_by_role("link", name="Earlier").click()
    expect(rows.first).not_to_have_text(first)
    page.get_by_role("link", name="Latest").click()
    expect(rows.first).to_contain_text(first.split("\t")[1])


def test_an_experiment_is_created_ramped_and_stopped(watched: Watched) -> None:
    page = watched.open("?view=experiments")
    page.get_by_label("Name (letters").fill("at-all")
    page.get_by_label("Model").nth(1).select_option("none")
    options = page.get_by_label("Options")
    options.fill("diversity")
    page.get_by_role("button", name="Create the experiment").click()
    expect(page.get_by_role("alert")).to_contain_text("write options as diversity=0.5")
    options.fill("diversity=0.5, grounded=false")
    page.get_by_role("slider").press("Home")
    page.get_by_role("button", name="Create the experiment").click()
    expect(page.get_by_role("heading", name="at-all")).to_be_visible()
    expect(page.get_by_text("Nobody has taken part yet")).to_be_visible()
    made = page.request.get(f"{watched.base}v1/experiments/at-all").json()
    assert (made["ramp"], made["arms"][1]["model"]) == (0, "none")
    assert made["arms"][0]["options"] == {"diversity": 0.5, "grounded": False}
    page.get_by_role("slider").press("End")
    page.get_by_role("button", name="Change to 100%").click()
    expect(page.get_by_role("button", name="100% take part")).to_be_disabled()
    page.get_by_role("button", name="Stop the experiment…").click()
    page.get_by_role("button", name="Let it run").click()
    assert page.request.get(f"{watched.base}v1/experiments/at-all").json()["stopped"] is None
    page.get_by_role("button", name="Stop the experiment…").click()
    page.get_by_role("button", name="Stop it for good").click()
    expect(page.get_by_text("This experiment is stopped")).to_be_visible()


def test_feedback_shows_which_reasons_work_and_leads_to_their_lists(watched: Watched) -> None:
    page = watched.open("?view=feedback&experiment=diverse&arm=b")
    page.get_by_role("radio", name="Reasons").check(force=True)
    asked = "v1/feedback/reasons?by=explanation&experiment=diverse&arm=b"
    answer = page.request.get(watched.base + asked).json()
    rows = page.get_by_role("region", name="Reasons by clicks").locator("tbody tr")
    expect(rows).to_have_count(answer["total"])
    best = answer["rows"][0]
    expect(rows.first).to_contain_text(best["text"])
    expect(rows.first).to_contain_text(f"{100 * best['rate']:.1f}%")
    expect(rows.first).to_contain_text("above the usual rate")
    rows.first.get_by_role("link", name="Lists with").click()
    expect(page.get_by_role("heading", name="What was shown")).to_be_visible()
    page.locator("tbody tr").first.wait_for()
    assert all(best["text"] in row for row in page.locator("tbody tr").all_inner_texts())


def test_arms_stand_side_by_side_in_feedback(watched: Watched) -> None:
    page = watched.open("?view=feedback&by=explanation&experiment=diverse")
    answer = page.request.get(f"{watched.base}v1/feedback/reasons?by=explanation&experiment=diverse").json()
    best = answer["rows"][0]
    assert [each["arm"] for each in best["arms"]] == ["a", "b"]
    assert sum(each["shown"] for each in best["arms"]) == best["shown"]
    row = page.get_by_role("region", name="Reasons by clicks").locator("tbody tr").first
    for each in best["arms"]:
        expect(row.locator(".chart")).to_contain_text(re.compile(f"{each['arm']} *{100 * each['rate']:.1f}%"))


# -- everywhere --------------------------------------------------------------------------------------------------------


WIDER = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.documentElement.scrollWidth - document.documentElement.clientWidth))))"""


def settle(page: Page) -> None:
    """Wait until the view shows what it asked for."""
    page.locator("main, .take, h1").first.wait_for()
    expect(page.get_by_text(re.compile("^(Loading .*|…)$"))).to_have_count(0)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing: make page")
def test_no_view_has_findings_of_axe_or_scrolls_sideways_on_a_phone(browser: Browser, service: str, user: str) -> None:
    rules = AXE.read_text(encoding="utf-8")
    large, phone = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
    with browser.new_context(color_scheme="light", bypass_csp=True, viewport=large) as context:
        watched = Watched(context.new_page(), service)
        page = watched.page
        asked = {"a": "bper-j", "b": "pop", "cases": 2, "participants": 1, "agreement": 1, "ties": True}
        made = page.request.post(f"{service}v1/studies", data=asked).json()
        link, results = made["participants"][0]["path"], f"?view=study&study={made['id']}"
        for view in (*VIEWS, results, link):
            watched.open(view.format(user=user, item="i00001"))
            settle(page)
            page.evaluate(rules)
            assert axe_findings(page) == [], view
            page.set_viewport_size(phone)
            assert page.evaluate(WIDER) <= 0, view
            page.set_viewport_size(large)
        page.get_by_role("button", name="Start").click()
        page.locator(".progress").wait_for()
        assert axe_findings(page) == [], "a case"
        for _ in range(2):
            before = page.locator(".progress").inner_text()
            page.keyboard.press("ArrowLeft")
            page.wait_for_function("before => document.querySelector('.progress')?.innerText !== before", arg=before)
        page.get_by_role("heading", name="Thank you.").wait_for()
        assert axe_findings(page) == [], "the end"
        watched.open(results)
        page.get_by_text("Case 1").click()
        page.evaluate(rules)
        assert axe_findings(page) == [], "results with answers"
        watched.check()
        watched.open("?view=take&token=wrong")
        page.get_by_role("heading", name="We do not know this link").wait_for()
        page.evaluate(rules)
        assert axe_findings(page) == [], "a wrong link"


def axe_findings(page: Page) -> list[tuple[str, list[str]]]:
    """What axe-core finds on the page as it is, and in dark colours."""
    found = page.evaluate("axe.run().then((result) => result.violations)")
    page.emulate_media(color_scheme="dark")
    found += page.evaluate("axe.run({runOnly: ['color-contrast']}).then((result) => result.violations)")
    page.emulate_media(color_scheme="light")
    return [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]


def test_colours_follow_the_system_until_the_person_chooses(browser: Browser, service: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with browser.new_context(color_scheme="dark") as context:
        page = Watched(context.new_page(), service).open()
        dark = page.evaluate(background)
        page.get_by_role("button", name="Light colours").click()
        light = page.evaluate(background)
        assert light != dark
        page.reload()
        page.get_by_role("button", name="Dark colours").wait_for()
        assert page.evaluate(background) == light


def test_the_keyboard_reaches_everything_and_focus_is_visible(watched: Watched) -> None:
    page = watched.open("?view=pool")
    page.get_by_role("row").nth(1).wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    names = []
    for _ in range(8):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.ariaLabel"))
        assert page.evaluate(
            "[document.activeElement, document.activeElement.nextElementSibling].some("
            "one => one && getComputedStyle(one).outlineStyle !== 'none')"
        )
    assert names[:5] == ["whyrank", "explore", "items", "model", "pool"]
    page.get_by_role("link", name="model", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("heading", name="The pool of explanations")).to_be_visible()


def test_a_service_that_went_away_is_said_and_can_be_asked_again(watched: Watched, user: str) -> None:
    page = watched.open(f"?user={user}")
    cards(page).first.wait_for()
    page.route("**/v1/recommend", lambda route: route.abort())
    page.get_by_role("slider", name="Diversity").press("End")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/v1/recommend")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("region", name="Reasons")).to_have_attribute("aria-busy", "false")
    expect(cards(page).first).to_be_visible()
    watched.expect_complaint("ERR_FAILED")


def test_behind_a_prefix_and_a_key_a_model_without_items_asks_for_one(
    browser: Browser, guarded: str, user: str
) -> None:
    assert urlsplit(guarded).path == f"{PREFIX}/"
    with browser.new_context() as context:
        watched = Watched(context.new_page(), guarded)
        page = watched.open(f"?user={user}")
        page.get_by_label("Key").fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("alert")).to_contain_text("This key was not accepted")
        page.get_by_label("Key").fill(KEY)
        page.get_by_role("button", name="Open").click()
        watched.expect_complaint("401")
        expect(page.get_by_text("POP ranks reasons, not items")).to_be_visible()
        page.locator(".choices a").first.click()
        expect(page).to_have_url(re.compile("item="))
        expect(cards(page)).to_have_count(1)
        expect(page.get_by_role("slider", name="Weight of the user")).to_have_count(0)
        assert all(path.startswith(PREFIX) for path in watched.asked)
        watched.check()


def test_a_key_sees_the_views_it_opens_and_is_told_about_the_others(browser: Browser, guarded: str) -> None:
    with browser.new_context() as context:
        watched = Watched(context.new_page(), guarded)
        page = watched.open("?view=study")
        page.get_by_label("Key").fill("looks")
        page.get_by_role("button", name="Open").click()
        watched.expect_complaint("401")
        expect(page.get_by_role("heading", name="Your key does not open this view")).to_be_visible()
        expect(page).to_have_title("Not allowed · whyrank")
        links = page.get_by_role("navigation").get_by_role("link")
        expect(links).to_have_text(["explore", "items", "model", "pool"])
        page.get_by_role("button", name="Use another key").click()
        page.get_by_label("Key").fill("logs")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("heading", name="Your key does not open this page")).to_be_visible()
        watched.expect_complaint("403")
        page.get_by_role("button", name="Use another key").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_label("Key").fill(KEY)
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("heading", name="Run a blind study")).to_be_visible()
        expect(links).to_have_count(7)
        watched.check()
