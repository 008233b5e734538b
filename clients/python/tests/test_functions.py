import asyncio
import datetime
import hashlib
import json
import pathlib
import unittest

import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras

import retrysafe
from tests.kit import DATABASE, DRIVERS, Case, charge, each, pay


class Functions(Case):
    """The functions for work behind the proxy, and for attempts that claim has made."""

    # Seen to fail with the cursor's connection not looked for.
    @each
    def test_complete_and_fail(self, name, conn):
        for n, (verb, code) in enumerate([("complete", 200), ("fail", 422)]):
            key = f"{name} {verb}"
            lease = retrysafe.claim(self.admin, "payments", key).lease
            conn.autocommit = False
            cursor = conn.cursor()
            cursor.execute("INSERT INTO charges VALUES (%s)", [key])
            stored = getattr(retrysafe, verb)(cursor, lease, {"n": n}, headers=["X: y"], keep=datetime.timedelta(hours=1))
            conn.rollback()
            self.assertEqual((stored, self.records(key)), (b'{"n":%d}' % n, ["pending"]))
            retrysafe.hold(cursor, lease)
            with self.assertRaisesRegex(Exception, "has not completed the key"):
                conn.commit()
            conn.rollback()
            retrysafe.hold(conn, lease)
            getattr(retrysafe, verb)(conn, lease, {"n": n}, headers=["X: y"])
            getattr(retrysafe, verb)(conn, lease, {"n": n}, headers=["X: y"])  # again, with the same answer
            conn.commit()
            op = pay(conn, key)
            self.assertEqual((op.answer, op.code, op.headers, op.failed), (stored, code, ["X: y"], verb == "fail"))
            self.assertEqual(self.charges(key), 0)
            conn.autocommit = "autocommit True" in name

    @each
    def test_release_and_extend(self, name, conn):
        lease = retrysafe.claim(self.admin, "payments", name, lease=5).lease
        retrysafe.extend(conn, lease, 500)
        conn.commit()
        with self.assertRaises(retrysafe.InFlight) as caught:
            pay(conn, name)
        self.assertGreater(caught.exception.retry_after, 400)
        retrysafe.release(conn, lease)
        conn.commit()
        self.assertFalse(pay(conn, name).replayed)

    # Seen to fail with LeaseLost taken out of _ERRORS, with the hint left out, with a lease of None left out of the call
    # (then there is no such function), and with the driver's own error for a function that is missing: that of psycopg2
    # shows the lease.
    @each
    def test_errors_say_what_to_do(self, name, conn):
        conn.autocommit = False
        lease = retrysafe.claim(self.admin, "payments", name).lease
        for error, sqlstate, text, call in [
            (retrysafe.InvalidLease, "RS002", "not a lease token; .*Retrysafe-Lease", lambda: retrysafe.complete(conn, "v1.x", "")),
            (retrysafe.InvalidLease, "RS002", "not a lease token; .*Retrysafe-Lease", lambda: retrysafe.complete(conn, None, "")),
            (retrysafe.InvalidLease, "RS002", "not a lease token; .*Retrysafe-Lease", lambda: retrysafe.release(conn, None)),
            (retrysafe.NoSuchClaim, "RS003", "no such claim; .*Roll back", lambda: retrysafe.complete(conn, "v1." + "A" * 54, "")),
            (retrysafe.InvalidArgument, "RS006", "code 99; ", lambda: retrysafe.complete(conn, lease, "", 99)),
            (retrysafe.AnswerConflict, "RS004", "another answer; ",
             lambda: [retrysafe.hold(conn, lease)] + [retrysafe.complete(conn, lease, a) for a in "ab"]),
            (retrysafe.Error, "42883", "does not exist", lambda: retrysafe.complete(conn, lease, "", schema="public")),
            (retrysafe.Error, "3F000", "does not exist", lambda: retrysafe.complete(conn, lease, "", schema='no "such" %s')),
        ]:
            with self.assertRaisesRegex(error, text) as caught:
                call()
            conn.rollback()
            self.assertIs(type(caught.exception), error)
            self.assertEqual(caught.exception.sqlstate, sqlstate)
            self.assertNotIn(lease, str(caught.exception))
            self.assertIsNone(caught.exception.__cause__)
        retrysafe.release(conn, lease)
        conn.commit()
        self.assertRaises(retrysafe.LeaseLost, retrysafe.complete, conn, pay(conn, name) and lease, "")
        conn.rollback()
        conn.autocommit = "autocommit True" in name

    # The proxy completes a key by itself if the service does not, so that what is written outside of the transaction
    # would be neither undone nor refused. Seen to fail with _in_transaction taken out.
    def test_outside_of_a_transaction(self):
        for driver, connect in DRIVERS.items():
            conn = self.opened(connect(autocommit=True))
            lease = retrysafe.claim(conn, "payments", f"{self.id()} {driver}").lease
            for call in (
                lambda: retrysafe.complete(conn, lease, ""), lambda: retrysafe.fail(conn, lease, ""),
                lambda: retrysafe.save_step(conn, lease, "a", "b"), lambda: retrysafe.hold(conn, lease),
            ):
                self.assertRaisesRegex(retrysafe.NoTransaction, "BEGIN first", call)

    def test_connections_that_are_none(self):
        for conn in None, 1, object(), psycopg2.extras.RealDictCursor:
            self.assertRaisesRegex(TypeError, "not a connection or cursor of psycopg", retrysafe.release, conn, "")

        async def connect():
            async with await psycopg.AsyncConnection.connect(DATABASE) as conn:
                self.assertRaisesRegex(TypeError, "AsyncConnection is not .*asynchronous", pay, conn, "x")

        asyncio.run(connect())

    def test_keys_that_are_none(self):
        for scope, key, text in ("s", 1, "key must be a str or bytes, not int"), (None, "k", "scope must be"):
            with self.assertRaisesRegex(TypeError, text):
                retrysafe.claim(self.admin, scope, key)
        self.assertRaisesRegex(retrysafe.InvalidArgument, "the id needs 1 to 1024 bytes", retrysafe.claim, self.admin, "s", "")
        self.assertRaisesRegex(retrysafe.InvalidArgument, "must be positive", pay, self.admin, "k", lease=0)

    # Seen to fail with the connection's own kind of rows.
    def test_rows_of_another_kind(self):
        for name, conn in [
            ("psycopg", psycopg.connect(DATABASE, row_factory=psycopg.rows.dict_row)),
            ("psycopg2", psycopg2.connect(DATABASE, cursor_factory=psycopg2.extras.RealDictCursor)),
        ]:
            self.opened(conn)
            for replayed in False, True:
                self.assertEqual(pay(conn, f"{self.id()} {name}").replayed, replayed)

    # Seen to fail with the lease in repr.
    def test_nothing_shows_leases_keys_or_answers(self):
        conn = self.opened(DRIVERS["psycopg2"]())
        with retrysafe.once(conn, "payments", "secret-key") as op:
            op.complete("secret-answer")
            self.assertNotIn("secret", repr(op))
            self.assertNotIn(op.lease, repr(op))


