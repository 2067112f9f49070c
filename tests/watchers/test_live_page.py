"""The live page: what it serves, to whom, and that a browser draws it while the run lasts."""

from __future__ import annotations

import json
import shutil
from http.client import HTTPConnection
from threading import Thread
from time import sleep
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import errorfeedback as ef
from errorfeedback.watchers.live_page import MOST

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1280,900")


def row(t):
    return {"round": t, "f": 1 / (1 + t), "gamma": 0.5, "uplink_bits": 80 * t, "downlink_bits": 800 * t, "seconds": t / 100}


def rows(live, since=0):
    with urlopen(f"{live.url}rows?since={since}", timeout=10) as answer:
        return json.loads(answer.read())


def test_it_hands_out_the_rows_since_the_last_question_and_never_too_many():
    with ef.LivePage(clients=4, title="t") as live:
        for t in range(10):
            live(row(t) | {"validation": float("nan")})
        first = rows(live)
        assert [each["round"] for each in first["rows"]] == list(range(10))
        assert first["rows"][3]["f"] == 0.25
        assert "validation" not in first["rows"][3]
        assert (first["clients"], first["next"], first["done"]) == (4, 10, False)
        assert rows(live, first["next"])["rows"] == []
        for t in range(10, 5000):
            live(row(t))
        many = rows(live, 10)
        assert MOST / 2 <= len(many["rows"]) <= MOST
        assert (many["rows"][-1]["round"], many["next"]) == (4999, 5000)


def test_only_this_machine_is_heard_and_only_who_knows_the_key():
    with ef.LivePage() as live:
        host, port = live.server.server_address
        assert host == "127.0.0.1"
        for path in ("", "rows", "key/rows", f"{live.key}x/"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10)
        with urlopen(live.url, timeout=10) as answer:
            assert b"<!doctype html>" in answer.read()[:20]
    with pytest.raises(OSError, match="refused"):
        HTTPConnection("127.0.0.1", port, timeout=1).connect()


def test_a_page_that_is_open_hears_of_the_end_and_nobody_waits_for_one_that_is_not(monkeypatch):
    monkeypatch.setattr("errorfeedback.watchers.live_page.RECENT", 60.0)  # a busy machine may take its time
    live, closed = ef.LivePage(), []
    assert rows(live)["done"] is False
    closing = Thread(target=lambda: closed.append(live.close()))
    closing.start()
    while not live.done:
        sleep(0.01)
    heard = rows(live)
    closing.join(10)
    assert heard["done"] is True
    assert closed == [None]


def test_an_answer_from_before_the_end_does_not_end_the_page(monkeypatch):
    """The run ends while a question is being answered: what goes out says that it has not, so the page must ask again."""
    monkeypatch.setattr("errorfeedback.watchers.live_page.RECENT", 60.0)
    live = ef.LivePage()
    answer, closing = live.answer, Thread(target=live.close)

    def slowly(since):
        said = answer(since)
        closing.start()
        while not live.done:
            sleep(0.01)
        return said

    monkeypatch.setattr(live, "answer", slowly)
    assert rows(live)["done"] is False
    monkeypatch.setattr(live, "answer", answer)
    assert rows(live)["done"] is True
    closing.join(10)
    assert not closing.is_alive()


def test_clients_must_be_some():
    with pytest.raises(ValueError, match="clients = 0; it must be at least 1"):
        ef.LivePage(clients=0)


@pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver")
def test_a_browser_draws_the_run_and_says_when_it_is_over(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    try:
        with ef.LivePage(clients=10, title="A run") as live:
            browser.get(live.url)
            few = ef.EF21(ef.FittedAnswer(), start="compressed")
            ef.solve(problem, few, ef.Armijo(), direction=ef.LBFGS(), downlink=ef.FittedStep(), rounds=20, watch=live)
            paths = (
                "return [...document.querySelectorAll('section:not([hidden]) path')].map(p => p.getAttribute('d').length)"
            )
            wait(browser, 20).until(lambda driver: len(driver.execute_script(paths)) >= 4)
            assert min(browser.execute_script(paths)) > 40
            assert "running: round 20" in browser.find_element("id", "status").text
            browser.execute_script("document.querySelector('[data-axis=sent]').click()")
            assert "kB per client, up and down" in browser.find_element("id", "loss").text
        wait(browser, 20).until(lambda driver: "finished: round 20" in driver.find_element("id", "status").text)
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        browser.quit()
