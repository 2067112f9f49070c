"""The site: `make docs` builds it into docs/_build/html, with warnings as errors and nothing fetched when it is read."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import generated_pages  # noqa: E402

import errorfeedback  # noqa: E402

project = "errorfeedback"
author = "the authors of errorfeedback"
project_copyright = f"{author}; BSD-3-Clause"
version = release = errorfeedback.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "plain_docstrings",
    "readable_signatures",
]
exclude_patterns = ["_build", "_ext", "gallery", "**/sg_execution_times.rst", "sg_execution_times.rst"]
nitpicky = True
smartquotes = False  # --k stays --k
nitpick_ignore_regex = [(r"py:.*", r"(?!errorfeedback\.[A-Za-z]\w*$).*")]  # types of other packages, shapes of our own
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "DTypeLike", "Floats", "Integers")}
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "errorfeedback"
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "alternatives": []}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"/\d\d_",
    "ignore_pattern": r"/_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("two_lights.scraper",),
    "reset_modules": ("matplotlib", "two_lights.style"),
    "backreferences_dir": "generated/uses",
    "doc_module": ("errorfeedback",),
    "inspect_global_variables": False,
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "min_reported_time": 0,
    "image_srcset": [],
    "capture_repr": ("_repr_html_", "__repr__"),
}


def setup(app):
    """Pages that are made from the code are written before Sphinx looks for pages."""
    app.connect("config-inited", lambda app, config: generated_pages.write(HERE / "generated"))
    app.connect("source-read", lambda app, name, source: source.append(generated_pages.with_others(source.pop(), HERE)))
