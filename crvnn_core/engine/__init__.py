"""The recursion engine: Algorithm 1 of the paper, and what makes it fast."""
