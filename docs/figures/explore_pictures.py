"""Take the documentation's pictures of the interactive page, with a headless browser.

Run with ``make docs-figures``; needs Chromium. The page is written as static files, with its recorded session.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from gumdrop.views.explore import write_site

from builders.browser import FLAGS

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    """Picture the tug-of-war with its true terms, and the second chapter of the recording."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("needs chromium on the path")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = write_site(Path(folder) / "site")
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        page.goto(site.as_uri())
        page.locator("input[value=library]").check()
        page.locator(".ml-widget .widget").screenshot(path=str(RESULTS / "explore_landscape.png"))
        page.get_by_role("button", name="1. Few points").click()
        page.locator("#live").screenshot(path=str(RESULTS / "explore_posterior.png"))
        browser.close()


if __name__ == "__main__":
    main()