class Long(Case):
    """Work that takes long, and work in steps."""

    # Seen to fail with the step in the transaction of the block, with the check that it comes first taken out, with
    # child_key in a transaction of its own (what the step had written before stayed when it failed), and with _held_by kept
    # in the step: extend called hold there.
    @each
    def test_a_saved_step_does_not_run_again(self, name, conn):
        ran, faults = [], []

        def reserve(op):
            op.extend(50)
            charge(op, name)
            ran.append(op.child_key("reserve"))
            if len(ran) == 1:
                raise ConnectionError("before the step is saved")
            return {"reserved": len(ran)}

        def order():
            with retrysafe.once(conn, "orders", name) as op:
                result = op.step("reserve", lambda: reserve(op))
                self.assertEqual(self.charges(name), 1)
                op.extend(60)
                charge(op, name)
                self.assertEqual(op.child_key("reserve"), ran[0])
                self.assertRaisesRegex(retrysafe.Misuse, "before the block writes", op.step, "late", str)
                if not faults:
                    faults.append(1)
                    raise ConnectionError("after the step is saved")
                op.complete(result)
            return op.answer

        for text in "before", "after":
            self.assertRaisesRegex(ConnectionError, text, order)
        self.assertEqual(order(), b'{"reserved":2}')
        self.assertEqual((len(ran), len(set(ran)), self.charges(name)), (2, 1, 2))

    # The file has the child keys of Go and Node. Seen to fail with the HMAC taken out of _child, and with the whole of it.
    def test_child_keys_are_those_of_other_languages(self):
        vectors = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "childkeys.json"
        for v in json.loads(vectors.read_text(encoding="utf-8")):
            for secret in {v["secret"] or None, v["secret"].encode() or None}:
                op = retrysafe.claim(self.admin, v["scope"], v["id"], child_secret=secret)
                self.assertEqual(op.child_key(v["name"]), v["key"])
                self.assertEqual(retrysafe.child_key(self.admin, op.lease, v["name"], child_secret=secret), v["key"])
                self.assertEqual(retrysafe.child_key(self.admin, op.lease, v["name"]), v["child"])
                self.assertNotIn(repr(secret), repr(op))
                retrysafe.release(self.admin, op.lease)
                with retrysafe.once(self.admin, v["scope"], v["id"], child_secret=secret) as op:
                    self.assertEqual(op.child_key(v["name"]), v["key"])
                    op.release()

    # The file has what Go and Node keep and refuse.
    def test_tags_are_those_of_other_languages(self):
        table = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "tags.json"
        for n, c in enumerate(json.loads(table.read_text(encoding="utf-8"))):
            for conn in self.admin, self.opened(DRIVERS["psycopg2"]()):
                for call in "claim", "once":
                    key = f"{self.id()} {n} {call} {id(conn)}"
                    try:
                        if call == "claim":
                            retrysafe.claim(conn, "tagged", key, tags=c["tags"])
                        else:
                            with retrysafe.once(conn, "tagged", key, tags=c["tags"]) as op:
                                op.complete("")
                    except retrysafe.InvalidArgument as e:
                        self.assertIn(c["error"], str(e))
                        self.assertNotIn("secret", str(e))
                        continue
                    self.assertNotIn("error", c)
                    with self.admin.cursor() as cursor:
                        cursor.execute("SELECT tags FROM retrysafe.records WHERE scope = 'tagged' AND id = %s", [key])
                        self.assertEqual(cursor.fetchone()[0] or "", c["text"])

    # A variable that is missing in the environment gives an empty secret. Seen to fail with "not secret" for "is None".
    def test_secrets_that_are_too_short(self):
        lease = retrysafe.claim(self.admin, "payments", self.id()).lease
        for secret in "", b"", b"15 bytes are no", "ü" * 7:
            for call in (
                lambda: retrysafe.child_key(self.admin, lease, "a", child_secret=secret),
                lambda: pay(self.admin, f"{self.id()} b", child_secret=secret),
            ):
                self.assertRaisesRegex(retrysafe.InvalidArgument, r"child_secret has \d+ bytes, and needs 16", call)
        self.assertRaises(TypeError, retrysafe.child_key, self.admin, lease, "a", child_secret=16)
        self.assertEqual(self.records(f"{self.id()} b"), [])

    # The transaction is the caller's own. Seen to fail with child_key in a transaction of its own.
    @each
    def test_a_child_key_commits_nothing(self, name, conn):
        op = retrysafe.claim(conn, "payments", name)
        child = op.child_key("a")
        self.assertEqual(conn.info.transaction_status, 0)
        conn.autocommit, autocommit = False, conn.autocommit
        charge(op, name)
        self.assertEqual(op.child_key("a"), child)
        conn.rollback()
        conn.autocommit = autocommit
        self.assertEqual(self.charges(name), 0)

    # Seen to fail with the connection of the block in a transaction too: what the block has written is committed; and
    # without the hold after it: what a helper commits is.
    @each
    def test_extend(self, name, conn):
        with retrysafe.once(conn, "payments", name, lease=5) as op:
            for lease in 500, datetime.timedelta(seconds=5000):
                op.extend(lease)
                with self.assertRaises(retrysafe.InFlight) as caught:
                    pay(self.admin, name)
                self.assertGreater(caught.exception.retry_after, 400)
                self.assertEqual(self.charges(name), 0)
                charge(op, name)
            self.assertGreater(caught.exception.retry_after, 4000)
            op.complete("")
        self.assertEqual(self.charges(name), 2)

    # Seen to fail without the look at done: extend waited on another connection for this one, for ever; without a write
    # before it, both had rolled back what complete had written.
    @each
    def test_extend_and_step_after_complete(self, name, conn):
        for n, end in enumerate([retrysafe.Operation.complete, retrysafe.Operation.fail]):
            for writes in False, True:
                key = f"{name} {n} {writes}"
                with retrysafe.once(conn, "payments", key) as op:
                    if writes:
                        charge(op, key)
                    end(op, "answer")
                    self.assertRaisesRegex(retrysafe.Misuse, "op.extend before", op.extend, 50)
                    self.assertRaisesRegex(retrysafe.Misuse, "op.step before", op.step, "late", str)
                self.assertEqual((op.answer, op.failed, self.charges(key)), (b"answer", n == 1, int(writes)))

    def test_an_answer_that_is_not_kept(self):
        pay(self.admin, self.id())
        self.admin.execute("DELETE FROM retrysafe.results")
        op = pay(self.admin, self.id())
        self.assertTrue(op.done)
        self.assertRaises(retrysafe.AnswerGone, lambda: op.answer)

    # AnswerGone would be taken for a success: the queues acknowledged such a message, and it was not among the dead ones.
    # Seen to fail with op.answer in the error of _repeat.
    def test_a_failure_whose_answer_is_not_kept(self):
        def refuse(op):
            raise retrysafe.Failed("refused", 402)

        for answer in b"refused", b"":
            with self.assertRaises(retrysafe.Failed) as caught:
                retrysafe.run(self.admin, "payments", self.id(), None, refuse)
            self.assertEqual((caught.exception.answer, caught.exception.code), (answer, 402))
            self.admin.execute("DELETE FROM retrysafe.results")


