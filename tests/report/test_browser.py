"""The page in a real browser: curves are drawn, the axis can be switched, a curve hidden, nothing is loaded."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from errorfeedback.plots.figure import Axis, Bars, Curve, Figure, Heatmap, Lines
from errorfeedback.report.page import Claim, Drawing, Page, Section, Table, Text

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no Chromium with its driver (apt-get install chromium chromium-driver)",
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXES = {"rounds": Axis("communication rounds", log=True), "bits": Axis("bits sent per client", log=True)}


def page() -> Page:
    t = np.arange(1.0, 200.0)
    curves = [Curve(f"EF21, γ = {g}", {"rounds": t, "bits": 70 * t}, np.exp(-g * t), k) for k, g in enumerate((0.1, 0.02))]
    lines = Figure("lines", [Lines("c/n = 0.05", curves, Axis("‖∇f(x)‖²", log=True))], AXES)
    others = Figure(
        "others",
        [
            Bars("bars", ["a", "b"], {"x": [1.0, 2.0]}, Axis("count")),
            Heatmap("pattern", np.eye(20, dtype=bool), "client", "feature"),
        ],
    )
    beside = Figure("beside", [Lines(name, curves, Axis("f"), legend=name == "b") for name in "ab"], {"bits": AXES["bits"]})
    wide = Table([f"column {k}" for k in range(12)], [[1.0] * 12])
    return Page(
        "T",
        "lead",
        [Section("S", [Text("x"), Claim("v", True, "f"), Drawing(lines), Drawing(others), Drawing(beside), wide])],
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, tmp_path):
    look(browser, 1280, "light")
    browser.get(page().write(tmp_path / "page.html").as_uri())
    wait(browser, "return document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    return browser


def look(browser, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def wait(browser, script: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415  (optional)

    WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(script))


def paths(browser) -> list[str]:
    """The drawn curves, as SVG paths."""
    script = (
        "return [...document.querySelectorAll('#figure-lines .scatterlayer path.js-line')].map(p => p.getAttribute('d'))"
    )
    return browser.execute_script(script)


def text(browser, selector: str) -> str:
    return browser.execute_script(f"return document.querySelector({json.dumps(selector)}).textContent")


def test_curves_bars_and_patterns_are_drawn(opened):
    assert len(paths(opened)) == 2
    assert all(len(path) > 100 for path in paths(opened))
    assert opened.execute_script("return document.querySelectorAll('#figure-others .bars .point').length") == 2
    assert opened.execute_script("return document.querySelectorAll('#figure-others .heatmaplayer image').length") == 1


def test_no_error_reaches_the_console(opened):
    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_nothing_is_loaded_from_the_network(opened):
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert urls, "the page itself is a request"
    assert [url for url in urls if url.startswith(("http", "ws", "ftp"))] == []


def test_the_axis_can_be_switched(opened):
    x = "return document.querySelector('#figure-lines .plot').data[0].x[0]"
    assert opened.execute_script(x) == 1
    assert text(opened, "#figure-lines .xtitle") == "communication rounds"
    before = opened.execute_script("return document.querySelector('#figure-lines .plot').layout.xaxis.range")
    opened.execute_script("document.querySelector('button[data-axis=bits]').click()")
    wait(opened, "return document.querySelector('#figure-lines .xtitle').textContent === 'bits sent per client'")
    assert opened.execute_script(x) == 70
    assert opened.execute_script("return document.querySelector('#figure-lines .plot').layout.xaxis.range") != before
    assert opened.execute_script("return document.querySelector('button[data-axis=bits]').ariaPressed") == "true"
    assert len(paths(opened)) == 2


def test_a_curve_can_be_hidden_and_stays_hidden_when_the_axis_is_switched(opened):
    opened.execute_script("Plotly.restyle(document.querySelector('#figure-lines .plot'), {visible: 'legendonly'}, [0])")
    wait(opened, "return document.querySelectorAll('#figure-lines .scatterlayer path.js-line').length === 1")
    opened.execute_script("document.querySelector('button[data-axis=bits]').click()")
    wait(opened, "return document.querySelector('#figure-lines .xtitle').textContent === 'bits sent per client'")
    assert len(paths(opened)) == 1


def test_a_legend_speaks_for_all_panels_of_its_figure(opened):
    opened.execute_script(
        "Plotly.restyle(document.querySelectorAll('#figure-beside .plot')[1], {visible: 'legendonly'}, [1])"
    )
    wait(opened, "return document.querySelectorAll('#figure-beside .scatterlayer path.js-line').length === 2")
    states = "return [...document.querySelectorAll('#figure-beside .plot')].map(p => p.data.map(t => t.visible))"
    assert opened.execute_script(states) == [[True, "legendonly"]] * 2
    assert len(paths(opened)) == 2  # another figure has a legend of its own


def test_the_colours_follow_the_theme(opened):
    paper = "return getComputedStyle(document.body).backgroundColor"
    stroke = "return getComputedStyle(document.querySelector('#figure-lines path.js-line')).stroke"
    light = opened.execute_script(paper), opened.execute_script(stroke)
    look(opened, 1280, "dark")
    wait(opened, "return document.documentElement.dataset.theme === 'dark'")
    dark = opened.execute_script(paper), opened.execute_script(stroke)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    opened.execute_script("document.getElementById('theme').click()")
    wait(opened, "return document.documentElement.dataset.theme === 'light'")
    assert (opened.execute_script(paper), opened.execute_script(stroke)) == light


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(opened, width: int):
    look(opened, width, "light")
    wait(opened, f"return window.innerWidth === {width} && document.documentElement.scrollWidth <= {width}")
