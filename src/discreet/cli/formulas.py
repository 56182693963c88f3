"""Formulas of the pages as plain text, for terminals: the site draws LaTeX, `discreet help` cannot.

Only the LaTeX that the pages use is known; a test shows every page and finds what is left.
"""

import re

SYMBOLS = {
    "varepsilon": "ε", "epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "alpha": "α", "omega": "ω", "sigma": "σ",
    "pi": "π", "Delta": "Δ", "Phi": "Φ", "lambda": "λ", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "cdot": "·",
    "times": "×", "pm": "±", "infty": "∞", "int": "∫", "sum": "∑", "in": "∈", "to": "→", "ln": "ln", "log": "log",
    "exp": "exp", "max": "max", "min": "min", "Pr": "Pr", "quad": "  ",
}  # fmt: skip
"""What each command without an argument stands for."""

_CODE_OR_FORMULA = re.compile(
    r"(?P<code>^[ \t]*```.*?^[ \t]*```[ \t]*$|`[^`\n]+`)"
    r"|\$\$(?P<shown>.+?)\$\$|\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)
_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"  # braces, with braces in them once
_WRAPPER = re.compile(rf"\\(?:mathbb|mathrm|text|operatorname)\s*{_GROUP}")
_FRACTION = re.compile(rf"\\frac\s*{_GROUP}\s*{_GROUP}")
_ROOT = re.compile(rf"\\sqrt\s*{_GROUP}")
_SCRIPT = re.compile(rf"([\^_]){_GROUP}")


def to_plain_formulas(text: str) -> str:
    """Write the formulas of a page as plain text; code stays as it is.

    >>> to_plain_formulas(r"at most $$\\frac{p}{p + (1 - p)\\,e^{-\\varepsilon}}$$ and `$HOME`")
    'at most p / (p + (1 - p) e^(-ε)) and `$HOME`'
    """
    return _CODE_OR_FORMULA.sub(lambda found: found["code"] or to_plain_formula(found["shown"] or found["inline"]), text)


def to_plain_formula(latex: str) -> str:
    """Write one formula as plain text.

    >>> to_plain_formula(r"\\rho + 2\\sqrt{\\rho \\ln(1/\\delta)}"), to_plain_formula(r"\\sqrt{2}/e^\\varepsilon")
    ('ρ + 2√(ρ ln(1/δ))', '√2/e^ε')
    """
    text = re.sub(r"\\[,;:! ]", " ", latex)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: SYMBOLS.get(found[1], found[0]), text)
    text = _WRAPPER.sub(r"\1", text)
    while (simpler := _write_once(text)) != text:
        text = simpler
    return re.sub(r" {2,}", " ", text).strip()


def _write_once(text: str) -> str:
    """Rewrite the fractions, roots and exponents that stand in no other one's braces, and so the outermost ones first."""
    text = _FRACTION.sub(lambda found: f"{_bracket(found[1])} / {_bracket(found[2])} ", text)
    text = _ROOT.sub(lambda found: f"√{_bracket(found[1])}", text)
    return _SCRIPT.sub(lambda found: f"{found[1]}{_bracket(found[2])}", text)


def _bracket(part: str) -> str:
    """Put what has more than one symbol into brackets."""
    return part if re.fullmatch(r"\w|\d+", part) else f"({part})"
