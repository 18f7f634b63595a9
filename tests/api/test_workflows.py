# SPDX-License-Identifier: Apache-2.0
"""The continuous integration runs actions as they were when they were chosen."""

import re
from pathlib import Path

import pytest

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_their_digests_and_versions(path):
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action)


def test_an_action_has_one_version():
    used = {use for path in WORKFLOWS for use in re.findall(r"uses: (.*)", path.read_text("utf-8"))}
    assert len(used) == len({use.partition("@")[0] for use in used})
