"""What retrysafe.aio has of its own. The rules are coroutines of retrysafe, which test_once and its neighbours test."""

import asyncio
import functools
import itertools
import textwrap
import unittest
import unittest.mock

import psycopg

import retrysafe
import retrysafe_aio as aio
from tests.kit import BOUNCER, DATABASE, Case, Cut


def connect(url=DATABASE, autocommit=False):
    return psycopg.AsyncConnection.connect(url, autocommit=autocommit, prepare_threshold=None)


def each(test):
    """each runs a test in autocommit and not, directly and through PgBouncer."""

    @functools.wraps(test)
    async def run(self):
        for autocommit, url in itertools.product((False, True), (DATABASE, BOUNCER)):
            name = f"{self.id()}: autocommit {autocommit}, {'directly' if url == DATABASE else 'PgBouncer'}"
            with self.subTest(name):
                async with await connect(url, autocommit) as conn:
                    await test(self, name, conn)
                    self.assertEqual((conn.info.transaction_status, conn.autocommit), (0, autocommit))

    return run


async def charge(op, key):
    await op.conn.execute("INSERT INTO charges VALUES (%s)", [key])


async def pay(conn, key, **options):
    async with aio.once(conn, "payments", key, **options) as op:
        if not op.done:
            await charge(op, key)
            await op.complete({"paid": True})
    return op


