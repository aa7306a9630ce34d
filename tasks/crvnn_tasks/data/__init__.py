"""The command group ``crvnn data``: generating, downloading and checking the data of the tasks."""
