"""Pages of ``crvnn report``, parsed."""

from __future__ import annotations

from html.parser import HTMLParser

from crvnn_core.cli.session import counting
from crvnn_report.page import page
from crvnn_report.report import collect_report

VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Every element as [tag, attributes, text]; tags that do not match are an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        self.close()
        assert not self.open, f"<{self.open[-1][0]}> is never closed"

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), ""]
        self.found.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def all(self, tag, **attributes):
        """The elements of a tag that have these attributes."""
        wanted = attributes.items()
        return [element for element in self.found if element[0] == tag and wanted <= element[1].items()]

    def section(self, name):
        """The text of a section of the page."""
        (found,) = self.all("section", id=name)
        return found[2]


def page_of(catalog, *runs, **options):
    """The page about some runs, as text."""
    return page(collect_report([str(each) for each in runs], catalog, counting, **options))


def report(catalog, *runs, **options):
    """The page about some runs, parsed."""
    return Outline(page_of(catalog, *runs, **options))
