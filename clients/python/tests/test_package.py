"""The package as a whole: what is in it, and what its README says."""

import importlib
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_wheel_has_the_package_and_its_types(tmp_path: Path) -> None:
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("callgate_client-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    modules = {path.name for path in (ROOT / "src/callgate_client").iterdir() if path.is_file()}
    assert {name.partition("/")[2] for name in names if name.startswith("callgate_client/")} == modules
    assert "py.typed" in modules


def test_the_base_package_imports_no_client_library() -> None:
    code = "import callgate_client, sys; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=path()
    )
    loaded = {name.partition(".")[0] for name in found.stdout.split()}
    assert loaded.isdisjoint({"mcp", "fastmcp", "pydantic_ai", "huggingface_hub"})


def test_a_missing_library_is_told_with_what_to_install() -> None:
    with pytest.raises(
        ImportError, match=r"install callgate-client\[huggingface\]|install callgate-client\[mcp1\]"
    ):
        importlib.import_module("callgate_client.huggingface")


def path() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "src")}


def test_every_example_of_the_readme_is_one_that_is_tested() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    examples = "\n".join(file.read_text("utf-8") for file in (ROOT / "examples").glob("*.py"))
    plain = without_indent(examples)
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        for part in textwrap.dedent(block).strip().split("\n\n"):
            assert without_indent(part) in plain, part


def without_indent(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())
