# SPDX-License-Identifier: Apache-2.0
"""What a subject of fuzzing is, and what its cases may end in.

A subject is a module in this folder with a function ``case(seed)``. ``run.py`` finds it by that
function, and calls it for one seed after the other in worker processes (``workers.py``):

    from fuzz.protocol import Case

    def case(seed: int) -> Case:
        rng = np.random.default_rng(seed)
        table, is_legal = draw_table(rng)
        return Case(
            lambda: mtboost.fit(table, LABELS),
            text=f"fit of {table!r}",
            kind="fit",
            refusals=() if is_legal else (DataError, TypeError),
            must_refuse=not is_legal,
        )

Rules for a subject:

* A seed describes a case completely: no clock, no state of an earlier case, no file of another run.
* Importing the module computes nothing with XGBoost, LightGBM or the core, because workers are
  forked from a process that has imported it. What several cases share (a fitted model) belongs into
  a function with ``functools.cache``: each worker makes it once.
* ``run`` compares its results itself and raises AssertionError where they are wrong.
* Cases are cheap: some milliseconds. A worker runs ten thousand of them, one after the other.

A case ends in one of these outcomes; those in ``FINDINGS`` make ``run.py`` fail:

=========  ===================================================================================
passed     ``run`` returned
refused    ``run`` raised one of ``refusals``
skipped    ``run`` raised SkipCase: the seed describes nothing to try
wrong      ``run`` raised another exception, AssertionError included
accepted   ``run`` returned although ``must_refuse``
crashed    the worker died, by a signal or otherwise
hung       the case took longer than its subject's TIME_LIMIT
=========  ===================================================================================

A subject may also define:

``TIME_LIMIT``
    Seconds after which a case counts as hung; 60 by default. Generous, because the machine may be
    busy: a true hang takes forever.
``IS_ISOLATED``
    True if every case needs a separate process, because it leaves limits, signal handlers or a
    damaged library behind.
``MEMORY``
    Bytes of address space that a worker may take beyond what it has at its start; 4 GiB by default.
    A case that wants more gets a MemoryError, which is a finding unless it is a refusal.
``TEST_CALLS``
    Cases of the default test suite (``test_fuzz.py``), which are to take about a second; 50 by
    default. 0 keeps a subject out of it.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

GIB = 1 << 30
OUTCOMES = ("passed", "refused", "skipped", "wrong", "accepted", "crashed", "hung")
FINDINGS = ("wrong", "accepted", "crashed", "hung")
_FRAME = {"protocol", "workers", "run"}  # modules of this folder that are no subjects


class SkipCase(Exception):  # noqa: N818 -- no error
    """The seed describes nothing to try."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call to try.

    Attributes
    ----------
    run : callable
        Does it and checks the result.
    text : str
        What it does, in one line; printed with a finding.
    kind : str
        What cases that are wrongly accepted have in common, so that one of them is reported.
    refusals : tuple of exception types
        Exceptions that are a correct answer.
    must_refuse : bool
        Whether returning is wrong.
    """

    run: Callable[[], object]
    text: str
    kind: str = ""
    refusals: tuple[type[BaseException], ...] = ()
    must_refuse: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """A module with ``case(seed)``, and its settings."""

    name: str
    case: Callable[[int], Case]
    time_limit: float
    is_isolated: bool
    memory: int
    test_calls: int


def is_of_mtboost(filename: str) -> bool:
    """Whether a file is one of the package, wherever that is installed."""
    return Path(filename).is_relative_to(_package())


@functools.cache
def _package() -> Path:
    spec = importlib.util.find_spec("mtboost")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def subject_names() -> list[str]:
    """Names of the modules in this folder that may be subjects, in alphabetical order."""
    names = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(n for n in names if n not in _FRAME and not n.startswith(("test_", "_")))


def load_subject(name: str) -> Subject | None:
    """Import a subject; None for a module without ``case``."""
    module: ModuleType = importlib.import_module(f"fuzz.{name}")
    if not hasattr(module, "case"):
        return None
    return Subject(
        name,
        module.case,
        time_limit=getattr(module, "TIME_LIMIT", 60.0),
        is_isolated=getattr(module, "IS_ISOLATED", False),
        memory=getattr(module, "MEMORY", 4 * GIB),
        test_calls=getattr(module, "TEST_CALLS", 50),
    )
