"""Models as graphs for other runtimes, compared with the model itself before they are kept."""
