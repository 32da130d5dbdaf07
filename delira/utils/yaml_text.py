"""Plain trees to YAML text and back: strict, and without any of YAML's ways to make objects."""

import json
import re
from typing import Any

import yaml

from delira.errors import ConfigError


class _Writer(yaml.SafeDumper):
    """Writes short lists, and what has a tag, on one line."""


class _Reader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # nested aliases grow without bound when they are walked
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not read; write the value out", self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if (name := (key.tag, str(key.value))) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there twice; delete one", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def _write_list(writer: Any, items: list[Any]) -> Any:
    flat = not any(isinstance(item, (list, dict)) for item in items)
    return writer.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


def _write_dict(writer: Any, items: dict[Any, Any]) -> Any:
    short = any(str(key).startswith("$") for key in items) and len(json.dumps(items, default=str)) <= 90
    return writer.represent_mapping("tag:yaml.org,2002:map", items, flow_style=short or not items)


_Writer.add_representer(list, _write_list)
_Writer.add_representer(dict, _write_dict)
for _kind in (_Writer, _Reader):  # PyYAML takes 1e-3 for a string; writing must then quote such strings
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def write_yaml(plain: object) -> str:
    """Write dictionaries, lists and scalars; short lists and tagged entries on one line."""
    return yaml.dump(plain, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)


def read_yaml(text: str | bytes) -> Any:
    """Read plain YAML.

    Raises
    ------
    ConfigError
        If the text is no YAML, names Python objects (``!!python/...``), has aliases or has a key twice.
    """
    try:
        return yaml.load(text, Loader=_Reader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # PyYAML lets the errors of its converters through: "!!bool maybe" is a KeyError
        raise ConfigError(f"this is not readable as plain YAML: {error}") from error
