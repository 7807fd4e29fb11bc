"""How wide text is on a terminal: a wide character (Korean, Chinese, Japanese) takes two columns."""

from rich.cells import cell_len, set_cell_size


def columns(text: str) -> int:
    """The columns that a line takes."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def padded(text: str, width: int) -> str:
    """The text with spaces behind it, up to that many columns."""
    return text + " " * (width - columns(text))


def cut(text: str, width: int) -> str:
    """The text in at most that many columns; an ellipsis stands for what is left out."""
    return text if columns(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"


def cut_bytes(text: str, most: int) -> str:
    """The text in at most that many bytes of UTF-8; an ellipsis stands for what is left out."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return encoded.decode()
    ellipsis = "…"
    return encoded[: most - len(ellipsis.encode())].decode("utf-8", "ignore").rstrip() + ellipsis
