"""What do a step of training and a frame of the interactive page cost? Needs Chromium, and Linux.

Both are processor time of their threads, so that a machine that is busy with other things gives much the same numbers:
a step of the worker, with its share of the pictures that it sends, and a frame of the page, from script to painting,
while it shows what is learned and something is dragged.
Run with ``make benchmark-page``; writes ``docs/results/page_frames.json``.
"""

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from gumdrop.views.explore import write_site
from gumdrop_experiments.harness.origin import of_script

from builders.browser import FLAGS

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SECONDS = 5
GOAL = 1000 / 60
COUNT = """() => { window.frames_seen = 0;
  const tick = () => { frames_seen += 1; requestAnimationFrame(tick); }; requestAnimationFrame(tick); }"""
SEEN = "[frames_seen, Gumdrop.posterior.frame.steps]"
TRAINING = "() => (Gumdrop.posterior.frame?.steps ?? 0) > 20"


def processor_time() -> dict[str, float]:
    """Give the milliseconds that the page's own thread and its worker have used, over all renderers."""
    used = {"page": 0.0, "worker": 0.0}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" not in (process / "cmdline").read_bytes():
                continue
            for thread in (process / "task").iterdir():
                words = (thread / "stat").read_text()
                ticks = words.rpartition(")")[2].split()[11:13]
                name = "page" if thread.name == process.name else "worker" if "(DedicatedWorker" in words else None
                if name:
                    used[name] += 1000 * sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue  # it ended meanwhile
    return used


def measure(page: Page, dragged: str | None) -> dict[str, float]:
    """Give the cost of a frame and of a step while nothing or something is dragged to and fro."""
    if dragged is not None:
        page.locator(dragged).scroll_into_view_if_needed()
        box = page.locator(dragged).bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
    before, (first_frame, first_step) = processor_time(), page.evaluate(SEEN)
    end, moves = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        if dragged is not None:
            page.mouse.move(x + 5 * (moves % 20), y - 2 * (moves % 10))
            moves += 1
        page.wait_for_timeout(15)
    after, (last_frame, last_step) = processor_time(), page.evaluate(SEEN)
    page.mouse.up()
    frames, steps = last_frame - first_frame, max(1, last_step - first_step)
    used = {name: after[name] - before[name] for name in after}
    costs = {"frame_ms": round(used["page"] / frames, 2), "step_ms": round(used["worker"] / steps, 2)}
    return {"frames": frames, "steps": steps, **costs}


def main() -> None:
    """Watch, drag a point and drag the ball, on a page as wide as a phone and as wide as a desk; write the costs."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium on the path")
    results = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        address = write_site(Path(folder) / "site").as_uri()
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for width in (390, 1440):
            for dragged in (None, ".point:nth-child(8)", ".ball"):
                page = browser.new_page(viewport={"width": width, "height": 900})
                page.goto(address)
                page.wait_for_function(TRAINING)
                page.evaluate(COUNT)
                results.append({"width": width, "dragged": dragged, **measure(page, dragged)})
                print(results[-1])
                page.close()
        version = browser.version
        browser.close()
    contents = {"command": "make benchmark-page", "chromium": version.split(".")[0], "goal_ms": round(GOAL, 2)}
    contents |= {"hardware": f"{platform.machine()} CPU, no GPU", "code": of_script(), "results": results}
    (RESULTS / "page_frames.json").write_text(json.dumps(contents, indent=1) + "\n")
    if any(result["frame_ms"] > GOAL or result["step_ms"] > GOAL for result in results):
        sys.exit("a frame or a step takes longer than a sixtieth of a second")


if __name__ == "__main__":
    main()
