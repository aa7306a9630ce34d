"""The sections of a report: each is a function that gives the variables of the template of its name."""
