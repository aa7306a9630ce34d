"""The colours of drawn trees and of the pages of the explorer and the report: one definition, for light and dark.

They were chosen with simulated protanopia, deuteranopia and tritanopia: colour-blind people can tell e from c, and the
first four runs from each other. No run has the colour of e or c.
"""

from __future__ import annotations

#: By name, the colour on light pages and the colour on dark ones.
COLOURS: dict[str, tuple[str, str]] = {
    # the page
    "ground": ("#f3f5f8", "#0f141a"),
    "surface": ("#ffffff", "#181f27"),
    "sunk": ("#eef1f5", "#222b35"),
    "ink": ("#17212b", "#e6ecf2"),
    "muted": ("#5a6774", "#9aa8b6"),
    "line": ("#d5dce4", "#323d49"),
    "later": ("#b6bfc9", "#56626f"),  # nodes of a tree that are yet to be made
    "accent": ("#1f5fa3", "#6aaaf0"),
    "on-accent": ("#ffffff", "#0c1621"),
    # existential and composition probabilities
    "e": ("#2a6fb8", "#5ea3e6"),
    "c": ("#d06a0e", "#f39a48"),
    "c-text": ("#a4500a", "#f39a48"),  # c has too little contrast for small letters
    # comparisons
    "differs": ("#c01877", "#ff79bd"),
    "differs-later": ("#e3a6ca", "#86466b"),
    "correct": ("#1d7a45", "#5fce8d"),
    "wrong": ("#b3261e", "#ff8f86"),
    "share": ("#40518f", "#9db0f5"),  # of a row of a confusion matrix
    # runs, in the order in which they were given
    "run-0": ("#1b7359", "#8ff0c0"),
    "run-1": ("#7b3f98", "#d69ccb"),
    "run-2": ("#7f9440", "#cfe283"),
    "run-3": ("#6b1a1a", "#e55a69"),
    "run-4": ("#382853", "#ab96e5"),
    "run-5": ("#0e93cb", "#7cdfff"),
    "run-6": ("#6b4300", "#d08046"),
    "run-7": ("#4b556a", "#6c8894"),
}
#: How many colours of runs there are; further runs begin again with the first.
RUNS = sum(name.startswith("run-") for name in COLOURS)


def run_class(number: int) -> str:
    """The class, in ``css_variables``, of what has the colour of a run; runs are numbered from 0."""
    return f"run-{number % RUNS}"


def css_variables() -> str:
    """A style sheet that defines ``--e``, ``--c`` and so on, dark if the system or ``data-theme`` of the page says so.

    ``.run-0`` and so on set ``--run`` to the colour of a run. Printed pages are light.
    """
    light, dark = (
        " ".join(f"--{name}: {pair[theme]};" for name, pair in COLOURS.items()) for theme in (0, 1)
    )
    runs = "\n".join(f".run-{number} {{ --run: var(--run-{number}); }}" for number in range(RUNS))
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        "@media screen and (prefers-color-scheme: dark) {\n"
        f'  :root:not([data-theme="light"]) {{ color-scheme: dark; {dark} }}\n'
        "}\n"
        f'@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {dark} }} }}\n'
        f"{runs}\n"
    )
