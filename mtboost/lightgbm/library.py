"""What mtboost relies on in the installed LightGBM, in one place.

Every use of an undocumented behaviour stands in this file or says here which file holds it:

* A model text may be assembled by hand (assemble.py).
"""

from __future__ import annotations

from mtboost.errors import MissingDependencyError

try:
    import lightgbm
except ImportError as error:
    raise MissingDependencyError(
        "mtboost.lightgbm needs LightGBM. Run: pip install 'mtboost[lightgbm]'"
    ) from error

_OLDEST = (4, 5)
_NEWEST_MAJOR = 4


def version() -> tuple[int, int]:
    """Major and minor version of the installed LightGBM."""
    major, minor = lightgbm.__version__.split(".")[:2]
    return int(major), int(minor)


def arithmetic() -> str:
    """Name of the rules by which the installed LightGBM computes."""
    return "lightgbm-4.5" if version() < (4, 7) else "lightgbm-4.7"


def check_version() -> None:
    """Raise unless the installed LightGBM is one this module was written for."""
    if version() < _OLDEST or version()[0] > _NEWEST_MAJOR:
        raise MissingDependencyError(
            f"mtboost supports lightgbm >= 4.5, < 5; found {lightgbm.__version__}. "
            "Run: pip install 'lightgbm>=4.5,<5'"
        )
