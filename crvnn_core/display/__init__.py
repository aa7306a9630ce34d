"""One kit for what people look at: tables, progress, charts, pages, colours, and the cells of a notebook.

=================  ====================================================================================================
``tables``         ``Table`` and ``print_table``: on a terminal, as Markdown, on a page; ``write_csv``
``progress``       ``counting``: a bar on a terminal or in a notebook, lines elsewhere; ``format_bytes``
``charts``         ``Axis``, ``Plot`` and ``Matrix``: charts as SVG
``pages``          ``page``: one HTML file with the style sheet of all pages; ``render``: a Jinja template
``palette``        the colours, for light and dark
``notebook``       pieces of HTML from which results draw themselves in a notebook
=================  ====================================================================================================

The kit knows nothing of models, runs and trees: they bring themselves into its form. A page with a chart and a table::

    from crvnn_core.display import pages
    from crvnn_core.display.charts import Axis, Plot
    from crvnn_core.display.tables import Table

    points = [(0, 2.3), (100, 0.4)]
    plot = Plot(Axis.fit("step", [x for x, _ in points]), Axis.fit("Loss", [y for _, y in points]))
    chart = plot.draw("Loss", "The loss falls from 2.3 to 0.4.", [plot.line(points, "line run-0")])
    scores = Table(("run", "accuracy %"), [("first", "97.2")], right=(1,))
    html = pages.page(
        "my_package", "mine", brand="crvnn mine", links={"scores": "Scores"}, chart=chart, scores=scores
    )

where ``my_package/templates/mine.html.jinja`` is::

    {% extends "page.html.jinja" %}
    {% from "macros.html.jinja" import figure, table_of %}
    {% block title %}Mine{% endblock %}
    {% block main %}
    <section id="scores"><h2>Scores</h2>
    <div class="charts">{{ figure("Loss", chart) }}</div>
    {{ table_of(scores, "Of all runs.") }}
    </section>
    {% endblock %}
"""
