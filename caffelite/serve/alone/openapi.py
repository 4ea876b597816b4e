"""The description of the interface: OpenAPI, and the page that shows it."""

from typing import Any

from ... import __version__
from .predictor import ANSWERS, Predictor

WHAT = {
    "classify": "The classes of each picture, best first.",
    "detect": "The objects in each picture, with boxes in its pixels.",
    "segment": "The classes of each picture's pixels: shares, and a mask of its size.",
    "read": "The line of text in each picture.",
}
NUMBER, TEXT, WHOLE = {"type": "number"}, {"type": "string"}, {"type": "integer"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_CLASS = {"label": TEXT, "class": WHOLE}
RESULTS = {
    "classify": {"answers": _list(_object(**_CLASS, score=NUMBER))},
    "detect": {"objects": _list(_object(**_CLASS, score=NUMBER, box=_list(NUMBER)))},
    "segment": {
        "answers": _list(_object(**_CLASS, share=NUMBER)),
        "mask": {"type": "string", "format": "byte", "description": "A PNG whose values are the numbers of classes."},
    },
    "read": {"text": TEXT, "score": NUMBER},
}


def description(predictor: Predictor) -> dict[str, Any]:
    """OpenAPI 3.1 of the paths that this model has."""
    operation = predictor.operation
    options: dict[str, Any] = {}
    if operation != "read":
        options["top"] = WHOLE | {"description": f"The most answers. Default: {ANSWERS}; of objects: all."}
    if operation == "detect":
        options["threshold"] = NUMBER | {"description": "The least score of an object. Default: 0.3."}
    base64_text = {"type": "string", "format": "byte", "description": "A picture's file in base64, or a data: URL."}
    binary = _list({"type": "string", "format": "binary"})
    error = {"application/json": {"schema": _object(error=TEXT, status=WHOLE)}}
    result = _object(height=WHOLE, width=WHOLE, notes=_list(TEXT), error=TEXT, **RESULTS[operation])
    answer = _object(model=TEXT, results=_list(result), seconds=NUMBER)
    post = {
        "summary": WHAT[operation],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _object(images=_list(base64_text), **options)},
                "multipart/form-data": {"schema": _object(image=binary, **options)},
            },
        },
        "responses": {
            "200": {
                "description": "A result for each picture, in order; one that cannot be read has error alone.",
                "content": {"application/json": {"schema": answer}},
            },
            "400": {"description": "No picture can be read, or the body is wrong.", "content": error},
            "401": {"description": "The token is missing or wrong.", "content": error},
            "413": {"description": "The body is too large.", "content": error},
            "503": {"description": "Too many pictures wait; see Retry-After.", "content": error},
        },
    }
    plain = {"responses": {"200": {"description": "Text."}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"{predictor.name}, served by caffelite", "version": __version__},
        "paths": {
            f"/v1/{operation}": {"post": post},
            "/health": {"get": {"summary": "Whether the model answers; needs no token.", **plain}},
            "/metrics": {"get": {"summary": "Counters, as Prometheus reads them.", **plain}},
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
