"""`train --live`: the address is said, and a browser is opened where there is a screen."""

from __future__ import annotations

import re
import sys
import webbrowser

from commands import call


def test_train_says_where_its_page_is_and_opens_it_where_there_is_a_screen(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    (tmp_path / "t.svm").write_text("1 1:1\n0 2:1\n1 1:1\n0 2:1\n")
    words = ["train", tmp_path / "t.svm", "--clients", "2", "--rounds", "3", "--quiet", "--out", tmp_path / "run"]
    (said,) = re.findall(r"Live: (http://127\.0\.0\.1:\d+/\S+/)", call(*words, "--live").stderr)
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    again = call(*words, "--live")
    assert opened == re.findall(r"Live: (\S+)", again.stderr) != [said]
    assert again.exit_code == 0
    assert "Live:" not in call(*words).stderr
    assert len(opened) == 1
