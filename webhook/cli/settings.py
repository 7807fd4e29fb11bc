"""How click calls every command of the program, by itself or in its group."""

from typing import Any

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