class Aio(Case, unittest.IsolatedAsyncioTestCase):
    @each
    async def test_the_second_call_gets_the_answer_of_the_first(self, name, conn):
        first, again = await pay(conn, name), await pay(conn, name)
        self.assertEqual((first.answer, first.replayed, again.replayed), (b'{"paid":true}', False, True))
        self.assertEqual((again.answer, again.json(), self.charges(name)), (first.answer, {"paid": True}, 1))

    # A synchronous call gets the answer of an asynchronous one.
    @each
    async def test_both_kinds_share_keys(self, name, conn):
        await pay(conn, name)
        with retrysafe.once(self.admin, "payments", name) as op:
            self.assertEqual((op.replayed, op.answer), (True, b'{"paid":true}'))

    @each
    async def test_exceptions(self, name, conn):
        for error, take_over, records in [
            (ValueError(), True, []), (ValueError(), False, ["abandoned"]), (retrysafe.Unknown(), True, ["abandoned"]),
            (retrysafe.Retryable(), False, []), (asyncio.CancelledError(), True, []),
        ]:
            key = f"{name} {error!r} {take_over}"
            with self.assertRaises(type(error)):
                async with aio.once(conn, "payments", key, take_over=take_over) as op:
                    await charge(op, key)
                    await op.complete("")
                    raise error
            self.assertEqual((op.done, self.charges(key), self.records(key)), (False, 0, records))

    # psycopg 3.1.7 leaves the statement running. Seen to fail with _ACTIVE not looked for in _give_up: the key stays taken
    # until the lease ends, and the row is locked for a minute.
    async def test_a_task_that_is_cancelled_in_a_statement(self):
        for autocommit, url in itertools.product((False, True), (DATABASE, BOUNCER)):
            key = f"{self.id()} {autocommit} {url}"

            async def work():
                async with await connect(url, autocommit) as conn, aio.once(conn, "payments", key) as op:
                    await charge(op, key)
                    await op.complete("")
                    await op.conn.execute("SELECT pg_sleep(60)")

            task = asyncio.create_task(work())
            while not self.admin.execute("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'").rowcount:
                await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((self.charges(key), self.records(key)), (0, []))
            async with await connect() as conn:
                self.assertEqual((await pay(conn, key)).attempt, 1)

    # All in one thread: a call that waits lets the others run. Seen to fail with _is_async left out of _pause.
    @unittest.mock.patch("time.sleep", None)
    async def test_many_at_once(self):
        async def call(n):
            async with await connect() as conn:
                async def work(op):
                    await charge(op, "aio many")
                    await asyncio.sleep(0.1)
                    return n

                return await aio.run(conn, "payments", "aio many", None, work, wait=60)

        answers = await asyncio.gather(*[call(n) for n in range(8)])
        self.assertEqual((len(set(answers)), self.charges("aio many")), (1, 1))

    # Seen to fail without _exclusive.
    async def test_tasks_that_share_a_connection(self):
        async with await connect() as conn, aio.once(conn, "payments", "aio shared") as op:
            with self.assertRaisesRegex(retrysafe.Misuse, "used by another"):
                await asyncio.create_task(pay(conn, "aio shared 2"))
            await op.complete("")

    @each
    async def test_steps_failures_and_the_lease(self, name, conn):
        sent, failures = [], 1

        async def send(op):
            sent.append(await op.child_key("send"))
            await op.conn.execute("INSERT INTO charges VALUES ('step')")
            return "sent"

        async def work(op):
            nonlocal failures
            await op.extend(60)
            self.assertEqual(await op.step("send", lambda: send(op)), b"sent")
            self.assertEqual(await op.step("plain", lambda: "p"), b"p")
            await charge(op, name)
            await op.extend(60)
            if failures:
                failures -= 1
                raise ValueError("later")
            raise retrysafe.Failed("no money", 402)

        self.admin.execute("DELETE FROM charges")
        with self.assertRaisesRegex(ValueError, "later"):
            await aio.run(conn, "payments", name, None, work)
        for _ in range(2):
            with self.assertRaises(retrysafe.Failed) as caught:
                await aio.run(conn, "payments", name, None, work)
            self.assertEqual((caught.exception.code, caught.exception.answer), (402, b"no money"))
        self.assertEqual((len(sent), self.charges("step"), self.charges(name)), (1, 1, 0))

    @each
    async def test_the_functions_of_a_lease(self, name, conn):
        for verb in aio.complete, aio.fail:
            key = f"{name} {verb.__name__}"
            op = await aio.claim(conn, "payments", key)
            async with conn.transaction(), conn.cursor() as cursor:
                await aio.extend(conn, op.lease, 60)
                await aio.save_step(cursor, op.lease, "one", b"1")
            self.assertEqual(await aio.step(conn, op.lease, "one"), b"1")
            self.assertEqual(await aio.child_key(conn, op.lease, "one"), retrysafe.child_key(self.admin, op.lease, "one"))
            await conn.rollback()
            async with conn.transaction(), conn.cursor() as cursor:
                await aio.hold(cursor, op.lease)
                self.assertEqual(await verb(cursor, op.lease, {"a": 1}), b'{"a":1}')
            again = await aio.claim(conn, "payments", key)
            self.assertEqual((again.replayed, again.failed, again.json()), (True, verb is aio.fail, {"a": 1}))
        op = await aio.claim(conn, "payments", name)
        async with conn.transaction():
            await aio.release(conn, op.lease)
        self.assertEqual(self.records(name), [])

    async def test_idempotent(self):
        @aio.idempotent("payments", key="order")
        async def pay(op, order, amount=1):
            """Pays."""
            await charge(op, order)
            return {"amount": amount}

        async with await connect() as conn:
            for _ in range(2):
                self.assertEqual(await pay(conn, "aio decorated", amount=2), b'{"amount":2}')
            with self.assertRaises(retrysafe.Mismatch):
                await pay(conn, "aio decorated", 3)
        self.assertEqual((self.charges("aio decorated"), pay.__doc__), (1, "Pays."))

    # Seen to fail with _was_committed not awaited, and with the other connection not awaited.
    async def test_a_commit_whose_answer_is_lost(self):
        for before, charges in (False, 1), (True, 0):
            key, network = f"aio lost {before}", Cut(self, before)
            conn = await connect(network.url)
            try:
                async with aio.once(conn, "payments", key) as op:
                    await charge(op, key)
                    await op.complete("first")
                    network.armed = True
                self.assertFalse(before)
            except psycopg.OperationalError:
                self.assertTrue(before)
            await conn.close()
            self.assertEqual((self.charges(key), network.cut), (charges, 1))
            async with await connect() as conn:
                self.assertEqual((await pay(conn, key)).replayed, not before)

    async def test_a_connection_of_the_other_kind(self):
        async with await connect() as conn:
            with self.assertRaisesRegex(TypeError, "retrysafe.aio"):
                retrysafe.claim(conn, "payments", "aio kind")
            for other in self.admin, self.admin.cursor(), object():
                with self.assertRaisesRegex(TypeError, "not an AsyncConnection"):
                    await pay(other, "aio kind")

    # Seen to fail with a _run that closes the coroutine and returns None.
    async def test_a_coroutine_in_a_synchronous_block(self):
        async def work():
            await asyncio.sleep(0)

        with self.assertRaisesRegex(retrysafe.Misuse, "use retrysafe.aio"), retrysafe.once(self.admin, "payments", "aio sync") as op:
            op.step("one", work)
        self.assertEqual((self.records("aio sync"), self.admin.info.transaction_status), ([], 0))

    async def test_the_program_of_the_module(self):
        self.admin.execute("DROP TABLE charges; CREATE TABLE charges (order_id text, amount int)")
        program = {"aio": aio}
        exec(compile(textwrap.dedent(aio.__doc__.split("\n\n")[1]), "retrysafe_aio.py", "exec"), program)
        async with await connect() as conn:
            for _ in range(2):
                self.assertEqual(await program["pay"](conn, "o", 7), b'{"order":"o","status":"paid"}')


if __name__ == "__main__":
    unittest.main()
