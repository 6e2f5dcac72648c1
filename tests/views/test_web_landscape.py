"""The loss landscape in a browser: every control, drag by mouse, touch and keys, and where the descent ends."""

import itertools
import re

import pytest

from builders.browser import WIDGET, contrast, painted, wait_until

CORNERS = [*itertools.product((10, 10000), (50, 5000)), (200, 500)]


P = "Number(document.querySelector('.ml-widget').shadowRoot.querySelector('dd[data-of=p]').textContent)"


@pytest.fixture
def page(page_of):
    page = page_of(*WIDGET, viewport={"width": 900, "height": 900})
    yield page
    assert page.witness.said == []
    assert page.witness.schemes() <= {"file", "data"}


def status(page):
    """Return p, p* and the state as the page shows them."""
    texts = [page.locator(f"dd[data-of={name}]").inner_text().replace("−", "-") for name in ("p", "optimum", "state")]
    return float(texts[0]), float(texts[1]), texts[2]


def ball(page):
    box = page.locator(".ball").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def hold_time(page):
    """Let the time of the page pass only where a test says so, however long the test takes."""
    page.clock.install(time=0)
    page.clock.pause_at(60_000)


def settle(page):
    """Let the time of the page run until the last step of the descent."""
    for _ in range(60):
        page.clock.run_for(1000)
        if status(page)[2] == "arrived at p*":
            break
    assert status(page)[2] == "arrived at p*"


def set_slider(page, name, value):
    page.locator(f"#{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def test_it_starts_as_specified(page) -> None:
    assert status(page)[0] == 0.5
    assert status(page)[2] == "at rest"
    assert [page.locator(f"label[for={name}] output").inner_text() for name in "NK"] == ["200", "500"]
    paths = page.locator("path.curve, path.term").evaluate_all("all => all.map((path) => path.getAttribute('d'))")
    assert [len(re.findall("[ML]", path)) for path in paths] == [200] * 4
    assert page.locator(".ball").get_attribute("r") == "14"
    assert page.locator(".hit").get_attribute("r") == "22"
    assert page.locator(".optimum-label").text_content() == "p* = 0.386"
    assert page.locator("input[value=library]").is_checked()
    page.locator("input[value=stylised]").check()
    assert page.locator(".optimum-label").text_content() == "p* = 0.568"
    assert page.locator(".tale").inner_text().startswith("For the feel of it")


def test_the_ball_has_the_colour_of_the_curve_while_it_descends(page) -> None:
    hold_time(page)

    def colours():
        fills = "[getComputedStyle(r.querySelector('.ball')).fill, getComputedStyle(r.querySelector('.curve')).stroke]"
        return page.evaluate(f"() => {{ const r = document.querySelector('.ml-widget').shadowRoot; return {fills}; }}")

    ball_at_rest, curve = colours()
    assert ball_at_rest != curve
    page.locator("[data-do=release]").click()
    page.clock.run_for(300)
    assert colours() == [curve, curve]
    settle(page)
    assert colours() == [ball_at_rest, curve]


def test_the_ball_is_drawn_between_the_steps(page) -> None:
    """A step takes 42 ms; the ball moves with every frame all the same."""
    hold_time(page)
    page.locator("[role=slider].hit").press("End")
    page.locator("[data-do=release]").click()
    places = set()
    for _ in range(30):
        page.clock.run_for(20)
        places.add(page.locator(".ball-group").get_attribute("transform"))
    assert len(places) >= 25


def test_terms_differ_by_dashes_and_names_too(page) -> None:
    dashes = page.locator("path.term").evaluate_all("all => all.map((path) => getComputedStyle(path).strokeDasharray)")
    assert len(set(dashes)) == 3
    assert page.locator("svg text.name").all_text_contents() == ["total", "likelihood", "weights", "entropy"]
    boxes = page.locator("svg text.name").evaluate_all(
        """all => all.map((text) => text.getBoundingClientRect()).map((box) =>
             [box.left, box.right, box.top, box.bottom])"""
    )
    for (left, right, top, bottom), (a, b, c, d) in itertools.combinations(boxes, 2):
        assert right < a or b < left or bottom < c or d < top


def test_the_mouse_drags_the_ball_and_lets_it_go(page) -> None:
    hold_time(page)
    x, y = ball(page)
    page.mouse.move(x + 15, y + 10)  # off the ball, within its hit circle: it keeps the distance
    page.mouse.down()
    page.clock.run_for(50)
    assert status(page)[::2] == (0.5, "held")
    page.mouse.move(x + 15 - 200, y, steps=4)
    page.clock.run_for(50)
    assert ball(page)[0] == pytest.approx(x - 200, abs=1)
    page.mouse.up()
    page.clock.run_for(300)
    assert status(page)[2] == "descending"
    settle(page)
    p, best, _ = status(page)
    assert abs(p - best) < 0.005


def test_a_press_elsewhere_places_the_ball(page) -> None:
    x, _ = ball(page)
    box = page.locator("svg").first.bounding_box()
    page.mouse.move(x + 250, box["y"] + 60)
    page.mouse.down()
    painted(page)
    assert ball(page)[0] == pytest.approx(x + 250, abs=1)
    page.mouse.move(box["x"] + box["width"] + 300, box["y"])  # beyond the frame it stays inside
    painted(page)
    assert status(page)[0] == 0.99
    page.mouse.up()
    wait_until(page, f"{P} < 0.99")


def test_touch_drags_the_ball(page_of) -> None:
    page = page_of(*WIDGET, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    x, y = ball(page)
    touch = page.context.new_cdp_session(page)

    def send(kind, *points):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})

    send("touchStart", (x, y))
    for step in range(1, 9):
        send("touchMove", (x + 10 * step, y - 20 * step))  # also upwards: the ball must not scroll the page
    painted(page)
    assert status(page)[2] == "held"
    assert ball(page)[0] == pytest.approx(x + 80, abs=1.5)
    assert page.evaluate("scrollY") == 0
    send("touchEnd")
    wait_until(page, f"{P} < 0.7")
    assert status(page)[2] in ("descending", "arrived at p*")
    assert page.witness.said == []


