"""The programs of docs/python.md run as they are written."""

import pathlib
import re
import textwrap
import types
import unittest

import retrysafe
from tests.kit import Case, DRIVERS

HERE = pathlib.Path(__file__).resolve()
PAGE = (HERE.parents[3] / "docs" / "python.md").read_text()
README = (HERE.parents[1] / "README.md").read_text()


class Message(types.SimpleNamespace):
    acknowledged = 0

    def acknowledge(self):
        self.acknowledged += 1


class Page(Case):
    # Seen to fail with conn.execute, which psycopg2 does not have.
    def test_the_first_programs_of_the_readme_and_of_the_module(self):
        self.admin.execute("DROP TABLE charges; CREATE TABLE charges (order_id text, amount int)")
        in_readme = re.search(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL).group(1)
        in_module = textwrap.dedent(retrysafe.__doc__.split("\n\n")[1])
        for n, program in enumerate([in_readme, in_module]):
            for driver, connect in DRIVERS.items():
                page, order = {"retrysafe": retrysafe}, f"{driver} {n}"
                exec(compile(program, "README.md", "exec"), page)
                for _ in range(2):
                    self.assertEqual(page["pay"](self.opened(connect()), order, 7).decode(), f'{{"order":"{order}","status":"paid"}}')
        self.assertEqual(self.admin.execute("SELECT count(*) FROM charges").fetchone(), (4,))

    def test_the_programs_of_the_page(self):
        programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(programs), 6)
        self.admin.execute(
            "DROP TABLE IF EXISTS charges, outgoing_mails, shipments; CREATE TABLE charges (order_id text, amount int);"
            "CREATE TABLE outgoing_mails (body text); CREATE TABLE shipments (order_id text, label text)")
        calls = []

        def buy_label(order, idempotency_key):
            calls.append(idempotency_key)
            return "label of " + order

        for driver, connect in DRIVERS.items():
            page = {"conn": self.opened(connect())}
            for program in programs[:-1]:  # the last one is run by test_frameworks
                exec(compile(program, "docs/python.md", "exec"), page)
            message = Message(id="m1", body="hello")
            carrier = types.SimpleNamespace(buy_label=buy_label)
            for n in range(2):
                page["consume"](page["conn"], message)
                self.assertEqual(
                    page["ship"](page["conn"], "order-17", carrier), b'{"order":"order-17","label":"label of order-17"}')
            self.assertEqual((message.acknowledged, len(calls)), (2, 1))
        for table, rows in ("charges", 2), ("outgoing_mails", 1), ("shipments", 1):
            self.assertEqual(self.admin.execute(f"SELECT count(*) FROM {table}").fetchone(), (rows,))


if __name__ == "__main__":
    unittest.main()
