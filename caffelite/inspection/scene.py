"""A drawing as a list of shapes, and its rendering: SVG by ourselves, PNG by matplotlib."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from ..errors import missing_extra

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
# Widths in Helvetica, in ems: of narrow and wide letters; the rest lies about the mean of its class.
NARROW, WIDE = {**dict.fromkeys("ijl|.,:;'!I", 0.27), **dict.fromkeys("frt()/-[] ", 0.33)}, dict.fromkeys("mwMW@%", 0.86)
Point = tuple[float, float]


@dataclass
class Box:
    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    radius: float = 0


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
    """About how wide a text is: a little more than in Helvetica, so that it fits in fonts like it."""
    ems = sum(NARROW.get(c) or WIDE.get(c) or (0.7 if c.isupper() else 0.57) for c in text)
    return ems * size * (1.08 if bold else 1.02)


def svg(scene: Scene) -> str:
    body = "\n".join(_svg(shape) for shape in scene.shapes)
    size = f'width="{scene.width:.0f}" height="{scene.height:.0f}" viewBox="0 0 {scene.width:.0f} {scene.height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family={quoteattr(FONT)}>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _svg(shape: Box | Text | Curve) -> str:
    if isinstance(shape, Box):
        place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
        return f'<rect {place} rx="{shape.radius:g}" fill="{shape.fill}" stroke="{shape.stroke}"/>'
    if isinstance(shape, Text):
        bold = ' font-weight="600"' * shape.bold
        halo = ' stroke="#ffffff" stroke-width="4" paint-order="stroke" stroke-linejoin="round"' * shape.halo
        text = escape("".join(c if c.isprintable() else "?" for c in shape.text))
        place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
        return f'<text {place} font-size="{shape.size:g}"{bold}{halo} fill="{shape.fill}">{text}</text>'
    (x, y), rest = shape.points[0], shape.points[1:]
    path = f"M{x:.1f},{y:.1f}" + "".join("C" + " ".join(f"{px:.1f},{py:.1f}" for px, py in rest[i : i + 3]) for i in range(0, len(rest), 3))
    line = f'<path d="{path}" fill="none" stroke="{shape.stroke}" stroke-width="1.4"/>'
    if not shape.arrow:
        return line
    head = " ".join(f"{px:.1f},{py:.1f}" for px, py in _head(shape))
    return f'{line}\n<polygon points="{head}" fill="{shape.stroke}"/>'


def _head(curve: Curve) -> list[Point]:
    x, y = curve.points[-1]
    return [(x - 3.5, y - 1), (x + 3.5, y - 1), (x, y + 6)]


def png(scene: Scene, scale: float = 2.0) -> bytes:
    """The scene in pixels, ``scale`` a unit; less where the picture would be too large for a file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot", "a picture as PNG") from None
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path
    from matplotlib.patheffects import withStroke

    scale = min(scale, 30000 / max(scene.width, scene.height))
    figure = Figure((scene.width / 72, scene.height / 72), dpi=72 * scale, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    anchors = {"start": "left", "middle": "center", "end": "right"}
    for order, shape in enumerate(scene.shapes):
        if isinstance(shape, Box):
            style = f"round,pad=0,rounding_size={shape.radius or 0.01:g}"
            patch = FancyBboxPatch(
                (shape.x, shape.y), shape.width, shape.height, boxstyle=style, fc=shape.fill, ec=shape.stroke, zorder=order
            )
            axes.add_patch(patch)
        elif isinstance(shape, Text):
            # matplotlib's own font is wider than Helvetica
            weight, effects = "bold" if shape.bold else "normal", [withStroke(linewidth=4, foreground="white")] if shape.halo else []
            axes.text(shape.x, shape.y, shape.text, size=shape.size * (0.83 if shape.bold else 0.87), weight=weight, color=shape.fill,
                      ha=anchors[shape.anchor], va="baseline", parse_math=False, path_effects=effects, zorder=order)  # fmt: skip
        else:
            path = Path(shape.points, [Path.MOVETO, *[Path.CURVE4] * (len(shape.points) - 1)])
            axes.add_patch(PathPatch(path, fc="none", ec=shape.stroke, lw=1.4, zorder=order))
            if shape.arrow:
                axes.add_patch(Polygon(_head(shape), fc=shape.stroke, ec="none", zorder=order))
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()
