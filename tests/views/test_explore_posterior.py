"""The posterior of the page, from a file: every control, by mouse, touch and keys, and what one takes along."""

import pytest

from gumdrop.views.explore import write_site

from builders.browser import contrast, slide, wait_until

STEPS = "Gumdrop.posterior.frame?.steps"
STATE = "document.querySelector('.stage [data-of=state]').textContent"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("site")).as_uri()


@pytest.fixture
def page(opened, site):
    page = opened(site, ["file:"])
    wait_until(page, f"{STEPS} > 0")
    return page


def place(page, x, y):
    """Where on the screen a point of the picture is."""
    inner = page.evaluate("([x, y]) => { const f = Gumdrop.posterior.picture.frame; return [f.x(x), f.y(y)]; }", [x, y])
    box = page.locator(".plot").bounding_box()
    return box["x"] + inner[0], box["y"] + inner[1]


def points(page):
    return page.evaluate("Gumdrop.posterior.points.list")


def rates(page, condition):
    wait_until(page, f"Gumdrop.posterior.frame.rates.length && Gumdrop.posterior.frame.rates.every((p) => {condition})")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1280, 800)])
def test_the_posterior_is_what_is_seen_first_and_it_moves(opened, site, width: int, height: int) -> None:
    page = opened(site, ["file:"], viewport={"width": width, "height": height})
    box = page.locator(".plot").bounding_box()
    assert box["y"] + box["height"] < height
    if width < 400:
        slider = page.locator("[data-sliders=repeat] input")
        slider.evaluate("slider => slider.scrollIntoView({block: 'center', behavior: 'instant'})")
        card = page.locator(".stage").bounding_box()
        assert card["height"] < 0.47 * height
        assert slider.bounding_box()["y"] > card["y"] + card["height"]
    wait_until(page, f"{STEPS} > 0")
    page.evaluate("window.before = document.querySelector('path.mean').getAttribute('d')")
    wait_until(page, "document.querySelector('path.mean').getAttribute('d') !== before")


def test_the_mouse_adds_moves_and_removes_points(page) -> None:
    page.get_by_role("button", name="No points").click()
    wait_until(page, f"{STATE} === 'no points'")
    assert page.locator(".caption").inner_text().startswith("No points: functions of the prior")
    page.mouse.click(*place(page, -1, 1))
    assert points(page) == [[pytest.approx(-1, abs=0.02), pytest.approx(1, abs=0.02)]]
    page.mouse.move(*place(page, -1, 1.05))  # not quite on it
    page.mouse.down()
    page.mouse.move(*place(page, 2, -1.95), steps=5)
    page.mouse.up()
    assert points(page) == [[pytest.approx(2, abs=0.02), pytest.approx(-2, abs=0.02)]]
    page.mouse.move(*place(page, 2, -2))
    page.mouse.down()
    page.mouse.move(*place(page, 2, -3.4), steps=3)
    page.mouse.up()
    assert points(page) == []


def test_a_tap_adds_a_swipe_scrolls_and_a_finger_moves_a_point(opened, site) -> None:
    page = opened(site, ["file:"], viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Four points").click()
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    touch, old = page.context.new_cdp_session(page), points(page)

    def send(kind, *places):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in places]})

    def swipe(x, y, *, up):
        send("touchStart", (x, y))
        for i in range(1, 9):
            send("touchMove", (x, y - up * i / 8))
        send("touchEnd")

    x, y = place(page, *old[0])
    swipe(x, y, up=30)
    assert points(page)[0][0] == pytest.approx(old[0][0], abs=0.05)
    assert points(page)[0][1] > old[0][1] + 0.3
    assert points(page)[1:] == old[1:]
    assert page.evaluate("scrollY") == 0
    page.touchscreen.tap(*place(page, 2.5, 1))
    assert points(page)[4] == [pytest.approx(2.5, abs=0.05), pytest.approx(1, abs=0.05)]
    swipe(*place(page, 2.5, -1), up=120)  # last, since the page goes on scrolling after it
    wait_until(page, "scrollY > 60")
    assert len(points(page)) == 5


