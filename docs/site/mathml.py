"""Formulas of docstrings as MathML, which browsers draw without a script or a font from elsewhere."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

SIZE = re.compile(r"\\[bB]igg?(?![a-z])")
"""Sizes of brackets, which docutils does not know; browsers stretch brackets by themselves."""
SHORT = re.compile(r"(\\[dt]?frac) ?(\w)(\w)")
"""Fractions without braces, such as one half, of which docutils takes both figures for the numerator."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, and choose it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool = False) -> str:
    formula = SHORT.sub(r"\1{\2}{\3}", SIZE.sub("", node.astext()))
    return tex2mathml(formula.replace(r"\dots", r"\ldots"), as_block=as_block)
