"""Results as sections of one Markdown file, so that each benchmark rewrites only its own."""

import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

RESULTS = Path(__file__).parents[1] / "results" / "oscar.md"
MACHINE = "2-core AMD EPYC virtual machine"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write(title: str, command: str, body: str) -> None:
    """Print a section and put it in place of the one of that title in the results."""
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, "
    versions += f"scipy {scipy.__version__}, pandas {pd.__version__}"
    text = f"## {title}\n\n`{command}` ({MACHINE}; {versions})\n\n{body.strip()}\n"
    print(text)
    RESULTS.parent.mkdir(exist_ok=True)
    old = RESULTS.read_text() if RESULTS.exists() else "# OSCAR\n"
    head, *sections = old.split("\n## ")
    kept = [section for section in sections if not section.startswith(title + "\n")]
    parts = [head.rstrip(), *(section.rstrip() for section in kept), text[3:].rstrip()]
    RESULTS.write_text("\n\n## ".join(parts) + "\n")
