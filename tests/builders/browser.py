"""A headless browser for the tests of pages, and the page that they look at."""

import contextlib
import importlib.util
from pathlib import Path

import pytest

import gumdrop

from builders.waiting import HANG, until

WEB = Path(gumdrop.__file__).parent / "views" / "explore" / "static"
CHROMIUM = Path("/usr/bin/chromium")
WIDGET = ("landscape-terms.js", "landscape-look.js", "landscape.js")
TRAINER = ("random.js", "network.js", "process.js", "trainer.js")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


def launch():
    """Yield a browser; skip where there is none."""
    if not CHROMIUM.exists() or importlib.util.find_spec("playwright") is None:
        pytest.skip("needs playwright and /usr/bin/chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS, timeout=1000 * HANG)
        yield Browser(browser)
        browser.close()


class Browser:
    """Opens pages that wait for a slow machine."""

    def __init__(self, browser):
        self._browser = browser

    def new_page(self, **options):
        page = self._browser.new_page(**options)
        page.set_default_timeout(1000 * HANG)
        return page


class Witness:
    """Everything that a page said to the console, and asked for."""

    def __init__(self, page):
        self.said, self.asked = [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))

    def schemes(self):
        return {url.split(":")[0] for url in self.asked}


@contextlib.contextmanager
def opening(browser):
    """Give a function that opens a page, which must have said nothing and asked for nothing beyond its own place."""
    with contextlib.ExitStack() as stack:

        def open_page(url, allowed, **options):
            page = browser.new_page(**({"viewport": {"width": 1100, "height": 900}} | options))
            page.witness = Witness(page)
            stack.callback(page.close)
            page.goto(url)
            stack.callback(_check, page.witness, allowed)
            return page

        yield open_page


@contextlib.contextmanager
def with_scripts(browser, folder, *scripts, **options):
    """Give an otherwise empty page with scripts of the interactive page and a widget, from a file."""
    tags = "".join(f'<script src="{(WEB / script).as_uri()}" defer></script>' for script in scripts)
    body = '<div class="ml-widget" data-algo="concrete-dropout"></div>'
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    file = folder / "page.html"
    file.write_text(f"<!doctype html><html><head>{head}{tags}</head><body>{body}</body></html>", encoding="utf-8")
    with contextlib.closing(browser.new_page(**options)) as page:
        page.witness = Witness(page)
        page.goto(file.as_uri())
        yield page


def _check(witness, allowed):
    assert witness.said == []
    strange = [url for url in witness.asked if not url.startswith((*allowed, "data:", "blob:", "about:"))]
    assert strange == []


def slide(page, label, share):
    """Move a slider to a share of its range."""
    page.get_by_label(label, exact=False).evaluate(
        """(input, share) => { input.value = Number(input.min) + share * (input.max - input.min);
             input.dispatchEvent(new Event('input', {bubbles: true})); }""",
        share,
    )


def views(browser, url):
    """Yield a page at four widths, light and dark; it must fit, say nothing to the console and ask for nothing."""
    for width, scheme in ((195, "light"), (390, "light"), (820, "dark"), (1400, "light")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        witness = Witness(page)
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        yield page
        page.close()
        assert witness.said == [], width
        assert witness.schemes() <= {"file", "data", "blob"}


def painted(page):
    """Let what was asked for be painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def wait_until(page, expression):
    """Wait for JavaScript to be true; Playwright's own way is evaluated in the page, whose policy may forbid that."""
    until(lambda: page.evaluate(expression), expression, lambda: page.wait_for_timeout(20))


def wait_for_frame(page, selector, text):
    """Wait for a text in the frame of a page: what the frame showed before stays until the next is loaded."""
    shown = page.frame_locator("iframe").locator(selector)
    until(lambda: text in shown.inner_text(), text, lambda: page.wait_for_timeout(20))


def contrast(ink, ground):
    """Return the contrast ratio of two colours, each as red, green and blue from 0 to 255 (WCAG 2)."""
    lights = sorted(luminance(colour) for colour in (ink, ground))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour):
    """Return the relative luminance of a colour."""
    parts = [value / 255 for value in colour]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
