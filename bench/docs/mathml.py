"""Formulas of docstrings as MathML, which browsers draw without fonts, scripts or a network.

Docstrings write formulas in plain Unicode: ``V̂ = (1/n) sum_i w_i r_i``. Products over a spaced
slash become fractions, ``sum_i`` a sum with its index below, words stay words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FormulaError", "mathml"]


class FormulaError(ValueError):
    """A formula that this module cannot read."""


ACCENTS = {"\u0302": "^", "\u0304": "¯", "\u0303": "~", "\u0305": "¯"}
LARGE = {
    "sum": "∑",
    "prod": "∏",
    "max": "max",
    "min": "min",
    "argmin": "argmin",
    "argmax": "argmax",
}
FUNCTIONS = {"ln", "log", "exp", "logit", "var", "mean", "median", "clip", "sin", "cos", "softmax"}
SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "-": "−", "*": "∗"}
SUPERSCRIPTS = {"²": "2", "³": "3", "⁺": "+", "⁻": "−", "¹": "1"}
PAIRS = {"(": ")", "[": "]", "{": "}"}
RELATIONS = {
    "=",
    "≤",
    "≥",
    "<",
    ">",
    "~",
    "→",
    ",",
    ";",
    ":",
    "+",
    "−",
    "|",
    "∝",
    "≈",
    "≠",
    "∈",
    "∼",
}
"""What ends a product, so that a fraction reaches no further."""

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<word>[A-Za-z]{2,}(?:'s)?)"
    r"|(?P<name>[^\W\d_][\u0300-\u036f]*)"
    r"|(?P<prime>'+)"
    r"|(?P<power>[²³⁺⁻¹]+)"
    r"|(?P<script>[_^])"
    r"|(?P<sign><=|>=|->|\*\*|[-+*/=<>~,;:.|∫⊗·∞∝≈≠∈∼±×∪∩∂√…()\[\]{}⌊⌋])"
)


@dataclass(frozen=True)
class _Item:
    """A piece of a formula: its MathML, its role, and whether a space stands before it."""

    text: str
    role: str = "factor"
    spaced: bool = False
    bare: str = ""
    """A parenthesized group without its parentheses, for numerators and denominators."""


def mathml(lines: str | Sequence[str]) -> str:
    """Return lines of formulas as one block of MathML a line.

    Raises
    ------
    FormulaError : a character that no formula has, or brackets that do not match.

    >>> mathml("V = a_i / 2")[44:-14]
    '<mi>V</mi><mo>=</mo><mfrac><mrow><msub><mi>a</mi><mi>i</mi></msub></mrow><mrow><mn>2</mn></mrow></mfrac>'
    """
    listed = lines.splitlines() if isinstance(lines, str) else lines
    blocks = []
    for line in _whole(listed):
        reader = _Reader(unicodedata.normalize("NFD", line.strip().replace("`", "")))
        inner = "".join(_row(reader.items("")))
        blocks.append(f'<math display="block" class="formula"><mrow>{inner}</mrow></math>')
    return "".join(blocks)


def _whole(lines: Sequence[str]) -> list[str]:
    """Join lines whose brackets are closed on a later line."""
    found = [""]
    for line in lines:
        found[-1] = f"{found[-1]} {line.strip()}".strip()
        if sum(map(found[-1].count, PAIRS)) <= sum(map(found[-1].count, PAIRS.values())):
            found.append("")
    return [line for line in found if line]


class _Reader:
    """Reads tokens one after the other."""

    def __init__(self, line: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(line):
            found = _TOKEN.match(line, place)
            if found is None:
                msg = f"{line[place]!r} in {line!r}"
                raise FormulaError(msg)
            self.tokens.append((str(found.lastgroup), found.group()))
            place = found.end()
        self.place = 0

    def items(self, end: str) -> list[_Item]:
        """Read up to the bracket ``end``, or to the end of the line."""
        found: list[_Item] = []
        spaced = False
        while self.place < len(self.tokens):
            kind, text = self.tokens[self.place]
            self.place += 1
            if kind == "space":
                if len(text) > 1 and found:
                    found.append(_Item('<mspace width="2em"/>', "end"))
                spaced = True
                continue
            if text == end and kind == "sign":
                return found
            if kind == "script" or kind in ("prime", "power"):
                if not found:
                    msg = f"{text!r} follows nothing"
                    raise FormulaError(msg)
                found[-1] = self._scripted(found[-1], kind, text)
            elif text == "**" or (text == "*" and self._is_star(spaced)):
                inside = "<mo>∗</mo>" if text == "*" else self._script()
                found[-1] = _Item(f"<msup>{_one(found[-1].text)}{inside}</msup>", spaced=spaced)
            else:
                found.append(self._item(kind, text, spaced=spaced))
            spaced = False
        if end:
            msg = f"no {end!r}"
            raise FormulaError(msg)
        return found

    def _is_star(self, spaced: bool) -> bool:
        """Whether a star marks the name before it instead of multiplying."""
        after = self.tokens[self.place][0] if self.place < len(self.tokens) else "space"
        return not spaced and after in ("space", "sign", "script")

    def _item(self, kind: str, text: str, *, spaced: bool) -> _Item:
        if kind == "number":
            return _Item(f"<mn>{text}</mn>", spaced=spaced)
        if kind == "word":
            if text in LARGE:
                role = "sum" if text in ("sum", "prod") else "large"
                return _Item(f'<mo movablelimits="false">{LARGE[text]}</mo>', role, spaced)
            role = "function" if text in FUNCTIONS else "word"
            return _Item(f"<mtext>{text}</mtext>", role, spaced)
        if kind == "name":
            base = f"<mi>{text[0]}</mi>"
            for accent in text[1:]:
                mark = ACCENTS.get(accent)
                if mark is None:
                    msg = f"accent {accent!r}"
                    raise FormulaError(msg)
                base = f'<mover accent="true">{base}<mo stretchy="false">{mark}</mo></mover>'
            if self._peek("number"):  # π0 is π with the index 0
                index = f"<mn>{self._take()}</mn>"
                if self._peek("name"):  # π0k is that of logger k
                    index = f"<mrow>{index}<mi>{self._take()}</mi></mrow>"
                base = f"<msub>{base}{index}</msub>"
            elif text[0] == "π" and self.tokens[self.place : self.place + 1] == [("name", "j")]:
                base = f"<msub>{base}<mi>{self._take()}</mi></msub>"
            return _Item(base, "factor", spaced)
        if text in PAIRS:
            inner = "".join(_row(self.items(PAIRS[text])))
            fence = [f"<mo>{one}</mo>" for one in (text, PAIRS[text])]
            called = not spaced and self.place > 0
            return _Item(
                f"<mrow>{fence[0]}{inner}{fence[1]}</mrow>",
                "group" if text == "(" else "factor",
                spaced,
                bare="" if text != "(" or (called and self._called()) else f"<mrow>{inner}</mrow>",
            )
        if text in PAIRS.values():
            msg = f"{text!r} closes nothing"
            raise FormulaError(msg)
        sign = SIGNS.get(text, text)
        if sign == "/":
            return _Item("/", "slash", spaced)
        role = "end" if sign in RELATIONS else "factor"
        tight = ' lspace="0.1em" rspace="0.1em" stretchy="false"' if sign == "|" else ""
        if sign == ".":
            tight = ' lspace="0.1em" rspace="0.1em"'
        return _Item(f"<mo{tight}>{html.escape(sign)}</mo>", role, spaced)

    def _called(self) -> bool:
        """Whether the bracket that was just closed belongs to a function's name."""
        depth = 0
        for place in range(self.place - 1, -1, -1):
            text = self.tokens[place][1]
            depth += (text == ")") - (text == "(")
            if depth == 0:
                return place > 0 and self.tokens[place - 1][0] not in ("space", "sign")
        return False

    def _scripted(self, base: _Item, kind: str, text: str) -> _Item:
        if kind == "prime":
            power = f"<mo>{'′' * len(text)}</mo>"
            if self._peek("script") and self.tokens[self.place][1] == "_":
                self.place += 1
                inside = f"<msubsup>{_one(base.text)}{self._script()}{power}</msubsup>"
                return _Item(inside, base.role, base.spaced)
            return _Item(f"<msup>{_one(base.text)}{power}</msup>", base.role, base.spaced)
        if kind == "power":
            signs = "".join(SUPERSCRIPTS[one] for one in text)
            inside = f"<mn>{signs}</mn>" if signs.isdigit() else f"<mtext>{signs}</mtext>"
            return _Item(f"<msup>{_one(base.text)}{inside}</msup>", "factor", base.spaced)
        inside = self._script()
        if text == "_" and base.role in ("sum", "large"):
            return _Item(f"<munder>{base.text}{inside}</munder>", base.role, base.spaced)
        tag = "msub" if text == "_" else "msup"
        role = base.role if base.role == "function" else "factor"
        return _Item(f"<{tag}>{_one(base.text)}{inside}</{tag}>", role, base.spaced)

    def _script(self) -> str:
        """Read what stands behind an underscore or a caret."""
        if self.place >= len(self.tokens):
            msg = "nothing behind _ or ^"
            raise FormulaError(msg)
        kind, text = self.tokens[self.place]
        self.place += 1
        if text in ("{", "("):
            return f"<mrow>{''.join(_row(self.items(PAIRS[text])))}</mrow>"
        item = self._item(kind, text, spaced=False)
        if self._peek("prime"):
            kind, text = self.tokens[self.place]
            self.place += 1
            item = self._scripted(item, kind, text)
        return _one(item.text)

    def _peek(self, kind: str) -> bool:
        return self.place < len(self.tokens) and self.tokens[self.place][0] == kind

    def _take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1][1]