def test_keys_reach_every_point_by_one_stop(page) -> None:
    page.get_by_role("button", name="Four points").click()
    assert page.locator(".point[tabindex='0'][role=option][aria-selected=true]").count() == 1
    page.locator(".skip").focus()
    page.keyboard.press("Tab")
    for key in ("PageDown", "ArrowRight", "ArrowUp", "Shift+ArrowDown"):
        page.keyboard.press(key)
    x, y = points(page)[1]
    assert (x, y) == (pytest.approx(-0.4), pytest.approx(-0.99 - 0.4, abs=0.011))
    assert page.locator(".point:focus").get_attribute("aria-label").startswith("Point 2 of 4: x −0.4, y −1")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert points(page)[4] == [pytest.approx(1.7), points(page)[3][1]]
    page.keyboard.press("Delete")
    assert len(points(page)) == 4
    assert page.locator(".point:focus").count() == 1
    assert page.locator(".point[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert page.locator(".point:focus").count() == 0


def test_every_setting_reaches_the_network(page) -> None:
    page.get_by_text("Prior and temperature").click()
    for label in ("each point counts", "prior lengthscale l", "mask temperature t"):
        slide(page, label, 1)
    assert page.get_by_label("p, where it is fixed").is_disabled()
    page.get_by_role("radio", name="Fixed").check()
    rates(page, "Math.abs(p - 0.1) < 1e-9")
    settings = page.evaluate("Gumdrop.posterior.frame.settings")
    chosen = {"model": "dropout", "rates": "fixed", "p": 0.1, "repeat": 100, "seed": 0}
    assert settings | {"p": 0.1} == chosen | {"lengthscale": pytest.approx(10), "temperature": pytest.approx(2)}
    assert page.locator("[data-of=N]").inner_text() == "1,600"
    slide(page, "p, where it is fixed", 1)
    rates(page, "Math.abs(p - 0.9) < 1e-9")
    page.get_by_role("radio", name="Learned").check()
    rates(page, "Math.abs(p - 0.9) > 1e-9")
    page.get_by_role("radio", name="Off").check()
    wait_until(page, "document.querySelector('.caption').textContent.startsWith('Without dropout')")
    assert page.locator("[data-of=p1]").inner_text() == "–"


def test_others_are_asked_about_the_same_points(page) -> None:
    page.get_by_role("radio", name="Exact Gaussian process").check()
    wait_until(page, f"{STATE} === 'exact'")
    assert "it knows where it has not looked" in page.locator(".caption").inner_text()
    assert page.locator(".draw").count() == 8
    page.get_by_role("radio", name="Deep ensemble").check()
    wait_until(page, f"{STATE} === 'training' && {STEPS} > 5")
    assert "functions of eight networks" in page.locator(".caption").inner_text()
    page.get_by_role("radio", name="Fixed").check()  # it has no rates: this asks dropout again
    assert page.get_by_role("radio", name="Dropout").is_checked()
    rates(page, "Math.abs(p - 0.1) < 1e-9")


def test_pause_and_start_again(page) -> None:
    page.get_by_role("button", name="Pause").click()
    assert page.evaluate(STATE) == "paused"
    page.get_by_role("button", name="No points").click()
    page.get_by_role("button", name="Two clumps").click()
    wait_until(page, f"{STEPS} === 0 && {STATE} === 'paused'")
    mean = page.evaluate("Gumdrop.posterior.frame.mean")
    page.get_by_role("button", name="Start again").click()
    wait_until(page, f"{STEPS} > 5 && Gumdrop.posterior.frame.settings.seed === 1")
    assert page.evaluate("Gumdrop.posterior.frame.mean") != mean
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Two clumps").click()
    wait_until(page, f"{STEPS} === 0 && {STATE} === 'paused'")
    assert page.evaluate("Gumdrop.posterior.frame.mean") == mean


def test_the_address_holds_what_is_seen(page, opened, site) -> None:
    page.get_by_role("button", name="Four points").click()
    page.get_by_role("radio", name="Fixed").check()
    slide(page, "p, where it is fixed", 0.5)
    slide(page, "each point counts", 1)
    wait_until(page, "location.hash.includes('repeat=100')")
    shown, settings = points(page), page.evaluate("Gumdrop.posterior.settings")
    address = page.evaluate("location.href")  # Playwright hears of it a moment later
    page.close()
    other = opened(address, ["file:"])
    wait_until(other, f"{STEPS} > 0")
    assert points(other) == shown
    assert other.evaluate("Gumdrop.posterior.settings") == settings | {"p": pytest.approx(0.46, abs=0.01)}
    other.close()
    strange = opened(f"{site}#points=1,1;9,9;a,b;2&model=evil&p=7&repeat=x&seed=-1", ["file:"])
    assert points(strange) == [[1, 1]]
    assert strange.evaluate("Gumdrop.posterior.settings") == strange.evaluate("Gumdrop.trainer.DEFAULTS")
    strange.evaluate("location.hash = 'landscape'")
    assert points(strange) == [[1, 1]]


def test_the_code_of_what_is_seen_runs(page) -> None:
    page.get_by_role("button", name="Four points").click()
    for choice in ("Learned", "Fixed", "Off", "Deep ensemble", "Exact Gaussian process"):
        page.get_by_role("radio", name=choice).check()
        code = page.locator("pre code").text_content()
        assert "[-1.5, " in code, choice
        found = {}
        exec(code.replace("range(1500)", "range(2)"), found)  # the page's own words
        assert found["mean"].shape == found["epistemic"].shape == (121, 1), choice
        assert found["epistemic"].isfinite().all(), choice
        if choice == "Fixed":
            assert [round(p, 6) for p in found["gd"].dropout_rates(found["model"]).values()] == [0.1, 0.1]


def test_link_and_code_are_copied_or_the_page_says_where_they_are(page) -> None:
    taken = page.locator("[data-of=taken]")
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    page.get_by_role("button", name="Copy the code").click()
    wait_until(page, "window.copied === document.querySelector('pre code').textContent")
    assert taken.inner_text() == "The code is copied."
    page.get_by_role("button", name="Copy the link").click()
    wait_until(page, "window.copied === location.href && location.hash.startsWith('#points=')")
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }; }")
    page.get_by_role("button", name="Copy the link").click()
    wait_until(page, "document.querySelector('[data-of=taken]').textContent.includes('The address is above')")


