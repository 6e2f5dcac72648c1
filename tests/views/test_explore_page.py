"""The whole page in a browser: as files, behind a plain web server, and live."""

import contextlib
import functools
import http.server
import json
import re
import sys
import threading

import pytest

from gumdrop.cli import main
from gumdrop.views.explore import RunError, SiteError, open_runs, write_site
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.pages.page import Page

from builders.browser import Witness, contrast, painted, views, wait_until
from builders.results import regression_results
from builders.servers import running
from builders.tables import write_table


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Give the folders of a fit and of an experiment."""
    place = tmp_path_factory.mktemp("runs")
    table = write_table(place / "houses.csv")
    words = ["fit", str(table), "--target", "price", "--out", str(place / "houses"), "--quiet"]
    assert main([*words, "--epochs", "2", "--hidden", "8", "--draws", "10"]) == 0
    with Run("sums", RunOptions(out=place / "sums", seed=3), notify=lambda note: None) as run:
        run.finish({"total": 10}, Page("Sums", "It was 10.", body=[]))
    return [place / "houses", place / "sums"]


@pytest.fixture(scope="module")
def site(tmp_path_factory, runs):
    return write_site(tmp_path_factory.mktemp("site"), runs=open_runs(runs))


@pytest.fixture
def opened(browser):
    """Open a page; at the end it must have said nothing and asked for nothing beyond its own place."""
    with contextlib.ExitStack() as stack:

        def open_page(url, allowed, **options):
            page = browser.new_page(**({"viewport": {"width": 1100, "height": 900}} | options))
            page.witness = Witness(page)
            stack.callback(page.close)
            page.goto(url)
            stack.callback(lambda: check(page.witness, allowed))
            return page

        yield open_page


def check(witness, allowed):
    assert witness.said == []
    strange = [url for url in witness.asked if not url.startswith((*allowed, "data:", "blob:", "about:"))]
    assert strange == []


def slide(page, label, share):
    """Move a slider of the section to a share of its range."""
    page.locator(".card").get_by_label(label, exact=False).evaluate(
        """(input, share) => { input.value = Number(input.min) + share * (input.max - input.min);
             input.dispatchEvent(new Event('input', {bubbles: true})); }""",
        share,
    )


# As files


def test_it_works_from_a_file_at_every_width(browser, site) -> None:
    for page in views(browser, site.as_uri()):
        painted(page)
        assert page.locator("path.mean").get_attribute("d").startswith("M")
        assert page.locator("#live [data-of=state]").inner_text() == "recorded"


def test_it_works_from_any_web_server_below_any_folder(opened, site) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site.parent.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/{site.parent.name}/"
        page = opened(base, [base])
        page.get_by_role("button", name="2. More points").click()
        frame = page.frame_locator("iframe")
        assert "Predicting price" in frame.locator("body").inner_text()
        server.shutdown()


def test_a_recording_plays_and_can_be_scrubbed(opened, tmp_path) -> None:
    page = opened(write_site(tmp_path / "bare").as_uri(), ["file:"])
    steps, caption = page.locator("#live [data-of=steps]"), page.locator(".caption")
    assert page.locator(".point").count() == 16
    assert caption.inner_text().startswith("16 points")
    page.clock.install()
    page.get_by_role("button", name="2. More points").click()
    assert page.locator(".point").count() == 28
    assert page.get_by_role("button", name="2. More points").get_attribute("aria-current") == "true"
    page.clock.run_for(25 * 90)
    assert caption.inner_text().startswith("The same points")
    page.get_by_role("button", name="Stop").click()
    moment = page.get_by_label("Moment of the recording")
    moment.fill("95")
    assert steps.inner_text() == "6,000"
    assert "fixed at 0.5" in page.locator(".chosen").inner_text()
    moment.focus()
    page.keyboard.press("Home")
    assert steps.inner_text() == "0"


def test_without_motion_a_chapter_shows_its_end(opened, site) -> None:
    page = opened(site.as_uri(), ["file:"], reduced_motion="reduce")
    page.get_by_role("button", name="3. Every point counts more").click()
    painted(page)
    assert page.locator("#live [data-of=steps]").inner_text() == "4,500"


def test_a_mask_becomes_bernoulli_as_its_temperature_falls(opened, site) -> None:
    page = opened(site.as_uri(), ["file:"])
    text = page.locator("#mask-widget [role=status]")
    shares = []
    for share in (1, 0.5, 0):
        slide(page, "temperature t", share)
        shares.append(float(text.inner_text().split(" %")[0]))
    assert shares[0] > 60 > shares[1] > 5 > shares[2]
    assert "all but Bernoulli" in text.inner_text()
    slide(page, "drop probability p", 0)
    heights = page.locator(".mass").evaluate_all("bars => bars.map((bar) => Number(bar.getAttribute('height')))")
    assert heights[-1] > 0.9 * max(heights)
    average = page.evaluate("[0.02, 0.1, 2/3].map((t) => Gumdrop.mask.mean(0.3, t))")
    assert average[0] == pytest.approx(0.7, abs=1e-3)
    assert average[2] < 0.69


def test_runs_are_shown_and_others_can_be_opened_from_disk(opened, site, runs, tmp_path) -> None:
    page = opened(site.as_uri(), ["file:"])
    status = page.locator("#run-view [role=status]")
    assert status.inner_text() == "Predicting price: gumdrop fit houses.csv, 120 rows"
    page.get_by_role("button", name="Experiment sums").click()
    assert page.frame_locator("iframe").locator(".lede").inner_text() == "It was 10."
    assert status.inner_text() == "Experiment sums: gumdrop reproduce sums --seed 3 --device cpu"
    folder, single = page.locator("input[type=file]").all()
    folder.set_input_files(runs[1])
    wait_until(page, "document.querySelector('iframe').src.startsWith('blob:')")
    assert page.frame_locator("iframe").locator(".lede").inner_text() == "It was 10."
    single.set_input_files(runs[1] / "report.html")
    wait_until(page, "document.querySelector('#run-view [role=status]').textContent === 'report.html'")
    (tmp_path / "results.json").write_text(json.dumps(regression_results(20)))
    folder.set_input_files(tmp_path)
    wait_until(
        page,
        "document.querySelector('#run-view [role=status]').textContent.startsWith('There is no report.html. It holds')",
    )


def test_a_page_without_runs_says_so(opened, tmp_path) -> None:
    page = opened(write_site(tmp_path / "bare").as_uri(), ["file:"])
    assert page.locator("#run-view [role=status]").inner_text() == "No run is open."
    assert not page.locator("iframe").is_visible()


def test_a_site_is_written_again_and_never_over_anything_else(tmp_path, capsys) -> None:
    assert main(["explore", "--out", str(tmp_path / "site")]) == 0
    assert "index.html" in capsys.readouterr().out
    assert main(["explore", "--out", str(tmp_path / "site")]) == 0
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(SiteError, match="holds something that is not this page"):
        write_site(tmp_path / "thesis")
    with pytest.raises(SiteError, match="is a file"):
        write_site(tmp_path / "thesis" / "thesis.tex")
    assert main(["explore", "--out", str(tmp_path / "thesis")]) == 2
    assert "name another folder with --out" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no results.json; give a folder of"),
        ({"run.json": "{}"}, r"it was stopped: repeat its command with --resume"),
        ({"results.json": "{"}, "cannot be read"),
        ({"results.json": "[1]"}, "must hold an object, got list"),
        ({"results.json": '{"a": 1}', "report.html": ""}, "is of no run of gumdrop"),
        ({"results.json": '{"experiment": "sums"}'}, "has no report.html: repeat its command"),
    ],
)
def test_a_folder_that_is_no_run_is_explained(tmp_path, files, message) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(RunError, match=message):
        open_runs([tmp_path])


def test_the_report_of_a_fit_is_written_anew_where_it_is_gone(tmp_path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(regression_results(20)))
    (run,) = open_runs([tmp_path])
    assert run.title == "Predicting progression"
    assert "20 rows kept away" in run.page
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_runs_of_one_name_are_kept_apart(runs, tmp_path) -> None:
    twin = tmp_path / "sums"
    twin.mkdir()
    for file in runs[1].iterdir():
        (twin / file.name).write_bytes(file.read_bytes())
    assert [run.name for run in open_runs([runs[1], twin, runs[0], twin])] == ["sums", "sums-2", "houses", "sums-3"]


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (["--run", "nowhere"], "nowhere holds no results.json", 2),
        (["--port", "70000"], "--port", 2),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1", 1),
    ],
)
def test_bad_words_are_one_clear_message(words, message, status, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *words]) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err + captured.out


def test_a_missing_extra_is_named(monkeypatch, capsys) -> None:
    for name in [name for name in sys.modules if name.startswith("gumdrop.views.explore")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["explore"]) == 2
    assert "pip install 'gumdrop[explore]'" in capsys.readouterr().err


NAMELESS = """() => [document, document.querySelector('.ml-widget').shadowRoot].flatMap((root) =>
  [...root.querySelectorAll('button, input, iframe, svg[role=img], [role=slider], [role=button], [role=group]')]
    .filter((element) => {
      const labels = [...(element.labels ?? [])].map((label) => label.textContent).join('');
      const own = element.getAttribute('aria-label') ?? element.title ?? '';
      return !(labels || own || element.textContent).trim();
    }).map((element) => element.outerHTML))"""

CONTRASTS = """() => [...document.querySelectorAll('p, dt, dd, h2, h3, li, button, label, output, a, text')]
  .filter((element) => element.checkVisibility() && element.textContent.trim() && !element.closest('.skip'))
  .map((element) => {
    const style = getComputedStyle(element);
    let ground = element;
    while (ground && ['rgba(0, 0, 0, 0)', 'transparent'].includes(getComputedStyle(ground).backgroundColor)) {
      ground = ground.parentElement;
    }
    const colour = element.localName === 'text' ? style.fill : style.color;
    return [colour, getComputedStyle(ground).backgroundColor, element.textContent.trim().slice(0, 40)];
  })"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_can_be_read(opened, site, scheme) -> None:
    page = opened(site.as_uri(), ["file:"], color_scheme=scheme)
    assert page.evaluate(NAMELESS) == []
    pairs = page.evaluate(CONTRASTS)
    assert len(pairs) > 50
    assert [text for ink, ground, text in pairs if contrast(numbers(ink), numbers(ground)) < 4.5] == []


