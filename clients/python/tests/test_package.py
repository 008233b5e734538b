"""The wheel and the source distribution, built and installed without an index, and the types of what was installed."""

import ast
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ["retrysafe.py", "retrysafe_aio.py", "retrysafe_queues.py", "retrysafe_testing.py"]

# Complete types: mypy accepts it with --strict only if py.typed was installed and the types are what they should be.
TYPED = """
import psycopg, retrysafe
from retrysafe import aio

def pay(conn: "psycopg.Connection[tuple[object, ...]]", order: str) -> bytes:
    with retrysafe.once(conn, "payments", order, {"order": order}, wait=1.5) as op:
        reveal_type(op)
        if not op.done:
            op.complete({"paid": True}, headers=["X: y"])
    return op.answer

@retrysafe.idempotent("payments", key="order")
def again(op: retrysafe.Operation, order: str) -> str:
    return order

keys = retrysafe.Encryption(b"{}", plaintext="accept")
retrysafe.save_step(None, "lease", "name", b"", encryption=keys)
reveal_type(again)

async def wait(conn: "psycopg.AsyncConnection[tuple[object, ...]]") -> None:
    async with aio.once(conn, "payments", "1") as op:
        reveal_type(op)
retrysafe.complete(None, 1, "")
"""


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


class Package(unittest.TestCase):
    # Seen to fail without include in pyproject.toml: the file is there twice.
    def test_build_install_import(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # The wheel is built from the source distribution. -x: Debian's hatchling lacks what editable installs need.
            run(sys.executable, "-m", "build", "-x", "--no-isolation", "--outdir", folder, ROOT)
            (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
            self.assertEqual(wheel.name, "retrysafe-0.1.0-py3-none-any.whl")
            self.assertEqual(
                sorted(name for name in zipfile.ZipFile(wheel).namelist() if "dist-info" not in name),
                ["retrysafe/__init__.py", "retrysafe/aio.py", "retrysafe/py.typed", "retrysafe/queues.py", "retrysafe/testing.py"])
            with tarfile.open(source) as files:
                names = {name.split("/", 1)[1] for name in files.getnames()}
            self.assertLessEqual({"retrysafe.py", "py.typed", "LICENSE", "README.md", "tests/test_once.py"}, names)
            run(sys.executable, "-m", "venv", "--system-site-packages", folder / "venv")
            python = folder / "venv" / "bin" / "python"
            run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
            self.assertEqual(
                run(python, "-c", "import retrysafe, retrysafe.aio, retrysafe.queues, retrysafe.testing; print(retrysafe.__version__, retrysafe.__file__)", cwd=folder).split(),
                ["0.1.0", str(next(folder.glob("venv/lib/python3*/site-packages/retrysafe/__init__.py")))])
            (folder / "typed.py").write_text(TYPED)
            checked = subprocess.run(
                [python, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", "typed.py"], cwd=folder, text=True,
                stdout=subprocess.PIPE, env={"MYPYPATH": "", "PATH": ""})
            self.assertIn('Revealed type is "retrysafe.Operation"', checked.stdout)
            self.assertIn('Revealed type is "retrysafe.aio.Operation"', checked.stdout)
            self.assertIn('def (*Any, **Any) -> builtins.bytes', checked.stdout)
            self.assertIn('Argument 2 to "complete" has incompatible type "int"; expected "str"', checked.stdout)
            self.assertIn("Found 1 error", checked.stdout)
            run(python, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", folder / "cache",
                *[ROOT / name for name in FILES])

    def test_the_licence_is_that_of_the_project(self):
        self.assertEqual((ROOT / "LICENSE").read_text(), (ROOT.parents[1] / "LICENSE").read_text())

    # Python 3.9 is the oldest that is supported; the tests run with the one that is there.
    def test_the_grammar_is_that_of_the_oldest_version(self):
        for name in FILES:
            ast.parse((ROOT / name).read_text(), feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
