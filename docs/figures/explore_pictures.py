"""Take the documentation's pictures of the interactive page, its film and its social preview, with a headless browser.

Run with ``make docs-figures``; needs Chromium.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from gumdrop.views.explore import write_site
from gumdrop.views.explore.server import STATIC

from builders.browser import FLAGS

RESULTS = Path(__file__).parents[1] / "results"
COLOURS = 64
FRAME_MS, LAST_MS = 160, 2400
LEARNED = 800
"""Steps after which the band is at rest."""
STEP = "Gumdrop.posterior.frame?.steps ?? 0"


def wait_for(page: Page, condition: str) -> None:
    """Wait until something is true in the page."""
    page.wait_for_function(condition, timeout=600_000)


def small(shot: bytes) -> Image.Image:
    """Give a screenshot in few colours."""
    return Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def film(page: Page) -> None:
    """Film a network whose band holds its points, and how its rates fall as these are repeated."""
    page.get_by_role("button", name="All along").click()
    page.evaluate(
        """() => { const { points, settings } = Gumdrop.posterior;
             window.trainer = new Gumdrop.trainer.Trainer(); // here and not in the worker, so that steps can be counted
             trainer.setPoints(points.list); trainer.setSettings(settings); }"""
    )
    stage, frames, durations = page.locator(".stage"), [], []

    def watch(settings: dict[str, object], count: int, steps: int) -> None:
        page.evaluate("(settings) => trainer.setSettings(settings)", settings)
        for _ in range(count):
            page.evaluate("(steps) => { trainer.train(steps); Gumdrop.posterior.show(trainer.frame()); }", steps)
            frames.append(small(stage.screenshot()))
            durations.append(FRAME_MS)

    watch({}, 1, LEARNED)
    durations[-1] = LAST_MS
    watch({"repeat": 30}, 25, 10)
    watch({"repeat": 30}, 15, 50)
    durations[-1] = LAST_MS
    rest = {"save_all": True, "append_images": frames[1:], "duration": durations, "loop": 0, "optimize": True}
    frames[0].save(RESULTS / "explore_film.gif", **rest)


def main() -> None:
    """Picture the posterior and the tug-of-war, film the first, and make the preview."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("needs chromium on the path")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = write_site(Path(folder) / "site").as_uri()
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 630}, reduced_motion="reduce")
        page.goto(site)
        page.locator(".ml-widget .widget").screenshot(path=str(RESULTS / "explore_landscape.png"))
        page.evaluate("scrollTo(0, 0)")
        wait_for(page, f"({STEP}) > 1200")
        small(page.screenshot()).save(STATIC / "preview.png", optimize=True)
        page.set_viewport_size({"width": 1200, "height": 860})
        page.screenshot(path=str(RESULTS / "explore_posterior.png"))
        page.set_viewport_size({"width": 640, "height": 700})
        page.get_by_role("button", name="Pause").click()
        film(page)
        browser.close()


if __name__ == "__main__":
    main()