class Run(Case):
    # Seen to fail with 40001 not among the errors after which work runs again.
    @each
    def test_work_runs_again_after_a_serialization_failure(self, name, conn):
        runs = []

        def work(op):
            runs.append(op.attempt)
            charge(op, name)
            if len(runs) < 3:
                with op.conn.cursor() as cursor:
                    cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{['40001', '40P01'][len(runs) - 1]}'; END $$")
            return [len(runs)]

        for _ in range(2):
            self.assertEqual(retrysafe.run(conn, "payments", name, None, work), b"[3]")
        self.assertEqual((len(runs), self.charges(name)), (3, 1))

    # Seen to fail with LeaseLost not among them.
    @each
    def test_work_whose_lease_was_lost_gets_the_answer_of_the_other(self, name, conn):
        def work(op):
            charge(op, name)
            self.expire(name)
            pay(self.admin, name, answer="theirs")
            return "mine"

        self.assertEqual(retrysafe.run(conn, "payments", name, None, work), b"theirs")
        self.assertEqual(self.charges(name), 1)

    # Seen to fail with every error among them.
    @each
    def test_other_errors_are_not_repeated(self, name, conn):
        runs = []

        def work(op):
            runs.append(1)
            raise ValueError("mine")

        self.assertRaisesRegex(ValueError, "mine", retrysafe.run, conn, "payments", name, None, work)
        self.assertEqual((self.records(name), runs), ([], [1]))

    # Seen to fail with defaults not applied, and with the failure returned.
    @each
    def test_idempotent(self, name, conn):
        @retrysafe.idempotent("payments", key="order")
        def pay(op, order, amount, currency="EUR"):
            """Pay an order."""
            charge(op, order)
            if amount > 100:
                raise retrysafe.Failed({"error": "too much"}, 402)
            return {"order": order, "amount": amount}

        self.assertEqual((pay.__name__, pay.__doc__), ("pay", "Pay an order."))
        answer = pay(conn, name, 5)
        self.assertEqual(json.loads(answer), {"order": name, "amount": 5})
        self.assertEqual(pay(conn, amount=5, order=name, currency="EUR"), answer)
        self.assertRaises(retrysafe.Mismatch, pay, conn, name, 6)
        self.assertEqual(self.charges(name), 1)
        for _ in range(2):
            with self.assertRaises(retrysafe.Failed) as caught:
                pay(conn, name + " much", 500)
            self.assertEqual((caught.exception.code, caught.exception.answer), (402, b'{"error":"too much"}'))
        self.assertEqual(self.charges(name + " much"), 0)

    @each
    def test_idempotent_with_functions(self, name, conn):
        @retrysafe.idempotent("payments", key=lambda order: f"{name} {order['id']}", request=lambda order: order["sum"], wait=1)
        def pay(op, order):
            return order["note"]

        self.assertEqual(pay(conn, {"id": 1, "sum": 2, "note": "a"}), b"a")
        self.assertEqual(pay(conn, {"id": 1, "sum": 2, "note": "b"}), b"a")
        self.assertRaisesRegex(TypeError, "pay has no parameter 'ordr'", retrysafe.idempotent("s", key="ordr"), pay)