def numbers(colour):
    return [float(value) for value in re.findall(r"[\d.]+", colour)][:3]


# Live


@pytest.fixture(scope="module")
def served(runs):
    with running(runs=open_runs(runs)) as port:
        yield f"//127.0.0.1:{port}/"


@pytest.fixture
def live(opened, served):
    page = opened(f"http:{served}", [f"http:{served}", f"ws:{served}"])
    wait_for_steps(page, 20)
    return page


STEPS = "Number(document.querySelector('#live [data-of=steps]').textContent.replaceAll(',', ''))"
STATE = "document.querySelector('#live [data-of=state]').textContent"


def wait_for_steps(page, steps):
    wait_until(page, f"{STEPS} >= {steps}")


def spread(page, left, right):
    """Mean epistemic standard deviation between two inputs."""
    values = page.evaluate("Gumdrop.live.view.picture.frameData.epistemic")
    part = [value for i, value in enumerate(values) if left <= -3 + i * 6 / 120 <= right]
    return sum(part) / len(part)


def place(page, x, y):
    """Where on the screen a point of the picture is."""
    inner = page.evaluate(
        "([x, y]) => [Gumdrop.live.view.picture.frame.x(x), Gumdrop.live.view.picture.frame.y(y)]", [x, y]
    )
    box = page.locator("#live .plot").bounding_box()
    return box["x"] + inner[0], box["y"] + inner[1]


