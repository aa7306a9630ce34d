"""Reading and operating the explorer's page."""

TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"


TOKENS = TEXT.split()


def type_in(page, text, pane="A", field="#text-1"):
    """Type a text, and wait until the model has answered."""
    page.fill(field, text)
    settled(page, text.split(), pane)


def settled(page, tokens, pane="A", sequence=0):
    """Wait until these tokens are what a pane shows, and its model is not busy."""
    page.wait_for_function(
        """([pane, sequence, tokens]) => {
          const figure = document.querySelectorAll(`#pane-${pane} .sequence`)[sequence];
          const shown = figure && [...figure.querySelectorAll("tbody th")].map((each) => each.textContent);
          const busy = document.querySelector(`#pane-${pane}`)?.getAttribute("aria-busy") === "true";
          return !busy && JSON.stringify(shown) === JSON.stringify(tokens);
        }""",
        arg=[pane, sequence, list(tokens)],
    )


def press(page, key):
    """Press a key where nothing is focused."""
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press(key)


def told(page, words, where="#pane-A"):
    """Wait until an element contains these words."""
    page.wait_for_function(
        "([where, words]) => document.querySelector(where)?.textContent.includes(words)", arg=[where, words]
    )


def numbers(page, pane="A", sequence=0):
    """The table of a step: e before, c and e after of each token."""
    rows = page.locator(f"#pane-{pane} .sequence").nth(sequence).locator("tbody tr")
    return rows.evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => Number(cell.textContent)))"
    )
