# SPDX-License-Identifier: Apache-2.0
"""Notebooks of the two long guides with their output and pictures.

The gallery writes a notebook of each example, without output. Those in ``EXECUTED`` are run after
it by a kernel of this Python, and replaced; an error in a cell fails the build.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

EXECUTED = ("plot_fraud_week", "plot_store_week")


def execute(path: Path) -> None:
    """Run a notebook that has no output yet, and write it with its output."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if all(cell.execution_count for cell in cells):  # the example has not changed
        return
    with TemporaryDirectory() as folder:  # of the pictures that the example saves
        client = NotebookClient(notebook, timeout=None, kernel_name="python3")
        client.resources = {"metadata": {"path": folder}}
        client.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})  # notebooks run side by side
    nbformat.write(notebook, path)


def _execute_all(app: Sphinx) -> None:
    paths = [Path(app.srcdir, "gallery", f"{name}.ipynb") for name in EXECUTED]
    with ThreadPoolExecutor() as pool:
        list(pool.map(execute, paths))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handler."""
    app.connect("builder-inited", _execute_all, priority=900)  # after the gallery's
    return {"parallel_read_safe": True}