def _one(text: str) -> str:
    """Return one element: siblings become a row."""
    return (
        text if re.fullmatch(r"<(\w+)[^>]*>(?:(?!<\1\b).)*</\1>", text) else f"<mrow>{text}</mrow>"
    )


def _row(items: list[_Item]) -> list[str]:
    """Return the MathML of items, fractions made of what stands around slashes."""
    while any(item.role == "slash" for item in items):
        at = next(place for place, item in enumerate(items) if item.role == "slash")
        wide = items[at].spaced
        start = at
        while start > 0 and items[start - 1].role not in ("end", "slash"):
            if not wide and start < at:
                break
            start -= 1
        stop = at + 1
        while stop < len(items) and items[stop].role not in ("end", "slash", "word"):
            if not wide and stop > at + 1 and items[stop].spaced:
                break
            stop += 1
        above, below = items[start:at], items[at + 1 : stop]
        if not above or not below:
            msg = "a fraction without numerator or denominator"
            raise FormulaError(msg)
        if not any(item.role == "sum" for item in below):
            sums = [place for place, item in enumerate(above) if item.role == "sum"]
            words = [place for place, item in enumerate(above) if item.role == "word"]
            cut = max([*sums, *words], default=-1) + 1
            start, above = start + cut, above[cut:]
        parts = [_within(part) for part in (above, below)]
        made = _Item(f"<mfrac>{parts[0]}{parts[1]}</mfrac>", "factor", items[start].spaced)
        items = [*items[:start], made, *items[stop:]]
    found: list[str] = []
    for place, item in enumerate(items):
        after_word = place > 0 and items[place - 1].role in ("word", "function")
        if place and item.spaced and (item.role in ("word", "function") or after_word):
            found.append('<mspace width="0.3em"/>')
        elif place and item.spaced and item.role != "end" != items[place - 1].role:
            found.append('<mspace width="0.12em"/>')
        # A fraction needs no parentheses around it.
        only = re.fullmatch(r"<mrow>(<mfrac>(?:(?!<mfrac>).)*</mfrac>)</mrow>", item.bare)
        found.append(only[1] if only else item.text)
    return found


def _within(items: list[_Item]) -> str:
    """Return a numerator or a denominator."""
    if len(items) == 1 and items[0].bare:
        return items[0].bare
    return f"<mrow>{''.join(_row(items))}</mrow>"
