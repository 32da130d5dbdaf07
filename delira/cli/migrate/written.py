"""What is written down in a script: texts, entries of dictionaries, and arguments of calls."""

import ast

#: what holds settings, and other values by their names
Holder = ast.Call | ast.Dict
#: what a part of a larger expression needs no parentheses as
_CLOSED = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List)


def text_of(node: ast.AST | None) -> str:
    """A text that is written down; empty if it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def items(node: ast.AST | None) -> dict[str, ast.expr]:
    """What a dictionary that is written down holds; nothing if it is none."""
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    return {text_of(key): value for key, value in pairs if text_of(key)}


def entry(holder: Holder, name: str, position: int = 99) -> ast.expr | None:
    """What a dictionary or a call has under a name, or a call at a place."""
    if isinstance(holder, ast.Dict):
        return items(holder).get(name)
    named = next((keyword.value for keyword in holder.keywords if keyword.arg == name), None)
    has_place = position < len(holder.args) and not any(isinstance(one, ast.Starred) for one in holder.args)
    return holder.args[position] if named is None and has_place else named


def unpacked(holder: Holder) -> list[ast.expr]:
    """What a dictionary or a call gets by ``**``."""
    if isinstance(holder, ast.Call):
        return [one.value for one in holder.keywords if one.arg is None]
    return [value for key, value in zip(holder.keys, holder.values, strict=True) if key is None]


def closed(text: str) -> str:
    """An expression that something can be read of: in parentheses unless it is one word, call or place."""
    node = ast.parse(f"({text})", mode="eval").body
    return text if isinstance(node, _CLOSED) else f"({text})"
