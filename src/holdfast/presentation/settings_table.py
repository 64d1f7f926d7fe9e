"""The settings in force, as commands and pages show them: secrets only as set or not."""

from typing import Any

from holdfast.settings import Settings, names_of_settings, variables_of


def settings_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return every setting with its value, where that came from, and its variable."""
    rows = []
    for name in names_of_settings():
        value = getattr(settings, name)
        source = settings.sources.get(name, "default")
        if hasattr(value, "get_secret_value"):
            value = f"set ({source})"
        elif isinstance(value, tuple):
            value = ",".join(map(str, value)) or None
        elif value is not None and not isinstance(value, str | int | float):
            value = str(value)
        rows.append({"name": name, "value": value, "source": source, "variable": variables_of(name)[0]})
    return rows
