"""How all figures look, and how they are saved: files, or SVG that stands in a page."""

import io
import re
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mrcjax.units import SpecError

SUFFIXES = (".png", ".svg", ".pdf")
INK, MUTED, GRID = "#1a1a1a", "#5f6670", "#d9dce1"
# of clearly different lightness, so that they also differ in grey
FILL, EDGE, DARK = "#9fc1dd", "#2b5c86", "#14324d"
ACCENT = "#c2410c"
# in a page these follow its colours, light or dark
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    FILL: "fill",
    EDGE: "edge",
    DARK: "dark",
    ACCENT: "accent",
}
# lines of one panel; they differ in their marks too, for those who see no colours
SERIES = ("#2f6fa8", "#c77700", "#2e8b57", "#8a63c9", "#c0443b", "#0e8a9b", "#8a6d3b", "#7a828c")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
HEAT = "viridis"  # dark to light, in grey too
DPI = 160
STEPS = (1, 2, 2.5, 5, 10)  # between ticks


def tidy(panel: Axes, *, grid: Any) -> None:
    """Leave of the frame what is needed, and draw grid lines along "x", "y" or "both"."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(MUTED)
    panel.grid(axis=grid, color=GRID, linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, color=MUTED, labelcolor=INK)


def figure(
    *, width: float, height: float, title: str, caption: str, legend_width: float = 0.0
) -> Figure:
    """Make a figure with room for its title and caption beside the given height, in inches."""
    headline = textwrap.fill(title, int((width - legend_width) * 11), break_on_hyphens=False)
    # a paragraph per line of the caption; 8 points, about 15 characters an inch
    below = "\n".join(
        textwrap.fill(line, int(width * 14), break_on_hyphens=False)
        for line in caption.splitlines()
    )
    extra = 0.2 * _height(headline) + 0.14 * _height(below)
    made = Figure(figsize=(width, height + extra + 0.25), layout="constrained", dpi=DPI)
    made.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.04)  # pyright: ignore
    if headline:
        made.suptitle(
            plain(headline), x=0.012, ha="left", fontsize=10.5, fontweight="bold", color=INK
        )
    if below:
        made.supxlabel(plain(below), x=0.012, ha="left", fontsize=8, color=MUTED)
    return made


def _height(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def plain(text: str) -> str:
    """Escape a dollar, which would open a formula."""
    return text.replace("$", r"\$")


def check_name(target: Path) -> None:
    """Raise SpecError for a name that ends in no format of figures."""
    if target.suffix.lower() not in SUFFIXES:
        raise SpecError(
            f'cannot draw a figure as "{target.name}"',
            remedy=f"let its name end in {', '.join(SUFFIXES)}",
        )


def save(drawn: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the path's suffix names; SpecError for another."""
    target = Path(path)
    check_name(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # no date and no random ids: the same run gives the same file
    is_svg = target.suffix.lower() == ".svg"
    with matplotlib.rc_context({"svg.hashsalt": "mrcjax"}):
        drawn.savefig(target, metadata={"Date": None} if is_svg else None)
    return target


def inline(drawn: Figure, name: str, label: str) -> str:
    """Return a figure as an SVG element for a page: text stays text, colours follow the page.

    name: put before every id, so that no two figures of a page share one. label: what a reader
    who does not see the figure is told.
    """
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "mrcjax", "svg.fonttype": "none"}):
        drawn.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'xlink:href="#([^"]*)"', rf'xlink:href="#{name}-\1"', text)
    # a hundredth of a point is beyond what a screen shows, and half of the text
    text = re.sub(r' d="[^"]*"', lambda d: re.sub(r"(\.\d\d)\d+", r"\1", d[0]), text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    text = text.replace("'DejaVu Sans', 'Bitstream Vera Sans'", "'DejaVu Sans'")
    width = round(drawn.get_figwidth() * 100)  # pixels; texts of all figures are about as large
    spoken = label.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    about = f'role="img" aria-label="{spoken}" style="max-width: {width}px"'
    return text.replace("<svg ", f"<svg {about} ", 1)


def colour_bar(drawn: Figure, panel: Axes, heat: Any, formatter: Any, label: str = "") -> None:
    """Put a scale of a map's colours beside its panel."""
    bar = drawn.colorbar(heat, ax=panel, format=formatter, pad=0.02)
    bar.outline.set_visible(False)  # pyright: ignore
    bar.ax.tick_params(labelsize=8.5, color=MUTED, labelcolor=INK)
    if label:
        bar.set_label(plain(label), fontsize=9, color=INK)
