"""Runs for other people: as zip files, and on the Hugging Face hub."""
