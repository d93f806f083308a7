"""How long a person waits after moving a slider: from the key to the reasons on the screen, in a real Chromium.

    python benchmarks/page_speed.py http://127.0.0.1:8000/ --user u000578

Needs a running `whyrank serve` with a model that ranks items and has mu, Debian's chromium, and Playwright. Every move
is one step of a slider; the clock runs in the page, from the input event to the first frame with what was answered.
"""

from __future__ import annotations

import argparse
import statistics
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

SLIDERS = ("Weight of the user", "Diversity", "Rare reasons")
WATCH = """(name) => {
  const slider = [...document.querySelectorAll("input[type=range]")].find((one) => one.labels[0].textContent === name);
  const fetched = window.fetch;
  window.waits = [];
  let began = 0;
  slider.addEventListener("input", () => (began = performance.now()), { capture: true });
  window.fetch = async (...asked) => {
    const answer = await fetched(...asked);
    const json = answer.json.bind(answer);
    answer.json = async () => {
      const read = await json();
      // The page changes at once; what follows the next frame's callbacks comes after it was drawn.
      requestAnimationFrame(() => setTimeout(() => waits.push(performance.now() - began)));
      return read;
    };
    return answer;
  };
}"""


def waits(page: Page, url: str, name: str, moves: int) -> list[float]:
    """Milliseconds of each of so many moves of one slider."""
    page.goto(url)
    page.locator("article").first.wait_for()
    page.evaluate(WATCH, name)
    slider = page.get_by_role("slider", name=name)
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(500)
    before = page.evaluate("waits.length")
    for move in range(moves):
        page.keyboard.press("ArrowRight" if move // 10 % 2 == 0 else "ArrowLeft")
        page.wait_for_function("(count) => waits.length >= count", arg=before + move + 1)
    return list(page.evaluate("(from) => waits.slice(from)", before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--user", required=True)
    parser.add_argument("--compare", help="a second model beside the first")
    parser.add_argument("--moves", type=int, default=40)
    arguments = parser.parse_args()
    query = {"user": arguments.user} | ({"compare": arguments.compare} if arguments.compare else {})
    print("| slider | moves | median ms | p95 ms | longest ms |\n|---|--:|--:|--:|--:|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        for name in SLIDERS:
            found = sorted(waits(page, f"{arguments.url}?{urlencode(query)}", name, arguments.moves))
            p95 = found[int(0.95 * (len(found) - 1))]
            print(f"| {name} | {len(found)} | {statistics.median(found):.0f} | {p95:.0f} | {found[-1]:.0f} |")
        browser.close()


if __name__ == "__main__":
    main()
