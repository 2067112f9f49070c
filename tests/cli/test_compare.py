"""The verb `compare`, from the outside."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.comparison.contest_run import ContestRun


def call(*words):
    return CliRunner().invoke(app(), ["compare", *map(str, words), "--jobs", "1"], env={"COLUMNS": "250"})


def plain(done):
    return " ".join(done.output.replace("│", " ").split())


def write(path, m=120, **columns):
    rng = np.random.default_rng(0)
    colour, size, shop = rng.choice(["red", "green", "blue"], m), rng.standard_normal(m), rng.choice(["a", "b", "c"], m)
    score = 2.0 * (colour == "red") + size - 0.5 + 0.3 * rng.standard_normal(m)
    table = {"colour": colour, "size": size, "shop": shop, "target": np.where(score > 0, "yes", "no")}
    table |= {name: make(score) for name, make in columns.items()}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A run with a network, its output, its summary and its histories."""
    folder = tmp_path_factory.mktemp("compare")
    words = [write(folder / "t.csv"), "--client-column", "shop", "--rounds", 40, "--network", "up=1kbit/s,latency=50ms"]
    done = call(*words, "--out", folder / "c")
    assert done.exit_code == 0, done.output
    return done, folder, *(json.loads((folder / f"c/{name}.json").read_text()) for name in ("comparison", "histories"))


def test_everything_is_written_and_every_method_takes_part_once(compared):
    _, folder, _, runs = compared
    files = {"loss.png", "loss.svg", "report.html", "histories.json", "comparison.json", "curves", "states"}
    assert {path.name for path in (folder / "c").iterdir()} == files
    assert {"GD, InverseL", "GD, Automatic", "EF21 Top1, Automatic", "EF14 Top1, 1/L"} <= set(runs)
    rules = {rule for label in runs for rule in label.partition(", ")[2].split(" = ")}
    assert {"RareFeatures", "EF21Standard", "Convex", "Spectral", "MarinaAB", "MarinaIndependent"} <= rules
    finals = [tuple(history["f"]) for history in runs.values()]
    assert len(set(finals)) == len(finals)
    assert "EF21 Top5, Automatic" in runs  # r = 5: what inspect tries takes part, also sending everything


def test_the_winner_is_the_fastest_and_is_named_everywhere(compared):
    done, folder, found, runs = compared
    assert found["by"] == "time on the network"
    times = [None if m["until_goal"] is None else m["until_goal"]["network_seconds"] for m in found["methods"]]
    there = [time for time in times if time is not None]
    assert there == sorted(there)
    assert times == [*there, *[None] * (len(times) - len(there))]
    assert found["winner"] == found["methods"][0]["method"] == next(iter(runs))
    sentence = f"Winner by time on the network: {found['winner']} needs"
    assert sentence in plain(done)
    assert sentence in (folder / "c/report.html").read_text()


def test_final_and_lowest_loss_and_all_bytes_are_the_histories_own(compared):
    done, _, found, runs = compared
    n = 3
    for method in found["methods"]:
        history, spent = runs[method["method"]], method["spent"]
        assert method["final_loss"] == history["f"][-1]
        assert method["lowest_loss"] == min(history["f"])
        assert spent["bytes_up_per_client"] == pytest.approx(history["uplink_bits"][-1] / 8 / n)
        assert spent["bytes_down_per_client"] == pytest.approx(history["downlink_bits"][-1] / 8 / n)
        assert spent["bytes_per_client"] == pytest.approx(spent["bytes_up_per_client"] + spent["bytes_down_per_client"])
        assert np.all(np.diff(history["network_seconds"]) >= 0.1)
        line = f"{method['method']}: loss {method['final_loss']:.6g} at the end, {method['lowest_loss']:.6g} at the lowest"
        assert line in plain(done)


def test_the_network_is_printed_with_the_rate_that_was_not_given(compared):
    done, folder, found, _ = compared
    network = "up 1 kbit/s, down 1 kbit/s (not given: same as up), latency 50 ms"
    assert found["network"] == network
    assert f"Network: {network}" in plain(done)
    page = (folder / "c/report.html").read_text()
    assert network in page
    assert "Not counted:" in page


