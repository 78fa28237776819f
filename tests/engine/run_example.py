"""Run by the Python of another environment: one action on the real engine with an example's program.

`python run_example.py ACTION FOLDER WORK_DIR CONFIG_JSON` prints one JSON object. It must import nothing
of this project but what that environment has installed.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from pulumi import automation

import servingstack


def main(action: str, folder: str, work_dir: str, config: str) -> None:
    program = runpy.run_path(str(Path(folder) / "__main__.py"), run_name="example")["program"]
    options = automation.LocalWorkspaceOptions(work_dir=work_dir)
    stack = automation.create_or_select_stack("dev", "importing", program, options)
    for key, value in json.loads(config).items():
        stack.set_config(key, automation.ConfigValue(value))
    result: dict[str, object] = {"library": servingstack.__file__}
    if action == "up":
        result["outputs"] = {name: output.value for name, output in stack.up().outputs.items()}
        again = stack.preview(expect_no_changes=True)
        result["again"] = list(again.change_summary)
        result["state"] = stack.export_stack().deployment
    else:
        stack.destroy()
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
