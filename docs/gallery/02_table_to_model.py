r"""
From your table to a model
==========================

A CSV file with numbers, text, dates and gaps goes in; a model that was trained across its shops comes out, with a
history, a page about the run, and predictions for new rows. No step size, no compressor, no bit width is chosen by
hand. You need

.. code-block:: console

   pip install 'errorfeedback[report,tables,pandas]'

and nothing else than this page. Put your own file where ``sales.csv`` stands.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from matplotlib import pyplot as plt

import errorfeedback as ef

folder = Path(mkdtemp())

# %%
# The table
# ---------
# Orders of 40 shops. We want to know which of them will be sent back. What shops sell differs: every shop has products
# of its own, so that most products are rare, and that is where error feedback is at its best.

rng = np.random.default_rng(0)
shops, products, rows = 40, 300, 6_000
shop = rng.integers(shops, size=rows)
product = (shop * 7 + rng.integers(12, size=rows)) % products
price = np.round(rng.lognormal(3, 0.6, rows), 2)
day = rng.integers(365, size=rows)
likes = rng.normal(0, 1.5, products)
back = rng.random(rows) < 1 / (1 + np.exp(-(likes[product] + 0.02 * (price - 20) - 1)))


def line(k):
    """One order; one price in twenty is missing."""
    shown = "" if k % 20 == 0 else f"{price[k]:.2f}"
    date = np.datetime64("2025-01-01") + day[k]
    return f"shop-{shop[k]:02d},product-{product[k]:03d},{shown},{date},{'yes' if back[k] else 'no'}"


header = "shop,product,price,ordered,returned"
(folder / "sales.csv").write_text("\n".join([header, *map(line, range(5_000))]) + "\n")
(folder / "new.csv").write_text("\n".join([header, *map(line, range(5_000, rows))]) + "\n")
print("\n".join((folder / "sales.csv").read_text().splitlines()[:5]))

# %%
# One command
# -----------
# ``--client-column`` says who has which rows, ``--target`` what is to be predicted. ``--missing impute`` fills gaps in
# a number with its median and remembers that there was a gap; without it the command stops and names the columns. A
# fifth of the rows is held out.


def errorfeedback(*words, code=0):
    """What `errorfeedback WORDS` prints on a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "errorfeedback", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    print(f"$ errorfeedback {' '.join(words)}\n{done.stderr}{done.stdout}")


errorfeedback(
    *("train", "sales.csv", "--target", "returned", "--client-column", "shop", "--missing", "impute"),
    *("--valid", "0.2", "--out", "run", "--quiet"),
)

# %%
# What was done with every column is said above: the product became a feature per value, the date years since the first
# one, gaps a feature of their own. Columns that only name the rows, or have the same value in all of them, would be left
# out with a word; ``--drop`` leaves out what you name. The meaning of the columns is stored in the model; the same goes
# for every later file (:doc:`/data`).
#
# If your file is refused
# -----------------------
# Tables from elsewhere have columns that look like numbers or dates and are not quite. They are not guessed at: the
# command names all of them, and the option for each. Here is one with a unit, dates that begin with the day, a word
# among numbers, and amounts of money.


def messy(k):
    """One order of another kind of file."""
    stars, back = "none" if k % 9 == 0 else k % 5, "yes" if k % 3 == 0 else "no"
    return f"shop-{k % 4},{50 + 7 * k % 40}.5 kg,{1 + k % 28}.{1 + k % 12}.2025,{stars},€{k},{back}"


