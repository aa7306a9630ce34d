"""A model card: Markdown with YAML front matter, as the Hugging Face hub reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_USE = """## Use

```python
from crvnn import load

model = load("path, zip file or address of this directory")
print(model.predict(["a text of the task"])[0].label)
```

`crvnn predict RUN "a text"` does the same, `crvnn explore RUN` shows how it composes.
"""
#: The slots whose components a card names.
_PARTS = ("encoder", "retriever", "scorer", "decision", "cell", "halting")


def model_card(name: str, spec: Mapping[str, Any], results: Mapping[str, Any], text: str = "") -> str:
    """The card of a model.

    :param spec: the resolved spec of its run.
    :param results: the content of its ``results.json``; may be empty.
    :param text: what its maker wrote about it. It becomes the body; a text with front matter is the card as it is.
    """
    if re.match(r"---\s*\n", text):
        return text
    totals = _totals(results)
    lines = ["---", *_front_matter(name, _name(spec.get("task")), totals), "---", ""]
    lines += [text.strip() or _description(name, spec), "", _USE]
    if totals:
        rows = [
            f"| {split} | {total['examples']:,} | {100 * total['accuracy']:.2f} |"
            for split, total in totals.items()
        ]
        head = ["## Results", "", "| split | examples | accuracy % |", "| --- | ---: | ---: |"]
        lines += [*head, *rows, ""]
    return "\n".join(lines)


def _front_matter(name: str, task: str, totals: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """YAML, one key a line; values are JSON, which YAML contains."""
    facts: dict[str, Any] = {
        "library_name": "crvnn",
        "pipeline_tag": "text-classification",
        "tags": ["crvnn", "recursive-neural-network", "latent-tree", *([task] if task else [])],
    }
    metrics = [
        {"type": "accuracy", "name": f"accuracy ({split})", "value": round(total["accuracy"], 6)}
        for split, total in totals.items()
    ]
    if metrics and task:
        facts["model-index"] = [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": "text-classification"},
                        "dataset": {"type": task, "name": task},
                        "metrics": metrics,
                    }
                ],
            }
        ]
    return [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]


def _description(name: str, spec: Mapping[str, Any]) -> str:
    model = spec.get("model", {})
    parts = [f"{slot} `{part}`" for slot in _PARTS if (part := _name(model.get(slot)))]
    return (
        f"# {name}\n\nA recursive neural network of width {model.get('width')}, trained on the task "
        f"`{_name(spec.get('task'))}` with seed {spec.get('seed')}.\n\n"
        f"Parts: {', '.join(parts)}. `spec.toml` has all settings, `environment.json` all versions."
    )


def _totals(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of each split; those without an accuracy are left out."""
    splits = results.get("splits") or {}
    totals = {name: split.get("total", {}) for name, split in splits.items()}
    return {name: total for name, total in totals.items() if total.get("accuracy") is not None}


def _name(part: Any) -> str:
    """The name of a component in a spec, which is a table or the name alone."""
    return str(part.get("name", "")) if isinstance(part, Mapping) else str(part or "")
