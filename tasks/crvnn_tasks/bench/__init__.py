"""``crvnn bench``: how long encoders take, how much memory they need, and what each shortcut is worth."""
