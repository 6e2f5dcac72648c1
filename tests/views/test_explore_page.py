"""The whole page in a browser: as files, behind a plain web server, and behind its own."""

import functools
import http.server
import json
import re
import threading

import pytest

from gumdrop.cli import main
from gumdrop.views.explore import open_runs, write_site
from gumdrop.views.explore.server import RunError
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.pages.page import Page

from builders.browser import contrast, painted, slide, views, wait_for_frame, wait_until
from builders.results import regression_results
from builders.servers import running
from builders.tables import write_table


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Give the folders of a fit and of an experiment."""
    place = tmp_path_factory.mktemp("runs")
    table = write_table(place / "houses.csv")
    words = ["fit", str(table), "--target", "price", "--out", str(place / "houses"), "--quiet"]
    assert main([*words, "--epochs", "2", "--hidden", "8", "--draws", "10"]) == 0
    with Run("sums", RunOptions(out=place / "sums", seed=3), notify=lambda note: None) as run:
        run.finish({"total": 10}, Page("Sums", "It was 10.", body=[]))
    return [place / "houses", place / "sums"]


@pytest.fixture(scope="session")
def site(tmp_path_factory, runs):
    return write_site(tmp_path_factory.mktemp("site"), runs=open_runs(runs))


# As files


def test_it_works_from_a_file_at_every_width(browser, site) -> None:
    for page in views(browser, site.as_uri()):
        painted(page)
        wait_until(page, "document.querySelector('path.mean').getAttribute('d')?.startsWith('M')")
        assert page.locator(".stage [data-of=state]").inner_text() == "training"


def test_it_works_from_any_web_server_below_any_folder(opened, site) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site.parent.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/{site.parent.name}/"
        page = opened(base, [base])
        wait_for_frame(page, "body", "Predicting price")
        server.shutdown()


def test_a_mask_becomes_bernoulli_as_its_temperature_falls(opened, site) -> None:
    page = opened(site.as_uri(), ["file:"])
    text = page.locator("#mask-widget [role=status]")
    shares = []
    for share in (1, 0.5, 0):
        slide(page.locator("#mask-widget"), "temperature t", share)
        shares.append(float(text.inner_text().split(" %")[0]))
    assert shares[0] > 60 > shares[1] > 5 > shares[2]
    assert "all but Bernoulli" in text.inner_text()
    slide(page.locator("#mask-widget"), "drop probability p", 0)
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
    wait_for_frame(page, ".lede", "It was 10.")
    assert status.inner_text() == "Experiment sums: gumdrop reproduce sums --seed 3 --device cpu"
    folder, single = page.locator("input[type=file]").all()
    folder.set_input_files(runs[1])
    wait_until(page, "document.querySelector('#run-view [role=status]').textContent === 'Experiment sums'")
    wait_for_frame(page, ".lede", "It was 10.")
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


def test_the_page_is_light(tmp_path) -> None:
    page = write_site(tmp_path / "bare")
    assert sum(file.stat().st_size for file in page.parent.iterdir()) < 200_000
    assert page.stat().st_size < 125_000


def test_a_site_is_written_again_and_never_over_anything_else(tmp_path, shell) -> None:
    assert "index.html" in shell.said("explore", "--out", tmp_path / "site")
    assert main(["explore", "--out", str(tmp_path / "site")]) == 0
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="holds something that is not this page"):
        write_site(tmp_path / "thesis")
    with pytest.raises(ValueError, match="is a file"):
        write_site(tmp_path / "thesis" / "thesis.tex")
    assert "name another folder with --out" in shell.refused("explore", "--out", tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]


def test_a_page_may_be_one_file(opened, runs, tmp_path) -> None:
    page = opened(write_site(tmp_path / "page.html", runs=open_runs(runs[1:])).as_uri(), ["file:"])
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    wait_for_frame(page, "body", "It was 10.")
    assert write_site(tmp_path / "page.html") == tmp_path / "page.html"
    (tmp_path / "notes.html").write_text("years of work")
    with pytest.raises(ValueError, match="is something else than this page"):
        write_site(tmp_path / "notes.html")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no results.json; give a folder of"),
        ({"run.json": "{}"}, r"it was stopped: repeat its command with --resume"),
        ({"results.json": "{"}, "cannot be read"),
        ({"results.json": "[1]"}, "is of no run of gumdrop.*must be an object"),
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
    assert "20 rows kept away" in run.html
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (["--run", "nowhere"], "nowhere holds no results.json", 2),
        (["--port", "70000"], "--port", 2),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1", 1),  # an address of another machine
    ],
)
def test_bad_words_are_one_clear_message(words, message, status, tmp_path, monkeypatch, shell) -> None:
    monkeypatch.chdir(tmp_path)
    said = shell.said("explore", *words, status=status)
    assert message in said
    assert "Traceback" not in said


NAMELESS = """() => [document, document.querySelector('.ml-widget').shadowRoot].flatMap((root) =>
  [...root.querySelectorAll('button, input, iframe, svg[role=img], [role=slider], [role=button], [role=group]')]
    .filter((element) => {
      const labels = [...(element.labels ?? [])].map((label) => label.textContent).join('');
      const own = element.getAttribute('aria-label') ?? element.title ?? '';
      return !(labels || own || element.textContent).trim();
    }).map((element) => element.outerHTML))"""

CONTRASTS = """() => [...document.querySelectorAll('p, dt, dd, h1, h2, li, button, label, output, a, text, summary')]
  .filter((element) => element.checkVisibility() && element.textContent.trim() && !element.closest('.hidden, .skip'))
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


# Behind the server


@pytest.fixture
def served(opened, runs):
    with running(runs=open_runs(runs)) as port:
        yield opened(f"http://127.0.0.1:{port}/", [f"http://127.0.0.1:{port}/"])


def test_its_policy_lets_the_page_train_and_show_runs(served, runs) -> None:
    wait_until(served, "Number(document.querySelector('[data-of=steps]').textContent.replaceAll(',', '')) > 5")
    served.get_by_role("button", name="Experiment sums").click()
    wait_for_frame(served, ".lede", "It was 10.")
    served.locator("input[type=file]").nth(0).set_input_files(runs[1])
    wait_until(served, "document.querySelector('#run-view [role=status]').textContent === 'Experiment sums'")
    wait_for_frame(served, ".lede", "It was 10.")
