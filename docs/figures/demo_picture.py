"""Take the README's picture of the report that ``gumdrop demo`` leaves, with a headless browser.

Run with ``make docs-figures``, which runs the demo first; needs Chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from builders.browser import FLAGS

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Screenshot the top of the report into docs/results/demo.png."""
    report = ROOT / "demo" / "diabetes" / "report.html"
    browser_path = shutil.which("chromium")
    if not report.is_file() or browser_path is None:
        sys.exit("needs demo/diabetes/report.html (make demo) and chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1500})
        page.goto(report.as_uri())
        page.screenshot(path=str(ROOT / "docs" / "results" / "demo.png"))
        browser.close()


if __name__ == "__main__":
    main()
