"""How an extra is installed: said in one place, since PyPI has another project under our name."""


def how_to_install(extra: str) -> str:
    """Return what to do in a clone, from where Holdfast itself was installed.

    >>> how_to_install("mcp")
    "pip install '.[mcp]' in the clone of Holdfast"
    """
    return f"pip install '.[{extra}]' in the clone of Holdfast"
