"""report.html at the end of a run: one page that needs nothing but itself, and the same plots as PNG."""

import base64
import html
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from lib.files import atomic_write_bytes, atomic_write_text, read_json

# Okabe and Ito's palette (2008), readable with any colour vision, on white and on near-black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK = "#123456"  # stands for the page's own text colour inside an SVG
FIGURE_INCHES = (6.4, 3.4)


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
    """One plot. `levels` are horizontal lines (label, value): baselines and known optima."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    caption: str = ""
    levels: list[tuple[str, float]] = field(default_factory=list)
    log_y: bool = False


@dataclass
class Table:
    """Cells are text or numbers; numbers are aligned right. `highlight` rows (by index) are this run's own."""

    title: str
    columns: list[str]
    rows: list[list]
    caption: str = ""
    highlight: list[int] = field(default_factory=list)


def write_report(
    run_path: str | Path,
    *,
    title: str,
    summary: list[tuple[str, object]],
    tables: list[Table],
    curves: list[Curve],
    figures: list[tuple[str, str | Path]],
    config: dict,
) -> Path:
    """Write RUN/report.html and RUN/plots/*.png; `figures` are (caption, PNG file). Call it on the main process only.

    environment.json of the run is shown when it is there. Raises UserError on a full disk.
    """
    run_path = Path(run_path)
    drawings = []
    for number, curve in enumerate(curves, start=1):
        figure = draw(curve)
        atomic_write_bytes(run_path / "plots" / f"{number:02d}_{_slug(curve.title)}.png", to_png(figure))
        drawings.append(_figure(to_svg(figure), curve.title, curve.caption))
    for caption, file in figures:
        data = base64.b64encode(Path(file).read_bytes()).decode()
        picture = f'<img alt="{_text(caption)}" src="data:image/png;base64,{data}">'
        drawings.append(_figure(picture, "", caption))
    environment = run_path / "environment.json"
    details = [_details("Configuration", config)]
    if environment.is_file():
        details.append(_details("Environment", read_json(environment)))
    body = [_summary(summary), *[_table(table) for table in tables], *_gallery(drawings), *details]
    page = PAGE.format(title=_text(title), style=STYLE, body="\n".join(body))
    atomic_write_text(run_path / "report.html", page)
    return run_path / "report.html"


def draw(curve: Curve) -> Figure:
    """The plot as a matplotlib figure, text in INK on no background."""
    figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    for series, colour in zip(curve.series, _colours(len(curve.series)), strict=True):
        marker = "o" if len(series.x) <= 12 else None
        axes.plot(series.x, series.y, label=series.label, color=colour, linewidth=1.8, marker=marker, markersize=4)
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    for (label, value), dash in zip(curve.levels, _dashes(len(curve.levels)), strict=True):
        axes.axhline(value, label=label, color=INK, linewidth=1.2, linestyle=dash, alpha=0.75)
    axes.set_xlabel(curve.x_label)
    axes.set_ylabel(curve.y_label)
    if curve.log_y:
        axes.set_yscale("log")
    axes.grid(True, color=INK, alpha=0.12, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set_color(INK)
    if len(curve.series) + len(curve.levels) > 1:
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


def to_png(figure: Figure) -> bytes:
    """PNG on white, 150 dots an inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, facecolor="white")
    return buffer.getvalue()


def to_svg(figure: Figure) -> str:
    """An <svg> element that takes the text colour of the page around it."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "quartet", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _dashes(count: int) -> list:
    styles = ["--", ":", "-.", (0, (6, 2, 1, 2, 1, 2))]
    return [styles[index % len(styles)] for index in range(count)]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "plot"


def _text(value) -> str:
    return html.escape(_number(value) if isinstance(value, float) else str(value))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value, tag: str = "td") -> str:
    kind = ' class="number"' if _is_number(value) else ""
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
    return f"<{tag}{kind}>{_text('' if shown is None else shown)}</{tag}>"


def _summary(summary: list[tuple[str, object]]) -> str:
    items = "".join(f"<div><dt>{_text(label)}</dt><dd>{_cell(value, 'span')}</dd></div>" for label, value in summary)
    return f"<dl>{items}</dl>" if summary else ""


def _table(table: Table) -> str:
    numeric = [
        all(_is_number(row[index]) or row[index] is None for row in table.rows) and bool(table.rows)
        for index in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{_text(name)}</th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    rows = []
    for index, row in enumerate(table.rows):
        assert len(row) == len(table.columns), f"table {table.title}: row {index} has {len(row)} cells"
        mark = ' class="own"' if index in table.highlight else ""
        rows.append(f"<tr{mark}>{''.join(_cell(value) for value in row)}</tr>")
    caption = f"<p class=caption>{_text(table.caption)}</p>" if table.caption else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<section><h2>{_text(table.title)}</h2><div class=scroll><table>{body}</table></div>{caption}</section>"


def _figure(picture: str, title: str, caption: str) -> str:
    heading = f"<b>{_text(title)}</b> " if title else ""
    return f"<figure>{picture}<figcaption>{heading}{_text(caption)}</figcaption></figure>"


def _gallery(drawings: list[str]) -> list[str]:
    return (
        [f"<section><h2>Curves and pictures</h2><div class=gallery>{''.join(drawings)}</div></section>"]
        if drawings
        else []
    )


def _details(title: str, values: dict) -> str:
    rows = "".join(f"<tr><td>{_text(key)}</td><td>{_text(value)}</td></tr>" for key, value in values.items())
    return f"<details><summary>{_text(title)}</summary><table class=plain><tbody>{rows}</tbody></table></details>"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>
{body}
</main></body></html>
"""

STYLE = """
:root { --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --line: #d9dee3; --band: #f4f6f8; --own: #e6f1fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --soft: #9aa4ae; --paper: #14171a; --line: #333a41; --band: #1d2125; --own: #16304a; }
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
figure svg, figure img { display: block; width: 100%; height: auto; color: var(--ink); }
figcaption, .caption { color: var(--soft); font-size: .88rem; margin: 8px 0 0; }
figcaption b { color: var(--ink); }
details { margin-top: 28px; border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
summary { cursor: pointer; font-weight: 600; }
table.plain { margin-top: 10px; font-size: .85rem; }
table.plain td { padding: 3px 14px 3px 0; overflow-wrap: anywhere; }
"""
