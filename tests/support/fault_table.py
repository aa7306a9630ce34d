"""The table of faults in the documentation: the tests take from it the message that each fault must have."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"
_ROW = re.compile(r"^\| (?P<fault>[^|]+?) \| (?P<message>`[^`]+`) \| (?P<then>[^|]+?) \|$", re.MULTILINE)


def _messages() -> dict[str, str]:
    return {row["fault"]: row["message"].strip("`") for row in _ROW.finditer(PAGE.read_text("utf-8"))}


#: The message of each fault; ``...`` stands for what differs from case to case.
MESSAGES = _messages()


class Told:
    """Which faults were caused, with the messages that were seen, and how often work was killed."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.kills: Counter[str] = Counter()

    def killed(self, work: str) -> None:
        """Count a kill after which the work has gone on to the same bits."""
        self.kills[work] += 1
        self.rows[f"SIGKILL while {work}"] = f"{self.kills[work]} kills, each resumed to the same bits"

    def survived(self, fault: str, how: str) -> None:
        """Remember a fault that has no message, since the work goes on."""
        self.rows[fault] = how

    def __call__(self, fault: str, text: str) -> None:
        """The message of a fault is the documented one, and there is no traceback."""
        pattern = ".*?".join(map(re.escape, MESSAGES[fault].split("...")))
        assert "Traceback" not in text, text
        found = re.search(pattern, text, re.DOTALL)
        assert found, f"{fault}: expected\n{MESSAGES[fault]}\nbut this was said:\n{text}"
        self.rows[fault] = text[found.start() :].partition("\n")[0] if found[0].count("\n") == 0 else found[0]

    def __str__(self) -> str:
        total = f"{sum(self.kills.values())} kills in all"
        return "\n".join([*(f"{fault}\n    {message}" for fault, message in self.rows.items()), total])
