"""The page that shows the OpenAPI document to people: one HTML text without scripts or anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any, Final

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1d2330;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #d5d9e2}
details{border:1px solid #d5d9e2;border-radius:6px;margin:.4rem 0;padding:.4rem .8rem}
summary{cursor:pointer}code{font:14px ui-monospace,monospace;overflow-wrap:anywhere}
.m{display:inline-block;min-width:4.2rem;font-weight:700}table{border-collapse:collapse;width:100%;margin:.6rem 0}
td,th{border-top:1px solid #e6e9f0;text-align:left;padding:.3rem .5rem;vertical-align:top;font-size:14px}
.n{color:#5b6472}
@media(prefers-color-scheme:dark){body{color:#e6e9f0;background:#14171f}details,h2,td,th{border-color:#313747}
.n{color:#9aa3b5}a{color:#8ab4ff}}
"""


def page(document: dict[str, Any]) -> str:
    """The page of an OpenAPI document, as :func:`dw_core.openapi.document.openapi` makes it."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info['summary'])} The machine-readable document is at "
        "<a href='/api/openapi.json'>/api/openapi.json</a>.</p>",
    ]
    for tag in document["tags"]:
        parts.append(f"<h2 id='{tag['name']}'>{escape(tag['description'])}</h2>")
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    parts.append(_operation(path, method, operation, document["components"]["schemas"]))
    return "".join(parts) + "</html>"


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    roles = ", ".join(operation.get("x-roles", ())) or "everybody"
    parts = [
        f"<details id='{operation['operationId']}'><summary><span class=m>{method.upper()}</span> "
        f"<code>{escape(path)}</code> <span class=n>{escape(operation['summary'])}</span></summary>",
        f"<p class=n>For: {escape(roles)}</p>",
        _table("Parameters", [(p["name"], p["in"], _type(p["schema"])) for p in operation["parameters"]]),
    ]
    if "requestBody" in operation:
        parts.append(_table("Body", _body(operation["requestBody"]["content"], schemas)))
    answers = [
        (status, answer["description"].replace("`", ""), "") for status, answer in operation["responses"].items()
    ]
    parts.append(_table("Answers", answers))
    return "".join(parts) + "</details>"


def _body(content: dict[str, Any], schemas: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The members of a JSON body, or one row for bytes."""
    ((media_type, described),) = content.items()
    if "$ref" not in described["schema"]:
        return [(media_type, "required", "bytes")]
    schema = schemas[described["schema"]["$ref"].rpartition("/")[2]]
    required = set(schema.get("required", ()))
    return [
        (name, "required" if name in required else "optional", _type(member))
        for name, member in schema.get("properties", {}).items()
    ]


def _table(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(second)}</td><td class=n>{escape(third)}</td></tr>"
        for name, second, third in rows
    )
    return f"<table><tr><th colspan=3>{title}</th></tr>{body}</table>"


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return f"= {schema['const']}"
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(member) for member in schema["anyOf"]))
    words = [str(schema.get("type", "any"))]
    if "minimum" in schema or "maximum" in schema:
        words.append(f"{schema.get('minimum', '')}..{schema.get('maximum', '')}")
    if "maxLength" in schema:
        words.append(f"at most {schema['maxLength']} characters")
    return " ".join(words)
