"""Figures of the tutorials: one style, and every figure twice, for a light page and for a dark one."""

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from errorfeedback.plots.figure import COLOURS

LIGHT = {"paper": "#ffffff", "ink": "#1c2024", "soft": "#60676f", "grid": "#e4e6e9"}
DARK = {"paper": "#14181e", "ink": "#e8eaed", "soft": "#a9b0b8", "grid": "#323941"}
"""The backgrounds are those of the theme."""
STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.9,
    "figure.figsize": (7.2, 3.9),
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "text.color": LIGHT["ink"],
    "grid.color": LIGHT["grid"],
}


def style(gallery_conf, fname):
    """Before every tutorial."""
    mpl.rcParams.update(STYLE)


def scraper(block, block_vars, gallery_conf):
    """The figures of a block: NAME.png where the page is light, NAME-dark.png where it is dark."""
    lines = []
    for number in plt.get_fignums():
        figure, light = plt.figure(number), Path(next(block_vars["image_path_iterator"]))
        dark = light.with_name(f"{light.stem}-dark.png")
        figure.savefig(light)
        repaint(figure)
        figure.savefig(dark)
        says = figure.get_label() or " and ".join(filter(None, (axes.get_title(loc="left") for axes in figure.axes)))
        lines += _shown(light, says, "only-light", gallery_conf) + _shown(dark, says, "only-dark", gallery_conf)
    plt.close("all")
    return "\n".join(lines)


def _shown(image, says, kind, gallery_conf):
    place = image.resolve().relative_to(Path(gallery_conf["src_dir"]).resolve()).as_posix()
    return [f".. image:: /{place}", f"   :alt: {says or 'figure'}", f"   :class: {kind} tutorial-figure", ""]


def repaint(figure):
    """The colours of paper, ink, soft ink and grid become those of a dark page; all others stay."""
    swap = {LIGHT[name]: DARK[name] for name in LIGHT} | {"#000000": DARK["ink"]}
    figure.set_facecolor(DARK["paper"])
    for artist in figure.findobj():
        for name in ("color", "facecolor", "edgecolor"):
            get, put = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
            value = get() if get and put else None
            if isinstance(value, (str, tuple)) and to_hex(value) in swap and not _clear(value):
                put(swap[to_hex(value)])


def _clear(value):
    return isinstance(value, tuple) and len(value) == 4 and value[3] == 0
