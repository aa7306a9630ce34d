r"""Tokens as text that can be read again, whatever is in them.

A backslash begins an escape: ``\\`` itself, ``\s`` a space, ``\n`` and ``\t``, ``\e`` the empty token, and ``\u{202e}``
whatever cannot be seen or would disturb the text around it. Before anything else a backslash is just that.
"""

from __future__ import annotations

import json
import re

_SHORT = {"\\": r"\\", "\n": r"\n", "\t": r"\t", " ": r"\s"}
_MEANS = {written[1]: character for character, written in _SHORT.items()}

# Controls, lone surrogates, what XML forbids, and what changes the direction of text or has no width.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_SPACE = rf"\\|[{_UNSEEN}]|\s"
_EDGES = rf"\\|[{_UNSEEN}]|[^\S ]|^ | $"
_WRITTEN = re.compile(r"\\u\{([0-9a-f]{1,6})\}|\\([\\ntse])")


def visible(token: str, *, spaces: bool = False) -> str:
    """A token as one line of text.

    :param spaces: whether spaces may stand inside it, but not at its ends.
    """
    pattern = _EDGES if spaces else _SPACE
    return re.sub(pattern, lambda found: _SHORT.get(found[0]) or f"\\u{{{ord(found[0]):x}}}", token) or r"\e"


def as_json(value: object) -> str:
    """JSON on one line, with the same characters escaped, in its own way; others stay as they are."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(rf"[{_UNSEEN}]|[^\S ]", lambda found: f"\\u{ord(found[0]):04x}", text)


def token_of(text: str) -> str:
    """The token that ``visible`` has written."""
    return _WRITTEN.sub(_meant, text)


def _meant(found: re.Match[str]) -> str:
    if found[1]:
        number = int(found[1], 16)
        return chr(number) if number <= 0x10FFFF else found[0]
    return "" if found[2] == "e" else _MEANS[found[2]]
