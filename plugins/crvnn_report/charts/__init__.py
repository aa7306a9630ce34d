"""Charts as inline SVG: Python computes the coordinates, ``templates/charts`` has the markup."""
