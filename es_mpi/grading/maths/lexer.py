r"""Answers in LaTeX or plain text as tokens: dress is taken off, synonyms become one name, words and letters are told apart."""

from __future__ import annotations

import re
from typing import NamedTuple

from es_mpi.grading.maths.node import MAX_DIGITS, Unreadable

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp sqrt frac binom floor ceil abs "
    "gcd lcm min max det".split()
)
GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon phi "
    "varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell".split()
)
SYNONYMS = {
    "leq": "<=", "le": "<=", "leqslant": "<=", "geq": ">=", "ge": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "neq": "!=",
    "ne": "!=", "approx": "~", "simeq": "~", "in": "in", "equiv": "equiv", "times": "*", "cdot": "*", "ast": "*", "div": "/",
    "pm": "pm", "mp": "mp", "cup": "cup", "colon": ":", "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "lbrace": "\\{",
    "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")", "infty": "inf", "infinity": "inf",
    "emptyset": "empty", "varnothing": "empty", "land": "and", "lor": "or", "wedge": "and", "vee": "or", "circ": "deg",
    "degree": "deg", "prime": "'", "ldots": "...", "dots": "...", "cdots": "...", "dotsc": "...", "dotsb": "...", "tg": "tan",
    "ctg": "cot", "cotan": "cot", "cosec": "csc", "arctg": "arctan", "dbinom": "binom", "tbinom": "binom", "dfrac": "frac",
    "tfrac": "frac", "cfrac": "frac", "lfloor": "lfloor", "rfloor": "rfloor", "lceil": "lceil", "rceil": "rceil", "to": "to",
    "rightarrow": "to", "backslash": "setminus", "and": "and", "or": "or", "percent": "%", "pct": "%", "percentage": "%",
}  # fmt: skip
UNICODE = {
    "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∞": r"\infty ", "π": r"\pi ",
    "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*", "−": "-", "–": "-", "°": r"\degree ",
    "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∈": r"\in ", "√": r"\sqrt ", "²": "^2", "³": "^3", "½": r"\frac{1}{2}",
    "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ",
    "ℝ": r"\mathbb{R}", "∅": r"\emptyset ", "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "’": "'", "′": "'", "…": "...",
    "“": '"', "”": '"', "\u00a0": " ",
}  # fmt: skip

