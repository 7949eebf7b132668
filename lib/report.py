"""report.html at the end of a run: one page that needs nothing but itself, and the same plots as PNG."""

import base64
import html
import io
import math
import numbers
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lib.errors import UserError
from lib.files import atomic_write_bytes, atomic_write_text, read_json, to_json

# matplotlib is imported where it draws: a run that is only training does not wait for it at every start.
if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette (2008), readable with any colour vision; the page lightens it on dark paper.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a8518a", "#b87d00", "#4a6fe3")
LIGHTER = ("#56b4e9", "#ff8c42", "#3ecf9f", "#e59cc8", "#f0b429", "#8ea6ff")
INK = "#24292f"  # stands for the page's own text colour inside an SVG
FIGURE_INCHES = (6.4, 3.4)
# A longer series is drawn faint, with its running mean on top.
LONG_SERIES = 150
BROAD = 2.2  # times as wide as it is high: a picture that takes the whole width of the page
LABEL_DISTANCE = 0.065  # of the height of a plot, between two labels of horizontal lines


@dataclass
class Series:
    """One line of a plot. `low` and `high` (as long as y) draw a band, the range over seeds say."""

    label: str
    x: list[float]
    y: list[float]
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass
class Curve:
    """One plot. `levels` are horizontal lines (label, value): baselines and known optima. `marks` are vertical ones
    (label, x), where something begins: the stages of a run.

    A long series gets its running mean unless `smooth` is False, as for a schedule, which has no noise.
    """

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    caption: str = ""
    levels: list[tuple[str, float]] = field(default_factory=list)
    marks: list[tuple[str, float]] = field(default_factory=list)
    log_y: bool = False
    smooth: bool = True


@dataclass
class Table:
    """Cells are text or numbers; numbers are aligned right. `highlight` rows (by index) are this run's own."""

    title: str
    columns: list[str]
    rows: list[list]
    caption: str = ""
    highlight: list[int] = field(default_factory=list)


