"""The pages of `make play` in Chromium, without a network: same numbers, keyboard, widths, axe."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from companion.publish import CommandError, environment
from companion.publish.play import build, pages, serve
from ldp_core.randomness import Purpose, generator

ROOT = Path(environment.ROOT)
SIZES = {"telephone": (390, 844), "desk": (1280, 800)}  # pixels
SETTINGS, TOLERANCE = 20, 1e-12
DRAWN = "count => play.drawn > count || play.failed"
SERIOUS = """async () => (await axe.run()).violations
    .filter(found => ['serious', 'critical'].includes(found.impact))
    .map(found => `${found.id}: ${found.nodes[0].html.slice(0, 200)}`)"""
BESIDE = """() => [...document.querySelectorAll('#picture svg, #controls input[type=range]')]
    .map(one => one.getBoundingClientRect().bottom)"""
TWO_FRAMES = """() => new Promise(drawn =>
    requestAnimationFrame(() => requestAnimationFrame(drawn)))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the pages, or skip by name where the packages cannot be had."""
    folder = tmp_path_factory.mktemp("play") / "pages"
    try:
        build.build(ROOT, folder)
    except CommandError as error:
        pytest.skip(f"play: {error}")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    """Return where the pages are served."""
    with running(serve.server(folder, 0)) as address:
        yield address


@contextmanager
def running(server):
    """Run a server until the end, and yield its address."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


class Plain(serve.Handler):
    """A web server that knows pages, scripts and styles, and nothing of WebAssembly."""

    extensions_map = {  # noqa: RUF012
        ".html": "text/html",
        ".js": "text/javascript",
        ".css": "text/css",
        "": "application/octet-stream",
    }

    def guess_type(self, path):
        return self.extensions_map.get(Path(path).suffix, self.extensions_map[""])


@pytest.fixture(scope="module")
def visit(chromium, address):
    """Return a function that opens a page, waits until it has drawn, and refuses all elsewhere."""
    opened = []

    def opens(name: str, size: str = "desk", **options):
        width, height = SIZES[size]
        page = chromium.new_page(viewport={"width": width, "height": height}, **options)
        page.elsewhere, page.errors = [], []
        page.set_default_timeout(300_000)
        page.route(lambda url: not url.startswith(address), lambda route: refuse(page, route))
        page.on("console", lambda said: said.type == "error" and page.errors.append(said.text))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(f"{address}{name}.html")
        page.wait_for_function(f"() => ({DRAWN})(0)")
        opened.append(page)
        return page

    yield opens
    for page in opened:
        page.close()


def refuse(page, route) -> None:
    """Let a request to elsewhere fail, and write it down; what a page carries itself is none."""
    if route.request.url.startswith(("data:", "blob:")):
        route.continue_()
    else:
        page.elsewhere.append(route.request.url)
        route.abort()


@pytest.fixture(scope="module", params=pages.PAGES)
def page(request, visit):
    """Return each page in turn on a desk, started once for all tests of this file."""
    found = visit(request.param)
    found.name = request.param
    return found


def touched(page, action) -> None:
    """Do something to a page, and wait until it has drawn anew."""
    count = page.evaluate("play.drawn")
    action()
    page.wait_for_function(DRAWN, arg=count)


def setting(name: str, number: int) -> dict:
    """Return settings drawn evenly from what the controls span; some of them are refused."""
    source, found = generator(number, Purpose.SYNTHETIC, agent=1), {}
    if name == "network":
        return {graph: edges(source) for graph in ("R_edges", "C_edges")}
    for control in pages.PAGES[name].CONTROLS:
        steps = round((control.most - control.least) / control.step)
        place = control.least + control.step * int(source.random() * (steps + 1))
        found[control.name] = control.value(place)
    return found | ({"seed": number, "rounds": 50} if name == "game" else {})


def edges(source) -> list[list]:
    """Return a ring of five agents, random weights, a few arrows more, now and then a hole."""
    every = [[j, i] for j in range(5) for i in range(5) if i != j]
    kept = [(i - j) % 5 == 1 if source.random() < 0.97 else False for j, i in every]
    chosen = [edge for edge, ring in zip(every, kept, strict=True) if ring or source.random() < 0.1]
    return [[*edge, 0.05 + 0.3 * source.random()] for edge in chosen]


