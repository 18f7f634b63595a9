# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation site.

    pip install ".[docs]" && sphinx-build -W docs docs/_build

Two environment variables are set where the site is published. MTBOOST_DOCS_INTERSPHINX=1 links
names of other libraries to their sites, whose inventories are downloaded. MTBOOST_DOCS_SOURCE is
the address of the source tree, which links to files outside of docs/ lead to.
"""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))
sys.path.insert(0, str(DOCS.parent / "examples"))  # modules that an example imports

import mtboost  # noqa: E402

project = "mtboost"
author = "The mtboost developers"
copyright = author
version = release = mtboost.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "executed_notebooks",
    "repository_links",
]
exclude_patterns = ["_build", "gallery/**/*.py", "gallery/**/*.ipynb", "**/sg_execution_times.rst"]

# ---- pages in Markdown ---------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as the anchors that hosts of repositories make of headings
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True

# ---- reference -----------------------------------------------------------------------------------

autosummary_generate = False  # api_pages writes the pages
autodoc_typehints = "none"  # numpydoc shows the types that docstrings name
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()  # tests/api/test_docstrings.py checks them

if os.environ.get("MTBOOST_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "lightgbm": ("https://lightgbm.readthedocs.io/en/stable/", None),
        "numpy": ("https://numpy.org/doc/stable/", None),
        "pandas": ("https://pandas.pydata.org/docs/", None),
        "python": ("https://docs.python.org/3/", None),
        "sklearn": ("https://scikit-learn.org/stable/", None),
        "xgboost": ("https://xgboost.readthedocs.io/en/stable/", None),
    }
    numpydoc_xref_param_type = True
    numpydoc_xref_ignore = "all"
else:  # names of other libraries lead nowhere
    nitpicky = True  # names of mtboost lead to a page
    nitpick_ignore_regex = [("py:.*", r"(sklearn|xgboost|lightgbm|pandas|numpy)\..*")]

# ---- gallery -------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[/\\]plot_",  # the others need data, or several processes
    "within_subsection_order": "gallery_order.ByLesson",
    "doc_module": ("mtboost",),
    "default_thumb_file": str(DOCS / "sharing.svg"),
    "backreferences_dir": "gallery/backreferences",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "parallel": 2,  # processes, of one thread each
    "min_reported_time": 30,
}

# ---- appearance ----------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"mtboost {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "mtboost"},
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": []}
