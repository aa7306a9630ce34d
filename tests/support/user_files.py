"""A task from a file of the user's own, and its examples."""

from crvnn_tasks.from_file.task import FromFile

CSV = "text,label\nA good film,pos\nA bad film,neg\nGood!,pos\nReally bad,neg\n"
ALL = [("a good film", 1), ("a bad film", 0), ("good !", 1), ("really bad", 0)]


def rows(task, split="train"):
    return [(*(" ".join(s) for s in example.sequences), example.label) for example in task.examples(split, 0)]


def whole(path, **settings):
    """A task that trains on all of a file."""
    return FromFile(path, dev_share=0.0, **settings)
