# SPDX-License-Identifier: Apache-2.0
"""What the README tells a newcomer to type."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_continuous_integration_runs_the_test_command_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if "pytest" in line]
    assert commands == ['pip install ".[test]" && pytest -n auto']
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
