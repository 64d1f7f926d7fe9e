"""Carrying out fault effects on answers."""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

from holdfast.emulator.exchange import JSON_TYPE, Answer, Refusal
from holdfast.emulator.faults import (
    AnswerWith,
    Cut,
    Delay,
    Effect,
    LateWrite,
    Malform,
    Truncate,
    WrongLength,
)

MALFORMED_BODY = b'{"message": "Server Er'
NO_STATUS = 0


def early_answer(effects: Sequence[Effect]) -> Answer | None:
    """Return the answer of a request that a fault keeps from being applied; None if none does."""
    for effect in effects:
        match effect:
            case Cut(after_write=False) | LateWrite():
                return Answer(NO_STATUS, ending="cut")
            case AnswerWith(after_write=False):
                return _planned_answer(effect)
            case _:
                continue
    return None


def distort(answer: Answer, effects: Sequence[Effect]) -> Answer:
    """Return the answer as faults let it leave the server."""
    for effect in effects:
        match effect:
            case AnswerWith(after_write=True):
                answer = _planned_answer(effect).with_headers(_kept_headers(answer))
            case Delay(seconds=seconds):
                answer = replace(answer, delay_s=answer.delay_s + seconds)
            case Cut(after_write=True):
                answer = replace(answer, ending="cut")
            case Truncate():
                answer = replace(answer, ending="truncated")
            case WrongLength(difference=difference):
                answer = replace(answer, declared_length=max(0, len(answer.body) + difference))
            case Malform():
                headers = {**answer.headers, "content-type": JSON_TYPE}
                answer = replace(answer, body=MALFORMED_BODY, headers=headers)
            case _:
                continue
    return answer


def _planned_answer(effect: AnswerWith) -> Answer:
    if effect.body is not None:
        headers = {"content-type": JSON_TYPE, **effect.headers}
        return Answer(effect.status, effect.body.encode(), headers)
    known = {status.value: status.phrase for status in HTTPStatus}
    return Refusal(effect.status, known.get(effect.status, "Error"), headers=effect.headers).answer()


def _kept_headers(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("x-")}