def differences(ours, theirs, place: str = "") -> list[str]:
    """Return where two answers differ by more than the tolerance, or in kind."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return [
            one for key in ours for one in differences(ours[key], theirs[key], f"{place}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [one for k, pair in pairs for one in differences(*pair, f"{place}[{k}]")]
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        same = abs(ours - theirs) <= TOLERANCE * max(1.0, abs(ours))
    else:
        same = ours == theirs
    return [] if same else [f"{place}: {ours} natively, {theirs} in the browser"]


def test_numbers_are_those_of_native_python(page):
    answers = [pages.answer(page.name, setting(page.name, k)) for k in range(SETTINGS)]
    assert sum("sentence" not in answer for answer in answers) >= SETTINGS / 2
    for number, ours in enumerate(answers):
        theirs = page.evaluate("settings => play.ask(settings)", setting(page.name, number))
        assert not differences(ours, theirs)[:3], f"setting {number}"


def test_a_key_moves_a_slider_and_the_picture(page):
    control = pages.PAGES[page.name].CONTROLS[0]
    before = page.inner_text(".control output"), page.inner_html("#picture")
    page.focus(f"#{control.name}")
    if page.name == "network":  # its slider is the weight of the next arrow
        page.keyboard.press("ArrowRight")
        page.focus("[data-agent=R2]")
        page.keyboard.press("Enter")
        page.focus("[data-agent=R0]")
        touched(page, lambda: page.keyboard.press("Enter"))
    else:
        touched(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.inner_text(".control output") != before[0]
    assert page.inner_html("#picture") != before[1]


def test_an_answer_does_not_take_the_focus_away(visit):
    page = visit("network")
    page.focus("[data-agent=R1]")
    again = "document.getElementById('weight').dispatchEvent(new Event('input', {bubbles: true}))"
    touched(page, lambda: page.evaluate(again))
    assert page.evaluate("document.activeElement.dataset.agent") == "R1"


def test_lines_can_be_changed_and_brought_back(page):
    before = page.input_value("#lines")
    touched(page, lambda: page.fill("#lines", "return 1 +"))
    assert page.inner_text("#sentence") == "line 1: invalid syntax"
    touched(page, lambda: page.fill("#lines", "raise ValueError('a sentence')"))
    assert page.inner_text("#sentence") == "a sentence"
    touched(page, lambda: page.click("#undo"))
    assert page.input_value("#lines") == before and page.is_hidden("#sentence")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_window(page, size):
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[size], strict=True)))
    page.evaluate(TWO_FRAMES)  # the picture follows the window within one
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if size == "desk":
        assert max(page.evaluate(BESIDE)) <= SIZES[size][1]  # picture and sliders on one screen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.add_script_tag(path=build.installed(ROOT) / "axe-core" / "axe.min.js")
    assert not page.evaluate(SERIOUS)


def test_nothing_was_asked_of_elsewhere_and_nothing_went_wrong(page):
    """The last test of each page: everything before it went without a network."""
    assert page.elsewhere == [] and page.errors == []


def test_a_game_is_played(visit):
    page = visit("game", "telephone")
    for rounds in (1, 2):
        page.click("text=It was blue")
        assert f"of {rounds} (" in page.inner_text("#numbers")
        assert page.inner_text(".told >> nth=0").startswith(("Right: it was blue", "Wrong: it was"))
        touched(page, lambda: page.click("text=Next round"))
        assert page.evaluate("document.activeElement.innerText") == "It was blue"
    page.click("text=1000 rounds")
    page.wait_for_function("document.body.innerText.includes('of 1000 rounds')")


def test_a_number_is_dragged(visit):
    page = visit("quantizer", "telephone")
    box = page.locator(".handle.ours path").bounding_box()
    page.mouse.move(box["x"] + 13, box["y"] + 11)
    page.mouse.down()
    touched(page, lambda: page.mouse.move(box["x"] + 43, box["y"] + 11))
    page.mouse.up()
    assert float(page.input_value("#y")) > 0.9


@pytest.mark.parametrize("name", ["index", "slides"])
@pytest.mark.parametrize("size", SIZES)
def test_pages_without_a_picture_are_whole(new_page, address, name, size):
    page = new_page(*SIZES[size])
    page.goto(f"{address}{name}.html")
    page.add_script_tag(path=build.installed(ROOT) / "axe-core" / "axe.min.js")
    assert not page.evaluate(SERIOUS)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()


def test_slides_turn_show_notes_and_run_their_page(new_page, address):
    page = new_page()
    page.goto(f"{address}slides.html")
    assert page.locator(".slide:visible").count() == 1
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.inner_text(".slide:visible h2") == pages.quantizer.QUESTION
    page.keyboard.press("n")
    assert "Minutes 5–25" in page.inner_text(".slide:visible .notes")
    frame = page.frame_locator(".slide.now iframe")
    frame.locator("#picture svg").wait_for()
    assert frame.locator("h1").is_hidden()
    page.close()


def test_any_web_server_will_do(new_page, folder):
    handler = partial(Plain, directory=str(folder))
    page = new_page()
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        page.goto(f"{address}quantizer.html")
        page.wait_for_function("() => window.play && (play.drawn || play.failed)")
        assert page.evaluate("play.failed") == ""
    page.close()


def test_from_the_disk_a_page_says_what_it_needs(new_page, tmp_path):
    page = new_page()
    (tmp_path / "quantizer.html").write_text(
        build.rendered(ROOT)["quantizer.html"], encoding="utf-8"
    )
    page.goto((tmp_path / "quantizer.html").as_uri())
    assert "web server" in page.inner_text("#status")
    page.close()
