# SPDX-License-Identifier: Apache-2.0
"""In a source tree without the compiled extension the message says what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

import mtboost


def test_a_source_tree_without_the_extension_says_how_to_build_it(tmp_path: Path) -> None:
    shutil.copytree(
        Path(mtboost.__file__).parent,
        tmp_path / "mtboost",
        ignore=shutil.ignore_patterns("_core.*.so", "_core.*.pyd", "__pycache__"),
    )
    found = subprocess.run(
        [sys.executable, "-c", "import mtboost"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 1
    message = found.stderr.splitlines()[-1]
    assert message.startswith("ImportError: mtboost._core, the compiled extension, is missing in ")
    assert "pip install ." in message
    assert "another directory" in message