lines = ["shop,weight,ordered,stars,paid,returned", *map(messy, range(200))]
(folder / "messy.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
errorfeedback("train", "messy.csv", "--target", "returned", "--client-column", "shop", "--out", "messy", code=2)

# %%
# ``--date-format %d.%m.%Y`` reads the dates, and later files need not be told again. ``--number stars`` takes the word as
# a gap, which ``--missing impute`` fills. ``--drop weight,paid`` leaves the other two out; to use them, write the numbers
# alone. Two more: ``--decimal ,`` is for decimal commas, and ``--text zip`` for digits that are no number.

errorfeedback(
    *("train", "messy.csv", "--target", "returned", "--client-column", "shop", "--out", "messy", "--quiet"),
    *("--date-format", "%d.%m.%Y", "--number", "stars", "--missing", "impute", "--drop", "weight,paid"),
)

# %%
# What it cost
# ------------
# ``run/`` has the model, the history and ``report.html``, a page that needs no network. The history is a file of plain
# numbers:

history = {
    name: np.array(column, dtype=float) for name, column in json.loads((folder / "run" / "history.json").read_text()).items()
}
sent = (history["uplink_bits"] + history["downlink_bits"]) / 8 / shops
table_bytes = (folder / "sales.csv").stat().st_size / shops

figure, axes = plt.subplots()
axes.plot(sent, history["f"], marker="o", markersize=3.5, label="training loss, with the penalty")
axes.plot(sent, history["validation"], marker="s", markersize=3.5, label="loss of the held-out rows")
axes.axvline(table_bytes, color="C6", linestyle=":")
axes.annotate("a shop's part of\nthe table itself ", (table_bytes, axes.get_ylim()[1]), color="C6", va="top", ha="right")
axes.set(xlabel="bytes per shop, up and down", ylabel="mean logistic loss", xscale="log")
axes.set_title("A whole training in fewer bytes than the rows have")
axes.legend(loc="upper right", bbox_to_anchor=(0.85, 0.8))
plt.show()

# %%
# Every marker is a round. What a shop sent and received until the end is less than its own rows would have taken, and
# no row left a shop.
#
# What it learned
# ---------------
# ``explain`` names the largest weights, and what the same run would have taken on other links; ``run/explained.html``
# has all of it.

errorfeedback("explain", "run")

# %%
# New rows
# --------
# ``evaluate`` scores a file with known targets, ``predict`` writes a probability for every row.

errorfeedback("evaluate", "run", "new.csv")
errorfeedback("predict", "run", "new.csv", "--out", "said.csv")
said = list(csv.DictReader((folder / "said.csv").open()))
print(said[0])

# %%
# Whether the probabilities mean what they say is quickly looked at: of the orders that the model gives 30%, three in
# ten should come back.

column = next(name for name in said[0] if name.endswith("yes)") or name.endswith("yes"))
chance = np.array([float(each[column]) for each in said])
truth = back[5_000:]
edges = np.quantile(chance, np.linspace(0, 1, 9))
group = np.clip(np.searchsorted(edges, chance, side="right") - 1, 0, 7)
expected = [chance[group == k].mean() for k in range(8)]
happened = np.array([truth[group == k].mean() for k in range(8)])
count = np.bincount(group, minlength=8)

figure, axes = plt.subplots(figsize=(4.6, 4.2))
axes.plot([0, 1], [0, 1], color="C6", linewidth=1)
axes.errorbar(expected, happened, 2 * np.sqrt(happened * (1 - happened) / count), fmt="o", color="C0", capsize=3)
axes.set(xlabel="predicted chance of a return", ylabel="share that was returned", aspect="equal")
axes.set_title("1,000 new orders in eight groups")
plt.show()

# %%
# Take it with you
# ----------------
# The model is a file that Python opens, a table of coefficients, and a scikit-learn model that says the same of every
# row (``errorfeedback export run --to csv``, ``sklearn`` or, with ``pip install 'errorfeedback[onnx]'``, ``onnx``):

saved = ef.load_model(folder / "run")
print(type(ef.to_sklearn(saved)).__name__, "of", len(saved.encoding.names), "features")
print("\n".join(ef.export(folder / "run", "csv").read_text().splitlines()[:4]))

# %%
# Where to go from here
# ---------------------
# - ``errorfeedback inspect sales.csv --target returned --client-column shop`` says how rare your features are and what
#   every method would take.
# - Was it interrupted? ``--checkpoint state/``, then ``errorfeedback resume state/``: the same bits as if it had never
#   stopped.
# - A slow link changes what is best: :doc:`04_slow_links`. Rows on several machines: :doc:`05_many_machines`.
# - In Python: ``ef.EF21Classifier().fit(X, y, groups)`` is the same with scikit-learn's manners (:doc:`/training`).
