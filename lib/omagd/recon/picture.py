"""A battle as one of its agents sees it, imagines it, and as it is."""

from pathlib import Path

import torch
from torch import Tensor

from lib.files import atomic_write_bytes
from lib.omagd.recon.nodes import ALLY, SELF
from lib.omagd.recon.predictor import PLACE_AT, Guess, Predictor, Views, times_of
from lib.report import to_png

MOMENTS = 3
COLOURS = {"ally": "tab:blue", "enemy": "tab:red"}
CAPTION = (
    "A held-out battle around one agent (black) at three steps, in map units; the circle is its sight. Dots: units it"
    " sees, allies blue, enemies red. Rings: units it does not see. Crosses: where it believes them, fainter the less"
    " it believes that they live, with one deviation around; a line leads to where the unit is."
)


def moments(module: Predictor, views: Views) -> list[tuple[int, int]]:
    """(row, agent): of each third of the episodes in `views` the moment at which most living units are out of sight."""
    _, living = module.asked(views)
    hidden = living.sum(-1).cpu()  # (S, A)
    times, found = times_of(views.batch_sizes), []
    last = len(views.batch_sizes)
    for third in range(MOMENTS):
        inside = (times >= third * last // MOMENTS) & (times < (third + 1) * last // MOMENTS)
        if not inside.any():
            continue
        best = int(torch.where(inside[:, None], hidden, -1).argmax())
        found.append(divmod(best, hidden.shape[1]))
    return found


@torch.no_grad()
def draw_guesses(file: Path, module: Predictor, views: Views, sight: float) -> Path:
    """The moments of `views`, whole episodes of which nothing is masked, as a PNG."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    guess = Guess(*(one.cpu() for one in module.believe(views)))
    chosen = moments(module, views)
    views = Views(*(one.cpu() for one in views[:-1]), views.batch_sizes)
    figure = Figure(figsize=(4.0 * len(chosen), 4.2), layout="constrained")
    times = times_of(views.batch_sizes)
    for axes, (row, agent) in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
        axes.add_patch(Circle((0.0, 0.0), sight, fill=False, linestyle=":", color="0.5"))
        axes.plot(0.0, 0.0, "s", color="black", markersize=7)
        for node, kind in enumerate(module.types.tolist()):
            if kind == SELF:
                continue
            colour = COLOURS["ally" if kind == ALLY else "enemy"]
            true = _place(views.rows[row, agent, node], sight)
            lives = bool(views.alive[row, agent, node])
            if views.visible[row, agent, node]:
                axes.plot(*true, "o", color=colour, markersize=7)
                continue
            if lives:
                axes.plot(*true, "o", color=colour, markersize=9, fillstyle="none")
            believed = float(torch.sigmoid(guess.lives[row, agent, node]))
            x, y = _place(guess.mean[row, agent, node], sight)
            axes.plot(x, y, "x", color=colour, alpha=max(believed, 0.1), markersize=8)
            wide = sight * float(torch.exp(0.5 * guess.spread[row, agent, node]))
            axes.add_patch(Circle((x, y), wide, color=colour, alpha=0.08 * believed, linewidth=0))
            if lives:
                axes.plot([x, true[0]], [y, true[1]], "-", color=colour, linewidth=0.6, alpha=0.6)
        axes.set_title(f"agent {agent + 1}, step {int(times[row])}", fontsize=10)
        axes.set_aspect("equal", adjustable="datalim")
    atomic_write_bytes(file, to_png(figure))
    return file


def _place(row: Tensor, sight: float) -> tuple[float, float]:
    x, y = (sight * float(row[at]) for at in PLACE_AT)
    return x, y