def points(page):
    return page.evaluate("Gumdrop.live.view.picture.points")


def test_bands_shrink_where_points_are_added(live) -> None:
    live.locator("#live .plot").scroll_into_view_if_needed()
    wait_for_steps(live, 700)
    before = spread(live, 2, 2.8)
    for x in (2.0, 2.2, 2.4, 2.6, 2.8):
        live.mouse.click(*place(live, x, -0.8))
    assert len(points(live)) == 21
    wait_for_steps(live, 1500)
    assert spread(live, 2, 2.8) < 0.7 * before
    assert live.locator("#live [data-of=state]").inner_text() == "training"


def test_the_mouse_adds_moves_and_removes_points(live) -> None:
    live.locator("#live .plot").scroll_into_view_if_needed()
    live.get_by_role("button", name="No points").click()
    wait_until(live, f"{STATE} === 'waiting for points'")
    live.mouse.click(*place(live, -1, 1))
    assert points(live) == [[pytest.approx(-1, abs=0.02), pytest.approx(1, abs=0.02)]]
    live.mouse.move(*place(live, -1, 1.05))  # not quite on it
    live.mouse.down()
    live.mouse.move(*place(live, 2, -1.95), steps=5)
    live.mouse.up()
    assert points(live) == [[pytest.approx(2, abs=0.02), pytest.approx(-2, abs=0.02)]]
    live.mouse.move(*place(live, 2, -2))
    live.mouse.down()
    live.mouse.move(*place(live, 2, -3.4), steps=3)
    live.mouse.up()
    assert points(live) == []