@pytest.mark.slow  # encoding takes ten seconds without the chip that does it elsewhere
def test_a_button_gives_a_film(page) -> None:
    page.evaluate("(({ film }) => { const own = film.record; film.record = (...all) => own(...all, 0.1); })(Gumdrop)")
    with page.expect_download() as download:
        page.get_by_role("button", name="Make a film").click()
    assert download.value.suggested_filename in ("gumdrop.webm", "gumdrop.mp4")
    assert download.value.path().stat().st_size > 2000
    wait_until(page, "document.querySelector('[data-of=taken]').textContent.startsWith('The film is gumdrop.')")
    assert page.get_by_role("button", name="Make a film").is_enabled()


def test_charts_shrink_on_paper(page) -> None:
    """A page is laid out anew for print, and nothing measures it: what was drawn for the screen has to fit."""
    cut = page.evaluate(
        """() => { const box = document.querySelector('.stage'); box.style.width = '300px';
             const edge = box.getBoundingClientRect().right;
             const texts = [...box.querySelectorAll('svg text')];
             return texts.filter((text) => text.getBoundingClientRect().right > edge).length; }"""
    )
    assert cut == 0
    page.emulate_media(media="print")
    assert not page.get_by_role("button", name="Pause").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.stage')).position") == "static"


def test_nothing_is_blank_where_the_system_chooses_colours(page) -> None:
    page.emulate_media(forced_colors="active")
    grounds = page.evaluate(
        """() => ['.masks i', '.legend .epistemic-key', '.legend .noise-key'].map((s) =>
             getComputedStyle(document.querySelector(s)).backgroundColor)"""
    )
    canvas = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert canvas not in grounds
    assert len(set(grounds)) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_can_be_told_from_its_ground(opened, site, scheme: str) -> None:
    page = opened(site, ["file:"], color_scheme=scheme)
    names = ("card", "epistemic-band", "noise-band", "draw", "epistemic", "ink", "accent", "aleatoric")
    colours = page.evaluate(
        """(names) => { const probe = document.body.appendChild(document.createElement('i'));
             const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
             return Object.fromEntries(names.map((name) => { probe.style.color = `var(--${name})`;
               pen.fillStyle = getComputedStyle(probe).color; pen.fillRect(0, 0, 1, 1);
               return [name, [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3)]; })); }""",
        names,
    )
    for ground in ("card", "epistemic-band", "noise-band"):
        assert contrast(colours["draw"], colours[ground]) >= 3, ground
        assert contrast(colours["ink"], colours[ground]) >= 4.5, ground
    for line in ("epistemic", "aleatoric", "accent"):
        assert contrast(colours[line], colours["card"]) >= 3, line