_UNICODE = re.compile("|".join(map(re.escape, UNICODE)))
_DRESS = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|quad|qquad|boxed|fbox|mathstrut"
    r"|math(?:bf|rm|it|sf)|text(?:bf|it|rm)?|boldsymbol|bm)(?![A-Za-z])"
    r"|(?<![0-9.])\\(?:angle|triangle|overline|bar|vec|hat|widehat|overrightarrow|underline|square)(?![A-Za-z])"
    r"|\\[\[\]()!,;:> ]|\$|~|\\(?:\$)|[€£¥]|\\phantom\{[^{}]*\}|\*\*|&(?=\s*=)"
)
_ESCAPED = re.compile(  # a text that was escaped twice; elsewhere two backslashes end a row
    r"\\\\(?=(?:[dt]?frac|sqrt|text|mathrm|left|right|pi|infty|cdot|times|sin|cos|tan|ln|log|cup|in|leq?|geq?|pm|circ"
    r"|[bB]igg?[lr]?)(?![A-Za-z])"
    r"|[{}](?!\\))"
)
_JOINED = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!)\s*(?=[0-9]{3})")
_MIXED = re.compile(r"(?<![\w.,^/])([0-9]{1,9}) +([0-9]{1,9})/([0-9]{1,9})(?![0-9.])")  # 1 1/2
_PYTHON_POWER = re.compile(r"(?<=[0-9A-Za-z)])\*\*(?=[0-9A-Za-z(-])")  # and not **bold**
_WORDS = re.compile(
    r"\\(?:text|mbox|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mathsf|operatorname|hbox|rm|bf)\*?\s*\{([^{}]*)\}"
)
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<repeat>[0-9]*\.[0-9]*\\(?:overline|bar|dot)\s*\{?[0-9]+\}?)
    |(?P<num>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]{1,3}(?:[ ][0-9]{3})+(?![0-9])(?:\.[0-9]+)?
        |(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<env>\\(?:begin|end)\s*\{[a-z]*\*?\}(?:\{[clr|]*\})?)
    |(?P<blackboard>\\mathbb\s*\{?[A-Z]\}?)
    |(?P<text>\\t\{[^{}]*\})
    |(?P<command>\\[A-Za-z]+)
    |(?P<brace>\\[{}|%\#&_])
    |(?P<compare><=|>=|!=|==|=>|->)|(?P<dots>\.\.\.)
    |(?P<word>[A-Za-z]+)
    |(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)
_ORDINAL = re.compile(r"(?<=[0-9])(?:\^?\{?\\t\{(?:st|nd|rd|th)\}\}?|(?:st|nd|rd|th)\b)")


class Token(NamedTuple):
    """`kind` is num, sym, fn, word, env or op; `spaced` says whether white space stood in front."""

    kind: str
    text: str
    spaced: bool = False


def undress(text: str) -> str:
    """`text` without dollars, sizes, spacing and boxes, in ASCII where LaTeX has a name for a character."""
    text = _ESCAPED.sub(r"\\", _UNICODE.sub(lambda match: UNICODE[match[0]], text)).replace("\\\\", "\\break ")
    text = _PYTHON_POWER.sub("^", _JOINED.sub("", text))
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    text = _WORDS.sub(lambda match: rf"\t{{{match[1]}}}", text)
    return _ORDINAL.sub("", _DRESS.sub(" ", text)).strip()


def tokens(text: str) -> list[Token]:
    """The tokens of an undressed answer. Raises Unreadable for a number of over 400 digits."""
    found: list[Token] = []
    position, depth = 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            break  # white space at the end
        kind, word = str(match.lastgroup), match[str(match.lastgroup)]
        spaced = match.start(kind) > position
        end = match.end()
        if kind == "num" and depth and "," in word:  # inside brackets a comma separates
            word, end = word.partition(",")[0], match.start(kind) + word.index(",")
        spaced = spaced or not found or found[-1].kind == "num"  # 10cm is 10 cm
        if kind == "word" and found and found[-1].kind == "word" and len(word) > 1 and word not in ("and", "or"):
            kind = "words"
        if kind == "word" and word == "min" and found and found[-1].kind == "num":
            kind = "words"  # 20 min
        if kind == "word" and word == "in" and text[end:].lstrip()[:1] not in ("[", "(", "{", "\\"):
            kind = "words"  # 4 eggs in a box, and not x in (0, 1)
        for token in _read(kind, word, spaced):
            depth += {"(": 1, "[": 1, "\\{": 1, ")": -1, "]": -1, "\\}": -1}.get(token.text, 0)
            found.append(token)
        position = end
    return found


def _read(kind: str, word: str, spaced: bool) -> list[Token]:
    if kind in ("num", "repeat"):
        if len(word) > MAX_DIGITS:
            raise Unreadable("a number of too many digits")
        return [Token("num", word.replace(",", "").replace(" ", ""), spaced)]
    if kind == "env":
        return [Token("env", word, spaced)]
    if kind == "blackboard":
        return [Token("sym", f"set {word.rstrip('}')[-1]}", spaced)]
    if kind == "text":
        return _text(word[3:-1], spaced)
    if kind == "command":
        return [_command(word[1:], spaced)]
    if kind == "words":
        return [Token("op", SYNONYMS[word], True) if word in ("percent", "pct", "percentage") else Token("word", word, True)]
    if kind == "word":
        return _word(word, spaced)
    if word == ".":
        return []  # the end of a sentence
    names = {"\\%": "%", "==": "=", "=>": "to", "->": "to", "\\|": "|"}
    return [Token("op", names.get(word, word), spaced)]


def _command(name: str, spaced: bool) -> Token:
    name = SYNONYMS.get(name, name)
    if name in FUNCTIONS:
        return Token("fn", name, spaced)
    if name in GREEK or name in ("pi", "inf"):
        return Token("sym", name, spaced)
    return Token("op", name, spaced)


def _text(words: str, spaced: bool) -> list[Token]:
    r"""The inside of \text{...}: separators stay separators, a single letter or function is one, the rest are words."""
    found: list[Token] = []
    for word in re.findall(r"[A-Za-z'\-]+|[0-9]+(?:\.[0-9]+)?|[^\sA-Za-z0-9.~]", words):
        plain = SYNONYMS.get(word, word)
        if word in ("and", "or"):
            found.append(Token("op", word, True))
        elif word[0].isdigit():
            found.append(Token("num", word, True))
        elif plain in FUNCTIONS:
            found.append(Token("fn", plain, spaced))
        elif len(word) == 1:
            # Upright m after a number is a metre; alone it is a letter. The parser decides by what is in front.
            found.append(Token("upright" if word.isalpha() else "op", word, spaced))
        else:
            found += [Token("op", "%", True)] if plain == "%" else [Token("word", word, True)]
    return found


def _word(word: str, spaced: bool) -> list[Token]:
    """A run of letters in plain text: a function, a separator, a word, or variables side by side."""
    plain = SYNONYMS.get(word.lower(), word) if len(word) > 1 else word
    if plain in FUNCTIONS or plain == "pi":
        return [Token("sym" if plain == "pi" else "fn", plain, spaced)]
    if plain in ("and", "or", "inf", "%", "in"):
        return [Token("sym" if plain == "inf" else "op", plain, spaced)]
    if len(word) > 3 and not word.isupper():
        return [Token("word", word, spaced)]
    if len(word) > 1 and spaced and word.lower() in SHORT_WORDS:
        return [Token("word", word, spaced)]
    return [Token("sym", letter, spaced and i == 0) for i, letter in enumerate(word)]


SHORT_WORDS = frozenset(
    "cm mm km ml kg mg ft yd mi lb lbs oz hr hrs min mins sec mph kmh am pm the of is are for if any all per no yes "
    "not to it so day men was has we".split()
)
