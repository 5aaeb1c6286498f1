"""Files that are whole or not there."""

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Writes a file in one go: an interruption leaves the old one."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)