class Fingerprint(unittest.TestCase):
    # The digests are those of sha256sum. Seen to fail with keys in their own order, with spaces, and with ASCII.
    def test_fingerprints_stay_as_they_are(self):
        for request, text in [(b"\xff", b"\xff"), ("ü", "ü".encode()), ({"b": 1.5, "a": ["ü", None]}, '{"a":["ü",null],"b":1.5}'.encode())]:
            self.assertEqual(retrysafe.fingerprint(request), hashlib.sha256(text).digest())
        self.assertEqual(retrysafe.fingerprint(None), b"")
        self.assertRaises(ValueError, retrysafe.fingerprint, float("nan"))
        self.assertRaisesRegex(TypeError, "datetime is not JSON", retrysafe.fingerprint, datetime.datetime(2026, 1, 1))

    # The file has what the client for Node takes for the same requests.
    def test_fingerprints_are_those_of_other_languages(self):
        vectors = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "fingerprints.json"
        for vector in json.loads(vectors.read_text(encoding="utf-8")):
            self.assertEqual(
                retrysafe.fingerprint(vector["request"]), hashlib.sha256(vector["canonical"].encode()).digest(), vector)

    # The keys are those of the client for Node. Seen to fail with the secret ignored, and with names in their own order.
    def test_keys_of_contents(self):
        parts = ["order", "ålice", [{"sku": "a", "n": 2}], 1.5, None]
        self.assertEqual(retrysafe.content_key(*parts), "5c3274ed3cc3e6bba8cc0b43e6b9b82fa17d4ee4e69345ad855b0f3dd0f7801e")
        self.assertEqual(
            retrysafe.content_key(*parts, secret="0123456789abcdef"),
            "9c958e4daadbe0d633734bfb5254c217145bd01700cf3c527618a6607bdda2b1")
        self.assertEqual(retrysafe.content_key({"a": 1, "b": 2}), retrysafe.content_key({"b": 2, "a": 1}))
        self.assertNotEqual(retrysafe.content_key("ab", "c"), retrysafe.content_key("a", "bc"))
        self.assertRaises(retrysafe.InvalidArgument, retrysafe.content_key)
        self.assertRaises(retrysafe.InvalidArgument, retrysafe.content_key, "a", secret="short")


if __name__ == "__main__":
    unittest.main()
