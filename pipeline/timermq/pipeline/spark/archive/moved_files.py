"""Files of version 0.1.0, which moved a batch into its place behind its entry.

A run that died while it did is brought to its end here; what it had to move stands in
``DIR.staging`` beside the archive.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .batch import Batch


def finish_move(directory: str, batch: Batch) -> None:
    """Put the files of an older version's batch in their places, as far as they are not there.

    Args:
        directory: Of the archive.
        batch: The newest one.
    """
    if not any(file.staged for file in batch.files):
        return
    root = Path(directory)
    staging = root.with_name(f"{root.name}.staging")
    for file in batch.files:
        source, target = staging / file.staged, root / file.path
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
    shutil.rmtree(staging, ignore_errors=True)
