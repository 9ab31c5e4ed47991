"""Imports modules in a process of its own and tells what came of it. A script: `probing` starts it, nobody imports it.

    python -P importing.py '{"code": FOLDER or null, "modules": […], "lists": EXPRESSION or null}'

On the last line of its output stands {"tasks": [[domain, task], …] or null}, or of the first module that failed
{"module": …, "why": "ImportError: …", "missing": the absent module or null, "file": …, "line": …}.
"""

import importlib
import json
import os
import sys
import traceback
import types


def without_their_init(name, code):
    """Let the packages above a module of `code` be empty: the official ones hide what fails in their modules."""
    parents = name.split(".")[:-1]
    for number in range(1, len(parents) + 1):
        package, folder = ".".join(parents[:number]), os.path.join(code, *parents[:number])
        if package not in sys.modules and os.path.isdir(folder):
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [folder]


def tried(name, code):
    """None if the module can be imported, else why not."""
    try:
        if code:
            without_their_init(name, code)
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        why = "".join(traceback.format_exception_only(error)).strip()
        place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (frame.filename, frame.lineno)
        return {"module": name, "why": why, "missing": missing, "file": place[0], "line": place[1]}
    return None


def main():
    request = json.loads(sys.argv[1])
    if request["code"]:
        sys.path.insert(0, request["code"])
    for name in request["modules"]:
        failed = tried(name, request["code"])
        if failed:
            break
    else:
        failed = None
    tasks = None
    if failed is None and request["lists"]:
        tasks = [list(map(str, pair)) for pair in eval(request["lists"])]
    print("\n" + json.dumps(failed or {"tasks": tasks}), flush=True)
    os._exit(0)  # what was imported may hang or fail when it is torn down, which says nothing about an import


if __name__ == "__main__":
    main()
