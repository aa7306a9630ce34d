"""A few sentences whose label a small model learns in a second or two."""

import itertools

TEXTS = [
    f"the {thing} is {no}{word}"
    for thing in ("plot", "cast", "film", "story", "ending")
    for no in ("", "not ")
    for word in ("good", "fine", "bad", "dull")
]
LABELS = [
    "positive" if ("not" in text) != (text.split()[-1] in ("good", "fine")) else "negative" for text in TEXTS
]
PAIRS = list(itertools.pairwise(TEXTS))
SAME = [one.split()[1] == two.split()[1] for one, two in PAIRS]

#: A variant that takes a few milliseconds a step.
SMALL = {
    "model.width": 8,
    "model.scorer.transition": 4,
    "training": {"epochs": 2, "batch": 16, "threads": 1, "accelerator": "cpu", "observers": []},
}
