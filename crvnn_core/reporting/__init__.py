"""A page about runs, for people: what they are, how they learnt, how well they do, and what they do inside."""
