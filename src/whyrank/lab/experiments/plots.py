"""Pictures: lines with error bars and scatters, in colours that the colour-blind tell apart and shapes that print."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
# Okabe and Ito's palette without its yellow, which vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (4, 2)))
STYLES = {"profile": 0, "bper": 1, "pitf": 2, "bper+": 3, "counts": 4, "pop": 5, "rucf": 6}  # the same in all pictures
WIDTH = 5.6  # inches: text stays readable on a phone and in a column


class Picture(NamedTuple):
    svg: str
    png: bytes


@dataclass(frozen=True)
class Curve:
    """One curve: a mean and a deviation over splits at each place."""

    label: str
    x: Sequence[float]
    values: Floats  # (splits, places)
    mark: float | None = None  # a place to point out
    style: int | None = None  # which colour and marker; by its label or number unless given

    @property
    def mean(self) -> Floats:
        return over_splits(np.nanmean, self.values)

    @property
    def deviation(self) -> Floats:
        """With n - 1; 0 where there is one split alone."""
        return over_splits(_deviation, self.values)


def _deviation(values: Floats, axis: int) -> Floats:
    found: Floats = np.nanstd(values, axis=axis) * np.sqrt(_bessel((~np.isnan(values)).sum(axis)))
    return found


def _bessel(count: NDArray[np.integer]) -> Floats:
    """n / (n - 1), which makes a variance over n that over n - 1."""
    return count / np.maximum(count - 1, 1).astype(np.float64)


def over_splits(function: Callable[..., Floats], values: Floats) -> Floats:
    """Splits without a figure are left out; a place without any has none."""
    found = np.full(values.shape[1], np.nan)
    known = ~np.isnan(values).all(0)
    found[known] = function(values[:, known], axis=0)
    return found


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    lines: Sequence[Curve]
    x_label: str
    y_label: str
    title: str = ""
    level: tuple[str, float] | None = None  # a horizontal line and what it is
    ticks: Sequence[str] | None = None  # names of the places
    marks: str = ""  # what the marked places are


def draw(name: str, panels: Sequence[Panel], columns: int = 2) -> Picture:
    """Panels in rows of `columns`, one legend below all of them."""
    with _style_of_pictures(name):
        figure, axes = _figure(len(panels), columns)
        entries: dict[str, Any] = {}
        for panel, place in zip(panels, axes, strict=True):
            for label, handle in _panel(panel, place).items():
                entries.setdefault(label, handle)
        if len(entries) > 1:
            columns = 2 if max(map(len, entries)) > 16 else 4
            figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
        return _rendered(figure)


def scatter(
    name: str, points: Sequence[tuple[str, float, float, float]], x_label: str, y_label: str, *, logarithmic: bool
) -> Picture:
    """Named points (name, x, y, deviation of y)."""
    from matplotlib.ticker import LogLocator, NullFormatter

    with _style_of_pictures(name):
        figure, (axes,) = _figure(1, 1)
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        for number, (label, x, y, deviation) in enumerate(points):
            colour, marker, _ = _style(STYLES.get(label, number))
            axes.errorbar([x], [y], [deviation], fmt=marker, color=colour, capsize=2)
        axes.margins(x=0.16, y=0.12)
        _name_points(axes, points, logarithmic)
        axes.set(xlabel=x_label, ylabel=y_label)
        return _rendered(figure)


def front(
    name: str,
    points: Sequence[Sequence[float]],
    edge: Sequence[Sequence[float]],
    chosen: Sequence[float],
    x_label: str,
    y_label: str,
) -> Picture:
    """Trials of two objectives, those that no other beats joined by a line, one of them chosen."""
    with _style_of_pictures(name):
        figure, (axes,) = _figure(1, 1)
        axes.plot(*zip(*points, strict=True), "o", color="#9AA7B4", linestyle="none", label="trials")
        axes.plot(*zip(*edge, strict=True), "s-", color=COLOURS[1], label="Pareto front")
        axes.plot(*[[value] for value in chosen], "D", ms=9, mfc="none", mec=COLOURS[0], mew=1.6, label="chosen")
        axes.set(xlabel=x_label, ylabel=y_label, title=name)
        figure.legend(loc="outside lower center", ncols=3)
        return _rendered(figure)


def _name_points(axes: Axes, points: Sequence[tuple[str, float, float, float]], logarithmic: bool) -> None:
    """Names to the right of their points, moved up or down where they would lie upon each other."""
    low, high = axes.get_ylim()
    x_low, x_high = (np.log(axes.get_xlim()) if logarithmic else np.array(axes.get_xlim())).tolist()
    placed: list[tuple[float, float, int]] = []
    for name, x, y, _ in sorted(points, key=lambda point: point[2]):
        across = ((np.log(x) if logarithmic else x) - x_low) / (x_high - x_low)
        at, length = (y - low) / (high - low), len(name)
        for other_across, other_at, other_length in placed:
            near = abs(across - other_across) < 0.022 * max(length, other_length) + 0.03
            if near and at - other_at < 0.048:
                at = other_at + 0.048
        placed.append((across, at, length))
        axes.annotate(name, (x, y), xytext=(across + 0.018, at), textcoords="axes fraction", fontsize=8, va="center")


def _panel(panel: Panel, axes: Axes) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for number, line in enumerate(panel.lines):
        colour, marker, dash = _style(STYLES.get(line.label, number) if line.style is None else line.style)
        mean, deviation = line.mean, line.deviation
        handles[line.label] = axes.errorbar(
            line.x, mean, deviation, color=colour, marker=marker, linestyle=dash, capsize=2
        )
        if line.mark is not None:
            at = int(np.argmin(np.abs(np.array(line.x) - line.mark)))
            shape = axes.plot([line.x[at]], [mean[at]], "o", ms=10, mfc="none", mec=colour, mew=1.4, linestyle="none")
            if panel.marks:
                handles.setdefault(panel.marks, shape[0])
    if panel.level:
        handles[panel.level[0]] = axes.axhline(panel.level[1], color="#009E73", linestyle=":", linewidth=1.4)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
    if axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)  # a difference looks as large as it is
    if panel.ticks is not None:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    elif panel.lines and list(panel.lines[0].x)[:: len(panel.lines[0].x) - 1 or 1] == [0.0, 1.0]:
        axes.set_xticks([step / 5 for step in range(6)])
    return handles


def _style(number: int) -> tuple[str, str, Any]:
    return COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)]


@contextmanager
def _style_of_pictures(name: str) -> Iterator[None]:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("plots", "drawing") from None
    settings: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 9,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#E3E7EB",
        "axes.axisbelow": True,
        "lines.markersize": 4,
        "lines.linewidth": 1.3,
        "svg.fonttype": "none",  # text stays text: small, searchable, sharp
        "font.family": ["DejaVu Sans"],
        "svg.hashsalt": name,  # ids differ between pictures of one page and not between runs
    }
    with matplotlib.rc_context(settings):
        yield


def _figure(count: int, columns: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH, (2.1 if columns > 1 else 2.9) * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def _rendered(figure: Figure) -> Picture:
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Picture(svg.getvalue(), png.getvalue())