def test_a_swipe_over_the_curve_is_left_to_the_page_and_a_tap_places_the_ball(page_of) -> None:
    page = page_of(*WIDGET, viewport={"width": 390, "height": 500}, has_touch=True, is_mobile=True)
    x, y = ball(page)
    # Not every headless browser scrolls by a touch that is not one, so the picture is asked what it leaves to the page.
    assert page.locator("svg").first.evaluate("picture => getComputedStyle(picture).touchAction") == "pan-y"
    held = """picture => !picture.dispatchEvent(new TouchEvent("touchstart", { bubbles: true, cancelable: true }))"""
    assert not page.locator("svg").first.evaluate(held)
    assert status(page)[::2] == (0.5, "at rest")
    page.touchscreen.tap(x + 90, y - 40)
    wait_until(page, f"{P} !== 0.5")
    assert status(page)[2] in ("descending", "arrived at p*")


def test_keys_move_the_ball_and_let_it_go(page) -> None:
    hold_time(page)
    page.locator("[role=slider].hit").focus()
    for key, p in (("ArrowRight", 0.51), ("ArrowLeft", 0.5), ("PageUp", 0.6), ("End", 0.99), ("Home", 0.01)):
        page.keyboard.press(key)
        page.clock.run_for(50)
        assert status(page)[::2] == (p, "held")
        assert page.locator(".hit").get_attribute("aria-valuenow") == f"{p:.3f}"
    page.keyboard.press("Enter")
    page.clock.run_for(200)
    assert status(page)[2] == "descending"
    settle(page)
    assert abs(status(page)[0] - status(page)[1]) < 0.005
    assert page.locator("[role=status]").text_content().startswith("Ball arrived at p*: p 0.39")


