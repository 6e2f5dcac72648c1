"""Configuration of the documentation site; `make docs` builds it.

The site needs no network, neither to build nor to be read: formulas are MathML, fonts are those of the system.
`GUMDROP_DOCS_ONLINE=1` also links names of other libraries to their own pages.
"""

import os
import sys
from pathlib import Path

from gumdrop.machine.version import VERSION

sys.path.insert(0, str(Path(__file__).parent / "site"))

project = "gumdrop"
author = "the gumdrop maintainers"
copyright = f"{author}; MIT licence"
release = version = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # of docs/site
    "api_pages",
    "markdown_links",
    "search_words",
    "mathml",
    "docstrings",
]
exclude_patterns = ["gallery", "recipes", "results", "examples", "figures", "site"]
nitpicky = True

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autosummary_generate = False  # `api_pages` writes them
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Shape", "notes_style")]

INVENTORIES = {
    "python": "https://docs.python.org/3",
    "torch": "https://docs.pytorch.org/docs/stable",
    "numpy": "https://numpy.org/doc/stable",
    "pandas": "https://pandas.pydata.org/docs",
    "sklearn": "https://scikit-learn.org/stable",
}
online = os.environ.get("GUMDROP_DOCS_ONLINE") == "1"
intersphinx_mapping = {name: (url, None) for name, url in INVENTORIES.items()} if online else {}
linkcheck_timeout = 10

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("gumdrop",),
    "prefer_full_module": set(),
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.reset",),
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "parallel": True,  # as many examples at once as `sphinx --jobs` says
    "show_signature": False,
    "capture_repr": (),
    "write_computation_times": False,
    "min_reported_time": 1,
    "inspect_global_variables": False,
    "remove_config_comments": True,
    "nested_sections": False,
}

html_theme = "furo"
html_title = f"gumdrop {VERSION}"
html_favicon = "site/static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "site" / "scorer.js")
html_static_path = ["site/static"]
html_css_files = ["gumdrop.css"]
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#1f5fbf", "color-brand-content": "#1f5fbf"},
    "dark_css_variables": {"color-brand-primary": "#7fb2ff", "color-brand-content": "#7fb2ff"},
}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