def in_columns(first: str, headings: list[str], rows: list[list], digits: list[int]) -> list[str]:
    """Lines of a table for the terminal: of each row a name and numbers with so many digits, None left out."""
    names = max(len(text) for text in (first, *(row[0] for row in rows)))
    widths = [max(len(heading), 8) + 2 for heading in headings]
    lines = [f"{first:<{names}}" + "".join(f"{text:>{width}}" for text, width in zip(headings, widths, strict=True))]
    for name, *values in rows:
        cells = ["" if value is None else f"{value:.{n}f}" for value, n in zip(values, digits, strict=True)]
        lines.append(
            f"{name:<{names}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        )
    return lines


def write_report(
    run_path: str | Path,
    *,
    title: str,
    summary: list[tuple[str, object]],
    tables: list[Table],
    curves: list[Curve],
    figures: list[tuple[str, str | Path]],
    config: dict,
    blocks: list[tuple[str, str]] | None = None,
    name: str = "report.html",
) -> Path:
    """Write RUN/report.html and RUN/plots/*.png; `figures` are (caption, PNG file). Call it on the main process only.

    `name` is another name of the page. `blocks` are (heading, HTML that needs nothing from outside), shown after the
    tables. environment.json of the run is shown when it is there. Raises UserError on a full disk.
    """
    run_path = Path(run_path)
    drawings = []
    for number, curve in enumerate(curves, start=1):
        figure = draw(curve)
        atomic_write_bytes(run_path / "plots" / f"{number:02d}_{_slug(curve.title)}.png", to_png(figure))
        drawings.append(_figure(to_svg(figure, curve.title), curve.title, _caption(curve)))
    for caption, file in figures:
        if not Path(file).is_file():
            raise UserError(f"report: the picture {file} does not exist; expected a PNG file")
        content = Path(file).read_bytes()
        width, height = struct.unpack(">II", content[16:24])  # IHDR, the first chunk of every PNG
        picture = f'<img alt="{_text(caption)}" src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        drawings.append(_figure(picture, "", caption, broad=width > BROAD * height))
    environment = run_path / "environment.json"
    details = [_details("Configuration", config)]
    if environment.is_file():
        details.append(_details("Environment", read_json(environment)))
    middle = [f"<section><h2>{_text(heading)}</h2>{content}</section>" for heading, content in blocks or []]
    body = [_summary(summary), *[_table(table) for table in tables], *middle, *_gallery(drawings), *details]
    page = PAGE.format(title=_text(title), style=STYLE, body="\n".join(body))
    atomic_write_text(run_path / name, page)
    return run_path / name


def draw(curve: Curve) -> "Figure":
    """The plot as a matplotlib figure, text in INK on no background."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    for index, series in enumerate(curve.series):
        _draw_series(axes, series, COLOURS[index % len(COLOURS)], _is_long(curve, series))
    if curve.log_y:
        axes.set_yscale("log")
    elif curve.series or curve.levels:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 6), useMathText=True)
        axes.yaxis.get_offset_text().set_color(INK)
    axes.set_xlabel(curve.x_label, color=INK)
    axes.set_ylabel(curve.y_label, color=INK)
    axes.grid(True, color=INK, alpha=0.12, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    _draw_levels(axes, curve.levels)
    for label, x in curve.marks:
        axes.axvline(x, color=INK, linewidth=1.1, linestyle=":", alpha=0.5)
        axes.annotate(
            label, (x, 1), (4, -3), xycoords=axes.get_xaxis_transform(), textcoords="offset points", va="top",
            fontsize=8, color=INK, alpha=0.8,
        )  # fmt: skip
    if len(curve.series) > 1:
        axes.yaxis.set_offset_position("right")  # the power of ten, away from the legend
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": min(4, len(curve.series))}
        axes.legend(frameon=False, labelcolor=INK, fontsize=9, borderaxespad=0.2, columnspacing=1.4, **place)
    return figure


def _is_long(curve: Curve, series: Series) -> bool:
    return curve.smooth and len(series.x) > LONG_SERIES


def _draw_series(axes, series: Series, colour: str, long: bool) -> None:
    points = len(series.x)
    style = {"color": colour, "linewidth": 1.8, "label": series.label}
    if long:
        axes.plot(series.x, series.y, color=colour, linewidth=0.8, alpha=0.35)
        axes.plot(*running_mean(series.x, series.y, smoothing_points(points)), **style)
    else:
        axes.plot(series.x, series.y, marker="o" if points <= 12 else None, markersize=4, **style)
    if series.low is not None and series.high is not None:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)


def _draw_levels(axes, levels: list[tuple[str, float]]) -> None:
    """Horizontal lines, named at their right end; names that would overlap are moved apart."""
    for _, value in levels:
        axes.axhline(value, color=INK, linewidth=1.1, linestyle="--", alpha=0.7)
    axes.autoscale_view()
    # From data to fractions of the plot's height, which also holds for logarithmic axes.
    to_fraction = axes.transData + axes.transAxes.inverted()
    heights = [float(to_fraction.transform((0, value))[1]) for _, value in levels]
    for (label, _), height in zip(levels, spread(heights, LABEL_DISTANCE), strict=True):
        axes.text(1.01, height, label, transform=axes.transAxes, va="center", fontsize=9, color=INK)


def spread(places: list[float], distance: float) -> list[float]:
    """The places, moved up as little as needed for each to be `distance` above the next lower one."""
    moved, last = [0.0] * len(places), None
    for index in sorted(range(len(places)), key=lambda index: places[index]):
        last = places[index] if last is None else max(places[index], last + distance)
        moved[index] = last
    return moved


def smoothing_points(points: int) -> int:
    """How many points the running mean of a long series covers; odd."""
    return max(5, points // 40) | 1


def running_mean(x: list[float], y: list[float], window: int) -> tuple[np.ndarray, np.ndarray]:
    """Centred mean over `window` points, near the ends over fewer; non-finite values are left out."""
    values = np.asarray(y, dtype=float)
    finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    centre = np.arange(len(values))
    half = np.minimum(np.minimum(centre, len(values) - 1 - centre), window // 2)
    low, high = centre - half, centre + half + 1
    with np.errstate(invalid="ignore"):
        return np.asarray(x, dtype=float), (sums[high] - sums[low]) / (counts[high] - counts[low])


def to_png(figure: "Figure") -> bytes:
    """PNG on white, 150 dots an inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, facecolor="white")
    return buffer.getvalue()


