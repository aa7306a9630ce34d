"""The user's own data: a CSV, TSV or JSONL file with a column of texts (or two) and a column of labels."""
