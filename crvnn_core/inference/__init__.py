"""Models: built, loaded, asked, inspected and changed."""
