"""The ratios that a benchmark is held to: what they were when they were last recorded, and a fifth more.

Only ratios of things that are measured interleaved in one process are held, which do not depend on the machine. With
`--record` a benchmark writes what it has measured into recorded.json instead.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

_FILE = Path(__file__).with_name("recorded.json")
_MOST = 1.2


def held(bench: str, ratios: Mapping[str, float], file: Path = _FILE) -> bool:
    """Whether none of these ratios of a benchmark is more than a fifth above what was recorded; each is told. One that
    was never recorded holds."""
    recorded: dict[str, dict[str, float]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if "--record" in sys.argv[1:]:
        recorded[bench] = {name: round(ratio, 2) for name, ratio in ratios.items()}
        file.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", "utf-8")
        return True
    before = recorded.get(bench, {})
    table = Table("ratio", "recorded", "now", "", box=None)
    worse = {name for name, ratio in ratios.items() if ratio > before.get(name, ratio) * _MOST}
    for name, ratio in ratios.items():
        then = f"{before[name]:.2f}" if name in before else "never"
        table.add_row(name, then, f"{ratio:.2f}", "worse" if name in worse else "")
    Console(width=100).print(table)
    return not worse