def test_every_descent_ends_at_the_optimum(page) -> None:
    ends = page.evaluate(
        """(corners) => ["stylised", "library"].flatMap((o) => corners.flatMap(([N, K]) =>
          [0.01, 0.5, 0.99].map((p) => {
            const {descent, optimum} = Gumdrop.landscape, path = descent(o, p, N, K);
            return [[o, N, K], path.at(-1), path.length, optimum(o, N, K)];
          })))""",
        CORNERS,
    )
    assert len(ends) == 30
    for case, p, steps, best in ends:
        assert abs(p - best) < 0.005, case
        assert steps < 5000, case


def test_the_controls_in_the_corners(page) -> None:
    hold_time(page)
    for (num_data, num_units), objective in itertools.product(CORNERS, ("stylised", "library")):
        page.locator(f"input[value={objective}]").check()
        set_slider(page, "N", len(str(num_data)) - 1 if num_data != 200 else 2.301)
        set_slider(page, "K", num_units)
        assert page.locator("label[for=N] output").inner_text() == f"{num_data:,}"
        best = page.evaluate("a => Gumdrop.landscape.optimum(...a)", [objective, num_data, num_units])
        assert status(page)[1] == pytest.approx(best, abs=6e-4)
        page.locator("[data-do=release]").click()
        settle(page)
        assert abs(status(page)[0] - best) < 0.005


def test_reset_puts_the_ball_back_and_keeps_n_and_k(page) -> None:
    set_slider(page, "N", 4)
    set_slider(page, "K", 5000)
    best = status(page)[1]
    page.locator("[data-do=release]").click()
    page.locator("[data-do=reset]").click()
    painted(page)
    assert status(page) == (0.5, best, "at rest")
    assert page.locator("#N").evaluate("input => Math.round(10 ** input.value)") == 10000
    assert page.locator("#K").input_value() == "5000"


def test_reduced_motion_goes_straight_to_the_end(page_of) -> None:
    page = page_of(*WIDGET, reduced_motion="reduce")
    page.locator("[data-do=release]").click()
    painted(page)
    assert status(page) == (0.386, 0.386, "arrived at p*")


def test_the_sketch_and_the_true_terms_differ_as_the_page_says(page) -> None:
    best = page.evaluate(
        """() => Object.fromEntries(["stylised", "library"].map((o) => [o,
             [10, 100, 1000, 10000].map((N) => Gumdrop.landscape.optimum(o, N, 500))]))"""
    )
    assert best["stylised"] == sorted(best["stylised"])
    assert min(best["stylised"]) > 0.5
    assert best["library"] == sorted(best["library"], reverse=True)
    assert max(best["library"]) < 0.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(page_of, scheme: str) -> None:
    page = page_of(*WIDGET, viewport={"width": 1400, "height": 900}, color_scheme=scheme)
    page.evaluate("document.documentElement.style.colorScheme = 'light dark'")
    for width in (1400, 820, 320, 195):
        page.set_viewport_size({"width": width, "height": 900})
        painted(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    for selector in (".tale", "dt", "output", "h3"):
        assert contrast_of(page, selector) >= 4.5, selector
    for selector in ("path.term.likelihood", "path.term.weights", "path.term.entropy", "path.curve"):
        assert contrast_of(page, selector, "stroke") >= 3, selector


def contrast_of(page, selector, part="color"):
    """Return the contrast ratio of text or lines on the widget's card."""
    colours = page.locator(selector).first.evaluate(
        """(element, part) => [getComputedStyle(element)[part],
             getComputedStyle(element.closest('.widget')).backgroundColor].map((text) => text.match(/[\\d.]+/g))""",
        part,
    )
    return contrast(*([float(value) for value in colour[:3]] for colour in colours))


def test_two_widgets_do_not_share_anything(page) -> None:
    page.evaluate(
        """() => { const other = document.body.appendChild(document.createElement('div'));
             Gumdrop.landscape.mount(other); Gumdrop.landscape.mount(other); }"""
    )
    page.locator("input[value=stylised]").nth(1).check()
    formulas = page.locator(".formula").all_inner_texts()
    assert len(formulas) == 2
    assert formulas[0] != formulas[1]
