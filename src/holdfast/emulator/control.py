"""Steering a running emulator over HTTP: its faults, options, troubles and journal.

These routes cost nothing, are not in the journal and cannot fail by rule.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from holdfast.emulator.apps import ANYONE
from holdfast.emulator.exchange import Answer, JsonObject, Refusal, Request, json_answer, not_found
from holdfast.emulator.fault_text import parse_fault
from holdfast.emulator.options import EmulatorOptions, Switches

if TYPE_CHECKING:
    from holdfast.emulator.app import Emulator

PREFIX = "/_emulator"
_JSON_TYPES: dict[Any, Any] = {float: float | int, frozenset[str]: frozenset, Mapping[str, str]: dict}
_FIXED = {"root", "repo", "clock", "api_versions", "app"}


def handle(emulator: "Emulator", request: Request) -> Answer:
    """Answer a request to one of the emulator's own routes."""
    try:
        return _route(emulator, request)
    except Refusal as refusal:
        return refusal.answer()


def _route(emulator: "Emulator", request: Request) -> Answer:
    name, _, rest = request.path.removeprefix(f"{PREFIX}/").partition("/")
    match request.method, name, rest:
        case "GET", "faults", "":
            return json_answer(_list_faults(emulator))
        case "POST", "faults", "":
            return _add_faults(emulator, request.json_object())
        case "DELETE", "faults", "":
            emulator.faults.clear()
            return Answer(204)
        case "DELETE", "faults", number if number.isdigit():
            return Answer(204 if emulator.faults.remove(int(number)) else 404)
        case "GET", "journal", "":
            return json_answer(_journal_shape(emulator))
        case "DELETE", "journal", "":
            emulator.journal.clear()
            return Answer(204)
        case "GET", "options", "":
            return json_answer(_settings(emulator))
        case "POST" | "PATCH", "options", "":
            _change(emulator, request.json_object())
            return json_answer(_settings(emulator))
        case _:
            raise not_found()


def _list_faults(emulator: "Emulator") -> list[JsonObject]:
    return [
        {"number": armed.number, "rule": repr(armed.rule), "seen": armed.seen, "fired": armed.fired}
        for armed in emulator.faults.rules
    ]


def _add_faults(emulator: "Emulator", body: JsonObject) -> Answer:
    texts = body.get("faults", [body["fault"]] if "fault" in body else None)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refusal(422, 'Send {"fault": "put:503:times=3"} or {"faults": [...]}.')
    try:
        rules = [parse_fault(text) for text in texts]
    except ValueError as error:
        raise Refusal(422, str(error)) from None
    return json_answer({"numbers": [emulator.faults.add(rule) for rule in rules]}, 201)


def _journal_shape(emulator: "Emulator") -> JsonObject:
    return {
        "count": len(emulator.journal),
        "by_status": {str(status): count for status, count in emulator.journal.by_status.items()},
        "entries": [asdict(entry) for entry in emulator.journal.entries],
    }


def _settings(emulator: "Emulator") -> JsonObject:
    return {
        **{name: getattr(emulator.options, name) for name in _option_names()},
        **{name: _plain(getattr(emulator.switches, name)) for name in _switch_names()},
        "now": emulator.options.now(),
        "primary_refusals": emulator.limits.primary_refusals,
        "secondary_refusals": emulator.limits.secondary_refusals,
    }


def _change(emulator: "Emulator", body: JsonObject) -> None:
    known = {*_option_names(), *_switch_names(), "remaining"}
    unknown = sorted(body.keys() - known)
    if not isinstance(body.get("remaining", 0), int):
        raise Refusal(422, "remaining must be a whole number.")
    if unknown:
        raise Refusal(422, f"No such option: {', '.join(unknown)}. Known: {', '.join(sorted(known))}.")
    emulator.change_options(**_typed(EmulatorOptions, body))
    emulator.switch(**_typed(Switches, body))
    if "remaining" in body:
        options = emulator.options
        for caller in (ANYONE, *(options.app.callers if options.app else ())):
            for resource in ("core", "graphql"):
                left = body["remaining"]
                emulator.limits.spend_primary(options, options.now(), resource, left, caller)


def _typed(kind: type[EmulatorOptions | Switches], body: JsonObject) -> dict[str, Any]:
    """Return the part of a body that belongs to one kind of settings, or refuse what has another type."""
    found: dict[str, Any] = {}
    for setting in fields(kind):
        if setting.name in body and setting.name not in _FIXED:
            value = _frozen(body[setting.name])
            if not isinstance(value, _JSON_TYPES.get(setting.type, setting.type)):
                raise Refusal(422, f"{setting.name} cannot be {body[setting.name]!r}.")
            found[setting.name] = value
    return found


def _option_names() -> list[str]:
    return [option.name for option in fields(EmulatorOptions) if option.name not in _FIXED]


def _switch_names() -> list[str]:
    return [switch.name for switch in fields(Switches)]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _frozen(value: Any) -> Any:
    return frozenset(value) if isinstance(value, list) else value