def to_svg(figure: "Figure", title: str) -> str:
    """An <svg> element that takes its text colour and its palette from the page around it."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "quartet", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace(INK, "currentColor")
    for index, colour in enumerate(COLOURS):
        text = text.replace(colour, f"var(--c{index})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{_text(title)}" ', 1)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "plot"


def _text(value) -> str:
    return html.escape(to_json(value) if isinstance(value, dict | list | tuple) else str(value))


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def format_column(cells: list) -> list[str]:
    """Cells as text: floats of one column with equally many decimals (four significant digits for the largest one).

    None is empty, whole numbers get thousands separators, and a float too small for those decimals keeps its digits.
    """
    floats = [abs(float(cell)) for cell in cells if _is_number(cell) and not isinstance(cell, numbers.Integral)]
    largest = max((value for value in floats if math.isfinite(value)), default=0.0)
    decimals = 3 if largest == 0 else min(max(3 - math.floor(math.log10(largest)), 0), 6)
    return [_cell_text(cell, decimals) for cell in cells]


def _cell_text(cell, decimals: int) -> str:
    if cell is None:
        return ""
    if not _is_number(cell):
        return str(cell)
    if isinstance(cell, numbers.Integral):
        return f"{int(cell):,}"
    value = float(cell)
    if math.isfinite(value) and value != 0 and abs(value) < 10.0 ** (1 - decimals):
        return f"{value:.3g}"
    return f"{value:,.{decimals}f}"


def _caption(curve: Curve) -> str:
    long = [len(series.x) for series in curve.series if _is_long(curve, series)]
    note = f"Faint: every point; solid: mean over {smoothing_points(max(long))} points." if long else ""
    return f"{curve.caption} {note}".strip()


def _summary(summary: list[tuple[str, object]]) -> str:
    items = [
        f"<div><dt>{_text(label)}</dt><dd>{_text(format_column([value])[0])}</dd></div>" for label, value in summary
    ]
    return f"<dl>{''.join(items)}</dl>" if items else ""


def _table(table: Table) -> str:
    for row in table.rows:
        assert len(row) == len(table.columns), f"table {table.title}: a row has {len(row)} cells: {row}"
    columns = [list(column) for column in zip(*table.rows, strict=True)] or [[] for _ in table.columns]
    right = [bool(column) and all(cell is None or _is_number(cell) for cell in column) for column in columns]
    marks = [' class="number"' if is_right else "" for is_right in right]
    head = "".join(f'<th scope="col"{mark}>{_text(name)}</th>' for name, mark in zip(table.columns, marks, strict=True))
    rows = []
    for index, texts in enumerate(zip(*[format_column(column) for column in columns], strict=True)):
        cells = "".join(f"<td{mark}>{_text(text)}</td>" for text, mark in zip(texts, marks, strict=True))
        own = " class=own" if index in table.highlight else ""
        rows.append(f"<tr{own}>{cells}</tr>")
    caption = f"<p class=caption>{_text(table.caption)}</p>" if table.caption else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<section><h2>{_text(table.title)}</h2><div class=scroll><table>{body}</table></div>{caption}</section>"


def _figure(picture: str, title: str, caption: str, broad: bool = False) -> str:
    heading = f"<b>{_text(title)}</b> " if title else ""
    return (
        f"<figure{' class=broad' if broad else ''}>{picture}<figcaption>{heading}{_text(caption)}</figcaption></figure>"
    )


def _gallery(drawings: list[str]) -> list[str]:
    inside = "".join(drawings)
    return [f"<section><h2>Curves and pictures</h2><div class=gallery>{inside}</div></section>"] if drawings else []


def _details(title: str, values: dict) -> str:
    rows = "".join(
        f"<tr><td>{_text(key)}</td><td>{_text('none' if value is None else value)}</td></tr>"
        for key, value in values.items()
    )
    return f"<details><summary>{_text(title)}</summary><table class=plain><tbody>{rows}</tbody></table></details>"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>
{body}
</main></body></html>
"""

STYLE = """
:root { --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --line: #d9dee3; --band: #f4f6f8; --own: #e6f1fa;
  PALETTE_LIGHT }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --soft: #9aa4ae; --paper: #14171a; --line: #333a41; --band: #1d2125; --own: #16304a;
    PALETTE_DARK }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 20px; }
h2 { font-size: 1.15rem; margin: 36px 0 10px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); gap: 10px; margin: 0; }
dl div { background: var(--band); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
dt { color: var(--soft); font-size: .82rem; }
dd { margin: 2px 0 0; font-size: 1.15rem; font-weight: 600; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: 6px 14px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.own td { background: var(--own); font-weight: 600; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 20px; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 8px; padding: 14px; }
figure.broad { grid-column: 1 / -1; }
figure svg, figure img { display: block; width: 100%; height: auto; color: var(--ink); border-radius: 4px; }
figcaption, .caption { color: var(--soft); font-size: .88rem; margin: 8px 0 0; }
figcaption b { color: var(--ink); }
details { margin-top: 28px; border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
summary { cursor: pointer; font-weight: 600; }
table.plain { margin-top: 10px; font-size: .85rem; }
table.plain td { padding: 3px 14px 3px 0; overflow-wrap: anywhere; }
"""

STYLE = STYLE.replace("PALETTE_LIGHT", " ".join(f"--c{i}: {colour};" for i, colour in enumerate(COLOURS)))
STYLE = STYLE.replace("PALETTE_DARK", " ".join(f"--c{i}: {colour};" for i, colour in enumerate(LIGHTER)))
