"""The scale of ratings, recognised from the ratings; what lies outside of it is no rating."""

from __future__ import annotations

import logging
import math

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError

Range = tuple[float, float]

SCALES: tuple[Range, ...] = ((0, 1), (1, 5), (0, 5), (1, 10), (0, 10), (0, 100))  # narrow ones first
ANY: Range = (-math.inf, math.inf)  # for what was looked at before
FEW = 10  # of fewer ratings none may lie outside
LARGEST = float(np.finfo(np.float32).max)
ODD = 0.05  # largest share of ratings that may lie outside of their scale
log = logging.getLogger("whyrank")


def checked_range(given: object) -> Range | None:
    """A range that a caller names: two finite numbers, the lower one first."""
    if given is None or given == ANY:
        return None if given is None else ANY
    try:
        low, high = (float(each) for each in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ParameterError(f"rating_range is {given!r}; use the lowest and the highest rating, (1, 5) for example")
    return low, high


def count_scales(ratings: NDArray[np.floating]) -> NDArray[np.int64]:
    """How many ratings are infinite, finite, below 1, and on each common scale; counts of parts can be added."""
    known = ratings[np.isfinite(ratings)]
    inside = [int(((low <= known) & (known <= high)).sum()) for low, high in SCALES]
    return np.array([np.isinf(ratings).sum(), len(known), (known < 1).sum(), *inside], np.int64)


def scale_of(counts: NDArray[np.int64]) -> Range | None:
    """The narrowest common scale that holds all finite ratings but a few; None: a scale of their own.

    The scale 0 to 1 needs a rating below 1: single stars are no praise.
    """
    _, known, below_one, *inside = counts.tolist()
    most = max(1, int(ODD * known)) if known >= FEW else 0
    for scale, held in zip(SCALES, inside, strict=True):
        if known and known - held <= most and (scale != (0, 1) or below_one):
            return scale
    return None


def count_outside(counts: NDArray[np.int64], scale: Range | None) -> int:
    """How many ratings are not on their scale."""
    return int(counts[0] + (counts[1] - counts[3 + SCALES.index(scale)] if scale else 0))


def within(ratings: NDArray[np.float64], scale: Range | None) -> NDArray[np.float64]:
    """Ratings with NaN for those outside of the scale, as infinite ones always are."""
    low, high = scale or (-LARGEST, LARGEST)
    return np.where((low <= ratings) & (ratings <= high), ratings, np.nan)


def on_scale(ratings: NDArray[np.float64], named: Range | None) -> NDArray[np.float64]:
    """Ratings on the scale that is named or else recognised from them; those outside become unknown, with a warning."""
    scale = named or scale_of(count_scales(ratings))
    kept = within(ratings, scale)
    warn_outside(int((np.isnan(kept) & ~np.isnan(ratings)).sum()), scale, named)
    return kept


def warn_outside(outside: int, scale: Range | None, named: Range | None) -> None:
    if outside:
        about = f"outside of the scale {scale[0]:g} to {scale[1]:g}" if scale else "not finite"
        hint = "" if named or not scale else "; if the scale is another one, name it (--rating-range LOW:HIGH)"
        log.warning("%s rating%s %s, taken as unknown%s", f"{outside:,}", "s" * (outside != 1), about, hint)
