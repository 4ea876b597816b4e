"""A drawing as a list of shapes, written as SVG or rendered as PNG by matplotlib."""

import unicodedata
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from ..charts import figure_type, plain_text, saved, shown

FONT = "'DejaVu Sans', Verdana, 'Liberation Sans', Helvetica, Arial, sans-serif"
# The widths of the ASCII characters from the space on, in thousandths of an em, in DejaVu Sans and its bold face
REGULAR = (
    "318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 337 337 "
    "838 838 838 "
    "531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 611 732 684 989 685 611 "
    "685 390 337 390 "
    "838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 634 612 635 635 411 521 392 634 592 818 592 592 "
    "525 636 337 "
    "636 838 "
)
BOLD = (
    "348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 400 "
    "400 838 838 838 "
    "580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812 774 1103 771 724 "
    "725 457 365 457 "
    "838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 712 687 716 716 493 595 478 712 652 924 645 "
    "652 582 712 365 "
    "712 838 "
)
WIDTHS = tuple({chr(32 + i): int(width) / 1000 for i, width in enumerate(text.split())} for text in (REGULAR, BOLD))
Point = tuple[float, float]


@dataclass
class Box:
    """layer: the layer that it stands for; empty: none."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    radius: float = 0
    layer: str = ""


@dataclass
class Text:
    """anchor: start, middle or end; y: the base line."""

    x: float
    y: float
    text: str
    size: float = 12
    bold: bool = False
    anchor: str = "start"
    fill: str = "#1f2933"
    halo: bool = False


@dataclass
class Curve:
    """A start, then groups of three points: two controls and an end. arrow: a head at the end, which points down."""

    points: list[Point]
    stroke: str = "#7b8794"
    arrow: bool = False


@dataclass
class Scene:
    width: float
    height: float
    shapes: list[Box | Text | Curve] = field(default_factory=list)


def text_width(text: str, size: float = 12, bold: bool = False) -> float:
    """The width of a text in DejaVu Sans. Characters outside ASCII count as 0.838 em, the width of × and →; East Asian
    wide ones as 1 em."""
    widths = WIDTHS[bold]
    return size * sum(widths.get(c) or (1.0 if unicodedata.east_asian_width(c) in "WF" else 0.838) for c in text)


def svg(scene: Scene, layers: bool = False) -> str:
    """The scene as SVG. layers: boxes name their layer in an attribute ``data-layer``, for scripts."""
    body = "\n".join(_svg(shape, layers) for shape in scene.shapes)
    size = f'width="{scene.width:.0f}" height="{scene.height:.0f}" viewBox="0 0 {scene.width:.0f} {scene.height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family={quoteattr(FONT)}>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _svg(shape: Box | Text | Curve, layers: bool = False) -> str:
    if isinstance(shape, Box):
        position = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
        name = f" data-layer={quoteattr(_shown(shape.layer))}" if layers and shape.layer else ""
        return f'<rect {position} rx="{shape.radius:g}" fill="{shape.fill}" stroke="{shape.stroke}"{name}/>'
    if isinstance(shape, Text):
        bold = ' font-weight="bold"' * shape.bold
        halo = ' stroke="#ffffff" stroke-width="4" paint-order="stroke" stroke-linejoin="round"' * shape.halo
        text = _shown(shape.text)
        length = text_width(text, shape.size, shape.bold)  # what another font must keep, so that no texts meet
        fit = f' textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"' if text else ""
        position = f'x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
        return f'<text {position} font-size="{shape.size:g}"{fit}{bold}{halo} fill="{shape.fill}">{escape(text)}</text>'
    (x, y), rest = shape.points[0], shape.points[1:]
    path = f"M{x:.1f},{y:.1f}" + "".join(
        "C" + " ".join(f"{px:.1f},{py:.1f}" for px, py in rest[i : i + 3]) for i in range(0, len(rest), 3)
    )
    line = f'<path d="{path}" fill="none" stroke="{shape.stroke}" stroke-width="1.4"/>'
    if not shape.arrow:
        return line
    head = " ".join(f"{px:.1f},{py:.1f}" for px, py in _head(shape))
    return f'{line}\n<polygon points="{head}" fill="{shape.stroke}"/>'


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _head(curve: Curve) -> list[Point]:
    x, y = curve.points[-1]
    return [(x - 3.5, y - 1), (x + 3.5, y - 1), (x, y + 6)]


@plain_text
def png(scene: Scene, scale: float = 2.0) -> bytes:
    """The scene as PNG, ``scale`` pixels per unit; fewer if the picture would be too large for a file."""
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path
    from matplotlib.patheffects import withStroke

    scale = min(scale, 30000 / max(scene.width, scene.height))
    figure = figure_type("a picture as PNG")((scene.width / 72, scene.height / 72), dpi=72 * scale, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    anchors = {"start": "left", "middle": "center", "end": "right"}
    for order, shape in enumerate(scene.shapes):
        if isinstance(shape, Box):
            style = f"round,pad=0,rounding_size={shape.radius or 0.01:g}"
            corner, size = (shape.x, shape.y), (shape.width, shape.height)
            patch = FancyBboxPatch(corner, *size, boxstyle=style, fc=shape.fill, ec=shape.stroke, zorder=order)
            axes.add_patch(patch)
        elif isinstance(shape, Text):
            weight = "bold" if shape.bold else "normal"
            effects = [withStroke(linewidth=4, foreground="white")] if shape.halo else []
            look = {"size": shape.size, "weight": weight, "color": shape.fill, "path_effects": effects, "zorder": order}
            axes.text(shape.x, shape.y, shown(shape.text), ha=anchors[shape.anchor], va="baseline", **look)
        else:
            path = Path(shape.points, [Path.MOVETO, *[Path.CURVE4] * (len(shape.points) - 1)])
            axes.add_patch(PathPatch(path, fc="none", ec=shape.stroke, lw=1.4, zorder=order))
            if shape.arrow:
                axes.add_patch(Polygon(_head(shape), fc=shape.stroke, ec="none", zorder=order))
    return saved(figure)
