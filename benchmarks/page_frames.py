"""How long is a frame of the interactive page while something is dragged, and how fast does it train? Needs Chromium.

The browser runs without its limit of 60 frames a second; on a machine without a display it may still pace itself, so
both the work of a frame and the time between two are given.
Run with ``make benchmark-page``; writes ``docs/results/page_frames.json``.
"""

import json
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from gumdrop.views.explore import write_site

from builders.browser import FLAGS

UNPACED = ["--disable-frame-rate-limit", "--disable-gpu-vsync"]
RESULTS = Path(__file__).parents[1] / "docs" / "results"
MOVES = 300
GOAL = 1000 / 60
STEPS = "Gumdrop.posterior.frame?.steps ?? 0"

WATCH = """() => { // from the start of a frame to after its paint; and from one frame to the next
  window.seen = {work: [], interval: []};
  const channel = new MessageChannel(); let start = performance.now();
  channel.port1.onmessage = () => window.seen.work.push(performance.now() - start);
  const tick = () => { const now = performance.now(); window.seen.interval.push(now - start); start = now;
    channel.port2.postMessage(0); requestAnimationFrame(tick); };
  requestAnimationFrame(tick); }"""


def drag(page: Page, x: float, y: float) -> dict[str, list[float]]:
    """Time the work of frames and the time between them, in ms, while the mouse drags what is at a place to and fro."""
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(WATCH)
    for i in range(MOVES):
        page.mouse.move(x + 150 * (abs(i % 60 - 30) / 15 - 1), y - (i % 40))
    times = page.evaluate("window.seen")
    page.mouse.up()
    return {name: values[5:] for name, values in times.items()}


def pace(page: Page) -> float:
    """Count the steps of training in a second, while the page paints what it learns."""
    page.wait_for_function(f"({STEPS}) > 20")
    first, start = page.evaluate(f"[{STEPS}, performance.now()]")
    page.wait_for_timeout(5000)
    last, end = page.evaluate(f"[{STEPS}, performance.now()]")
    return 1000 * float(last - first) / float(end - start)


def main() -> None:
    """Drag the ball and a point, on a page as wide as a phone and as wide as a desk, and write the times."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium on the path")
    results, paces = [], {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        address = write_site(Path(folder) / "site").as_uri()
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *UNPACED])
        for width in (390, 1440):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(address)
            paces[f"steps_per_second_{width}"] = round(pace(page))
            for name, selector in (("ball", ".ball"), ("point", ".point:nth-child(8)")):
                page.locator(selector).scroll_into_view_if_needed()
                box = page.locator(selector).bounding_box()
                assert box is not None
                times = drag(page, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                results.append({"dragged": name, "width": width, "frames": len(times["work"])})
                for what, values in times.items():
                    results[-1][f"{what}_median_ms"] = round(statistics.median(values), 2)
                    results[-1][f"{what}_p95_ms"] = round(statistics.quantiles(values, n=20)[-1], 2)
                print(results[-1])
            page.close()
        print(paces)
        version = browser.version
        browser.close()
    contents = {"command": "make benchmark-page", "chromium": version.split(".")[0], "goal_ms": round(GOAL, 2)}
    contents |= {"hardware": f"{platform.machine()} CPU, no GPU", **paces, "results": results}
    (RESULTS / "page_frames.json").write_text(json.dumps(contents, indent=1) + "\n")
    if any(result["work_median_ms"] > GOAL for result in results):
        sys.exit("a median frame takes longer than a sixtieth of a second")


if __name__ == "__main__":
    main()