def test_touch_moves_points(opened, served) -> None:
    page = opened(
        f"http:{served}",
        [f"http:{served}", f"ws:{served}"],
        viewport={"width": 390, "height": 800},
        has_touch=True,
        is_mobile=True,
    )
    page.locator("#live .plot").scroll_into_view_if_needed()
    page.get_by_role("button", name="Four points").click()
    page.locator("#live .plot").scroll_into_view_if_needed()
    touch, old = page.context.new_cdp_session(page), points(page)
    scroll = page.evaluate("scrollY")

    def send(kind, *places):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in places]})

    send("touchStart", place(page, *old[0]))
    for i in range(1, 6):
        send("touchMove", place(page, old[0][0], old[0][1] + 0.3 * i))
    send("touchEnd")
    assert points(page)[0] == [pytest.approx(old[0][0], abs=0.05), pytest.approx(old[0][1] + 1.5, abs=0.05)]
    assert points(page)[1:] == old[1:]
    assert page.evaluate("scrollY") == scroll


def test_keys_add_move_and_remove_points(live) -> None:
    live.get_by_role("button", name="Four points").click()
    live.get_by_role("button", name="Add a point").click()
    assert points(live)[4] == [0, 0]
    for key in ("ArrowRight", "ArrowUp", "Shift+ArrowUp"):
        live.keyboard.press(key)
    assert points(live)[4] == [0.1, 0.6]
    assert live.locator(".point:focus").get_attribute("aria-label") == "Point 5: x 0.1, y 0.6"
    live.keyboard.press("Delete")
    assert len(points(live)) == 4
    assert live.locator(".point:focus").count() == 1


def test_every_setting_reaches_the_session(live) -> None:
    live.evaluate(
        """() => { window.sent = []; const send = Gumdrop.live.send.bind(Gumdrop.live);
             Gumdrop.live.send = (message) => { window.sent.push(message); send(message); }; }"""
    )
    for label in ("each point counts as", "prior lengthscale l", "mask temperature t"):
        slide(live, label, 1)
    live.get_by_role("radio", name="Fixed p").check()
    wait_until(live, "Object.values(Gumdrop.live.view.picture.frameData.rates).every((p) => p === 0.1)")
    sent = live.evaluate("window.sent.filter((message) => message.type === 'settings').at(-1)")
    assert sent == {
        "type": "settings",
        "learned": False,
        "p": pytest.approx(0.1, abs=0.006),
        "weight": pytest.approx(100),
        "lengthscale": pytest.approx(10),
        "temperature": pytest.approx(2),
    }
    assert live.locator("#live .message").inner_text() == ""
    slide(live, "p, where it is fixed", 1)
    wait_until(live, "Object.values(Gumdrop.live.view.picture.frameData.rates).every((p) => p === 0.9)")
    live.get_by_role("radio", name="Learned p").check()
    wait_until(live, "Object.values(Gumdrop.live.view.picture.frameData.rates).every((p) => p !== 0.9)")


def test_pause_and_start_again(live) -> None:
    live.get_by_role("button", name="Pause").click()
    wait_until(live, f"{STATE} === 'paused'")
    steps = live.locator("#live [data-of=steps]").inner_text()
    live.wait_for_timeout(300)
    assert live.locator("#live [data-of=steps]").inner_text() == steps
    live.get_by_role("button", name="Forget and start again").click()
    wait_until(live, f"{STEPS} === 0")
    live.get_by_role("button", name="Go on").click()
    wait_for_steps(live, 20)


def test_the_page_comes_back_when_the_server_does(browser) -> None:
    with running() as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        wait_for_steps(page, 10)
    wait_until(page, f"{STATE} !== 'training'")
    assert "connection to the server is gone" in page.locator("#live .message").inner_text()
    page.close()


def test_two_tabs_and_a_closed_one(live, browser, served) -> None:
    other = browser.new_page()
    other.goto(f"http:{served}")
    wait_for_steps(other, 20)
    other.get_by_role("button", name="No points").click()
    wait_until(other, f"{STATE} === 'waiting for points'")
    assert live.locator(".point").count() == 16
    other.close()
    steps = live.evaluate(STEPS)
    wait_for_steps(live, steps + 50)


def test_a_served_run_is_shown(live) -> None:
    live.get_by_role("button", name="Experiment sums").click()
    assert live.frame_locator("iframe").locator(".lede").inner_text() == "It was 10."


def test_a_run_opened_from_disk_keeps_its_looks_behind_the_server(live, runs) -> None:
    live.locator("input[type=file]").nth(0).set_input_files(runs[1])
    wait_until(live, "document.querySelector('iframe').src.startsWith('blob:')")
    assert live.frame_locator("iframe").locator(".lede").inner_text() == "It was 10."
