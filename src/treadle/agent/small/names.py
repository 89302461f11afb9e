"""Names that a Python file uses but does not define, as after half of a rename. Pure."""

import ast
import builtins

_KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__"}


def undefined(text: str) -> dict[str, int]:
    """Name -> the first line that uses it. Cautious: a name that is bound anywhere in the file counts as defined."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    bound: set[str] = set()
    used: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.setdefault(name, node.lineno)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                if any(alias.name == "*" for alias in names):
                    return {}
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                bound |= set(names)
    return {name: line for name, line in used.items() if name not in bound | _KNOWN}
