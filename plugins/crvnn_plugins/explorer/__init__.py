"""``crvnn explore``: a local page on which to watch trained models at work. Needs the extra ``explore``."""