def test_no_method_stops_before_its_set_up_is_paid(compared, tmp_path):
    """One byte is less than anybody's set-up; then each has one round after it."""
    _, folder, *_ = compared
    done = call(folder / "t.csv", "--client-column", "shop", "--budget", "1B", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    for method in json.loads((tmp_path / "comparison.json").read_text())["methods"]:
        assert method["spent"]["round"] == 1
        assert method["stopped"] == "1 B per client, up and down, spent at round 1"


def test_limits_are_total_bytes_and_time_on_the_network(compared, tmp_path):
    _, folder, _, runs = compared
    words = [folder / "t.csv", "--client-column", "shop", "--network", "up=1kbit/s,latency=50ms", "--out", tmp_path]
    done = call(*words, "--budget", "500B", "--rounds", 40)
    assert done.exit_code == 0, done.output
    for method in json.loads((tmp_path / "comparison.json").read_text())["methods"]:
        history, last = runs[method["method"]], method["spent"]["round"]
        total = (np.array(history["uplink_bits"]) + history["downlink_bits"]) / 8 / 3
        assert total[last - 1] - total[0] < 500 <= method["spent"]["bytes_per_client"] - total[0]
    assert call(*words, "--time", "3s", "--rounds", 40).exit_code == 0
    for method in json.loads((tmp_path / "comparison.json").read_text())["methods"]:
        seconds, last = runs[method["method"]]["network_seconds"], method["spent"]["round"]
        assert seconds[last - 1] - seconds[0] < 3 <= seconds[last] - seconds[0] + 0.2


def test_a_continuous_target_is_refused_with_the_option_that_helps(tmp_path):
    data = write(tmp_path / "t.csv", price=lambda score: 100 * score, pounds=lambda score: (1000 * score).astype(int))
    for target in ("price", "pounds"):
        done = call(data, "--target", target, "--rounds", 10, "--out", tmp_path / "c" / target)
        assert done.exit_code == 2
        assert "use --regression" in plain(done)
        assert not (tmp_path / "c" / target).exists()
        done = call(data, "--target", target, "--rounds", 10, "--regression", "--out", tmp_path / "c" / target)
        assert done.exit_code == 0, done.output


def test_many_classes_penalties_and_several_levels(tmp_path):
    data = write(tmp_path / "t.csv", kind=lambda score: np.array(["lo", "mid", "hi"])[(score > -0.5) + 1 * (score > 0.5)])
    words = [data, "--target", "kind", "--client-column", "shop", "--rounds", 30, "--l1", 0.01, "--k", 1, "--k", 3]
    assert call(*words, "--out", tmp_path / "c").exit_code == 0
    runs = json.loads((tmp_path / "c/histories.json").read_text())
    assert json.loads((tmp_path / "c/comparison.json").read_text())["by"] == "bytes up and down"
    assert {"EF21 Top1, Automatic", "EF21 Top3, Automatic"} <= set(runs)
    top = runs["EF21 Top1, Automatic"]
    assert top["f"][0] == pytest.approx(np.log(3))  # three classes
    assert top["f"][-1] < 0.9 * top["f"][0]
    heavy = call(*words, "--l2", 100.0, "--out", tmp_path / "h")
    assert heavy.exit_code == 0, heavy.output
    pressed = json.loads((tmp_path / "h/histories.json").read_text())["EF21 Top1, Automatic"]
    assert min(pressed["f"]) > min(top["f"])


def test_named_methods_have_a_step_in_hindsight_and_the_same_command_runs_nothing_again(compared, tmp_path, monkeypatch):
    _, folder, *_ = compared
    words = [folder / "t.csv", "--client-column", "shop", "--rounds", 30, "--methods", "DGD,EF14", "--seeds", 2]
    done = call(*words, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "comparison.json").read_text())
    chosen = {method["method"]: method["step"]["chosen"] for method in summary["methods"]}
    assert set(chosen.values()) == {"theorem", "automatic", "in hindsight"}
    assert {label.partition(",")[0] for label in chosen} == {"DGD", "EF14 TopK(1)"}
    assert "Nobody could have known it before" in (tmp_path / "report.html").read_text()
    names = {
        f"{of}-{over}.{kind}" for of in ("loss", "gradient") for over in ("rounds", "up", "total") for kind in ("pdf", "png")
    }
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names
    assert {"table.csv", "table.tex"} <= {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr(ContestRun, "execute", None)
    again = call(*words, "--out", tmp_path)
    assert again.exit_code == 0, again.output
    assert "at the lowest" not in plain(again)
    assert json.loads((tmp_path / "comparison.json").read_text())["methods"] == summary["methods"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "Adam"], "'adam' is no method; there are all, "),
        (["--time", "3s"], "--time 3s is counted on a network"),
        (["--time", "soon", "--network", "up=1kbit/s"], "time = 'soon'"),
        (["--budget", "0B"], "it must be above 0"),
        (["--intercept", "often"], "intercept = 'often'"),
        (["--clients", "1000"], "1000 clients but 120 rows"),
    ],
)
def test_wrong_words_are_named(tmp_path, words, message):
    done = call(write(tmp_path / "t.csv"), *words, "--out", tmp_path / "c")
    assert done.exit_code == 2
    assert message in plain(done)
