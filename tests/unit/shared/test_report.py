"""The report: self-contained, escaped, aligned, the same curves as PNG."""

import base64
import html.parser
import io
import json
import math

import matplotlib.image
import numpy as np
import pytest
from checkpoint_samples import refused
from matplotlib.figure import Figure

from lib import report
from lib.report import Curve, Series, Table, format_column, running_mean, spread, to_png, write_report


class Page(html.parser.HTMLParser):
    """What the tests ask of a page: tags, addresses, tables by heading."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.addresses, self.cells, self.text = [], [], [], []
        self._cell = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        for name in ("src", "href", "xlink:href", "data", "action"):
            if attributes.get(name):
                self.addresses.append(attributes[name])
        if tag in ("td", "th"):
            self._cell = (tag, attributes.get("class"))

    def handle_data(self, data):
        self.text.append(data)
        if self._cell:
            self.cells.append((*self._cell, data))

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = None


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    file = tmp_path_factory.mktemp("picture") / "picture.png"
    matplotlib.image.imsave(file, np.linspace(0, 1, 48).reshape(4, 4, 3))
    return file


@pytest.fixture(scope="module")
def written(tmp_path_factory, picture):
    run = tmp_path_factory.mktemp("run")
    (run / "environment.json").write_text(json.dumps({"processes": 2, "versions": {"torch": "2.13.0"}, "none": None}))
    steps = list(range(1, 301))
    curves = [
        Curve("Loss & more", "step", "nats", [Series("loss", steps, [3 / step for step in steps])], "Per item."),
        Curve(
            "Quality",
            "step",
            "perplexity",
            [Series("a", [1, 2], [9.0, 7.0], [8.0, 6.0], [10.0, 8.0]), Series("b", [1, 2], [9.5, 7.5])],
            levels=[("baseline", 8.0), ("bound", 4.0)],
            log_y=True,
        ),
        Curve("Empty", "step", "nothing", []),
    ]
    tables = [
        Table(
            "Result",
            ["set", "ppl", "items", "mixed"],
            [["ours", 7.5, 1234567, 1], ["<base>", 11.25, None, "n/a"]],
            "Lower is better.",
            highlight=[0],
        ),
        Table("Without rows", ["a", "b"], []),
    ]
    path = write_report(
        run,
        title="A <run>",
        summary=[("perplexity", 7.5), ("items", 1234567), ("time", "3 min")],
        tables=tables,
        curves=curves,
        figures=[("A picture", picture)],
        config={"learning_rate": 1e-4, "betas": [0.9, 0.99], "path": None, "text": "<script>alert(1)</script>"},
    )
    return path, Page(path.read_text(encoding="utf-8"))


def test_the_page_needs_nothing_but_itself(written):
    path, page = written
    text = path.read_text(encoding="utf-8")
    assert "script" not in page.tags and "link" not in page.tags and "iframe" not in page.tags
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in page.addresses)
    assert "@import" not in text and "url(http" not in text
    # The names of XML vocabularies are the only addresses left.
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")


def test_text_is_escaped(written):
    path, page = written
    assert "A <run>" in page.text and "<base>" in page.text and "<script>alert(1)</script>" in page.text
    assert "<script" not in path.read_text()


def test_figures_are_inline_and_whole(written, picture):
    _, page = written
    (address,) = [address for address in page.addresses if address.startswith("data:")]
    assert base64.b64decode(address.split(",")[1]) == picture.read_bytes()
    assert page.tags.count("svg") == 3 and page.tags.count("figure") == 4


@pytest.mark.parametrize(("inches", "broad"), [((4, 3), 0), ((12, 4), 1)])
def test_a_broad_picture_takes_the_whole_width(tmp_path, inches, broad):
    (tmp_path / "x.png").write_bytes(to_png(Figure(figsize=inches)))
    nothing = {"title": "T", "summary": [], "tables": [], "curves": [], "config": {}}
    path = write_report(tmp_path, figures=[("x", tmp_path / "x.png")], **nothing)
    assert path.read_text().count("<figure class=broad>") == broad


def test_numbers_are_aligned_right_and_text_is_not(written):
    _, page = written
    cells = [
        cell for cell in page.cells if cell[2] in ("7.50", "11.25", "1,234,567", "ours", "ppl", "items", "n/a", "1")
    ]
    assert ("td", "number", "7.50") in cells and ("td", "number", "11.25") in cells
    assert ("td", "number", "1,234,567") in cells and ("th", "number", "ppl") in cells
    # A column with text in it is a column of text.
    assert ("td", None, "ours") in cells and ("td", None, "n/a") in cells and ("td", None, "1") in cells


def test_light_and_dark(written):
    text = written[0].read_text()
    assert "prefers-color-scheme: dark" in text and '<meta name="color-scheme" content="light dark">' in text
    assert "currentColor" in text and report.INK not in text
    for colour in report.COLOURS[:2]:
        # Only the definition of the palette names the colour itself.
        assert text.count(colour) == 1
    assert "var(--c0)" in text and "var(--c1)" in text


def test_configuration_and_environment_are_folded_away(written):
    _, page = written
    assert page.tags.count("details") == 2
    assert "[0.9, 0.99]" in page.text and '{"torch": "2.13.0"}' in page.text and "none" in page.text


def test_plots_beside_it(written):
    files = sorted(written[0].parent.joinpath("plots").iterdir())
    assert [file.name for file in files] == ["01_loss_more.png", "02_quality.png", "03_empty.png"]
    for file in files:
        pixels = matplotlib.image.imread(io.BytesIO(file.read_bytes()), format="png")
        assert pixels.shape[1] == int(report.FIGURE_INCHES[0] * 150)
        assert np.allclose(pixels[0, 0, :3], 1)  # white paper
    assert matplotlib.image.imread(files[0]).min() < 0.5


def test_a_report_can_be_written_again(tmp_path):
    empty = {"summary": [], "tables": [], "curves": [], "figures": [], "config": {}}
    first = write_report(tmp_path, title="A", **empty).read_text()
    again = write_report(tmp_path, title="B", **empty).read_text()
    assert "<h1>A</h1>" in first and "<h1>B</h1>" in again
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_the_same_input_gives_the_same_page(tmp_path):
    curve = Curve("x", "step", "y", [Series("a", [1, 2, 3], [1.0, math.nan, 2.0])])
    pages = []
    for name in ("one", "two"):
        path = write_report(tmp_path / name, title="T", summary=[], tables=[], curves=[curve], figures=[], config={})
        pages.append(path.read_bytes())
    assert pages[0] == pages[1]


def test_a_missing_picture_is_named(tmp_path):
    arguments = {"title": "T", "summary": [], "tables": [], "curves": [], "config": {}}
    message = refused(lambda: write_report(tmp_path, figures=[("x", tmp_path / "absent.png")], **arguments))
    assert "absent.png" in message


def test_a_row_of_the_wrong_length_is_our_own_bug():
    with pytest.raises(AssertionError, match="2 cells"):
        report._table(Table("t", ["a"], [[1, 2]]))


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ([6.123, 7.9, 11.2, None], ["6.12", "7.90", "11.20", ""]),
        ([0.41223, 0.5], ["0.4122", "0.5000"]),
        ([12345.678, 1.0], ["12,346", "1"]),
        ([1234567, 12], ["1,234,567", "12"]),
        ([1e-4, 3e-5], ["0.000100", "0.000030"]),
        ([100.0, 1e-4], ["100.0", "0.0001"]),
        ([0.0], ["0.000"]),
        ([math.nan, math.inf, 2.5], ["nan", "inf", "2.500"]),
        ([np.float32(1.5), np.int64(2000)], ["1.500", "2,000"]),
        (["word", True], ["word", "True"]),
    ],
)
def test_columns_of_numbers(cells, texts):
    assert format_column(cells) == texts


def test_labels_of_lines_keep_their_distance():
    assert spread([0.5, 0.1], 0.1) == [0.5, 0.1]
    assert spread([0.30, 0.31, 0.29], 0.1) == pytest.approx([0.39, 0.49, 0.29])
    assert spread([], 0.1) == []


def test_marks_are_named_lines_and_the_power_of_ten_stands_beside_the_legend():
    series = [Series(name, [0, 1, 2], [0.0, 1e-5, 2e-5]) for name in ("a", "b")]
    figure = report.draw(Curve("m", "x", "y", series, marks=[("second", 1.5)]))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["second"] and list(axes.lines[-1].get_xdata()) == [1.5, 1.5]
    offset, legend = axes.yaxis.get_offset_text(), axes.get_legend()
    assert "10" in offset.get_text()
    assert not offset.get_window_extent().overlaps(legend.get_window_extent())


def test_running_mean():
    x, y = running_mean([0, 1, 2, 3, 4], [0.0, 3.0, 6.0, 9.0, 3.0], 3)
    assert x.tolist() == [0, 1, 2, 3, 4] and y.tolist() == [0.0, 3.0, 6.0, 6.0, 3.0]
    _, y = running_mean([0, 1, 2], [1.0, math.nan, 5.0], 3)
    assert y.tolist() == [1.0, 3.0, 5.0]
    noise = np.random.default_rng(0).standard_normal(1000)
    _, smooth = running_mean(range(1000), noise, 25)
    assert smooth[100:-100].std() < 0.3 < noise.std()


def test_only_long_noisy_series_are_smoothed():
    steps = list(range(300))
    noisy = Curve("n", "x", "y", [Series("a", steps, steps)])
    schedule = Curve("s", "x", "y", [Series("a", steps, steps)], smooth=False)
    assert len(report.draw(noisy).axes[0].lines) == 2 and "mean over 7 points" in report._caption(noisy)
    assert len(report.draw(schedule).axes[0].lines) == 1 and report._caption(schedule) == ""
