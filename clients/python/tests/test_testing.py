import contextlib
import unittest
import uuid

import psycopg

import retrysafe
import retrysafe_testing as testing
from tests.kit import DATABASE, DRIVERS, Case, pay


def connect():
    return psycopg.connect(DATABASE)


class Testing(Case):
    def all_charges(self):
        return self.admin.execute("SELECT count(*) FROM charges").fetchone()[0]

    # A service behind the proxy with each mistake. Seen to fail with each fault taken out of check. No service here needs
    # the second request of behind_proxy: the test passes without it.
    def test_a_service(self):
        def charge(cursor):
            cursor.execute("INSERT INTO charges VALUES ('x')")

        def right(conn, cursor, lease):
            retrysafe.hold(conn, lease)
            charge(cursor)
            retrysafe.complete(conn, lease, "paid", 201)
            conn.commit()
            return 201

        def helper_commits(conn, cursor, lease):
            charge(cursor)
            conn.commit()
            retrysafe.complete(conn, lease, "paid", 201)
            conn.commit()
            return 201

        def with_hold(conn, cursor, lease):
            retrysafe.hold(conn, lease)
            return helper_commits(conn, cursor, lease)

        def swallows(conn, cursor, lease):
            charge(cursor)
            with contextlib.suppress(Exception):
                retrysafe.complete(conn, lease, "paid", 201)
            conn.commit()
            return 201

        def commits_late(conn, cursor, lease):
            charge(cursor)
            retrysafe.complete(conn, lease, "paid", 201)
            with contextlib.suppress(Exception):
                conn.commit()
            return 201

        def refuses(conn, cursor, lease):
            charge(cursor)
            conn.commit()
            return 500

        def other_connection(conn, cursor, lease):
            retrysafe.hold(conn, lease)
            charge(cursor)
            with contextlib.closing(connect()) as other:
                retrysafe.complete(other, lease, "paid", 201)
                other.commit()
            conn.commit()
            return 201

        for service, wrong in [
            (right, None),
            (helper_commits, "an exception in complete: the call failed, and its effect stayed"),
            (with_hold, "no fault: the retry failed .*500"),
            (swallows, "an exception in complete: the service answered 201 and had not completed"),
            (commits_late, "a crash before COMMIT: the service answered 201 and had not completed"),
            (refuses, "no fault: the call failed, and its effect stayed"),
            (other_connection, "no fault: (the retry failed|the call was answered, and 0 effects were made)"),
        ]:
            def handle(lease):
                with contextlib.closing(connect()) as conn, conn.cursor() as cursor:
                    try:
                        return service(conn, cursor, lease)
                    except (psycopg.Error, retrysafe.Error):
                        return 500

            with self.subTest(service.__name__), contextlib.ExitStack() as stack:
                if wrong:
                    stack.enter_context(self.assertRaisesRegex(AssertionError, wrong))
                testing.check(connect, testing.behind_proxy(connect, handle), self.all_charges)

    def test_once(self):
        for driver, new in DRIVERS.items():
            def call(key):
                with contextlib.closing(new()) as conn:
                    return pay(conn, key).answer

            testing.check(connect, call, self.all_charges)

            def helper(key):
                with contextlib.closing(new()) as conn:
                    pay(conn, str(uuid.uuid4()))  # another operation, in every attempt
                    return call(key)

            self.assertRaisesRegex(AssertionError, "2 effects", testing.check, connect, helper, self.all_charges)

    # Each mistake is found. Seen to fail with the comparison of effects and that of answers taken out, and with the second
    # call after the first.
    def test_two_at_once(self):
        def each_has_its_own(key):
            with contextlib.closing(connect()) as conn:
                return pay(conn, str(uuid.uuid4()), answer=key).answer

        def looks_first(key):  # and claims too late
            with contextlib.closing(connect()) as conn:
                if self.charges(key):
                    return b"paid"
                with retrysafe.once(conn, "payments", str(uuid.uuid4())) as op:
                    op.conn.execute("INSERT INTO charges VALUES (%s)", [key])
                    op.complete("paid")
                return op.answer

        def another_answer(key):
            with contextlib.closing(connect()) as conn:
                pay(conn, key)
            return uuid.uuid4()

        def fails(key):
            raise ValueError("no stock")

        for wait in 0, 60:
            for driver, new in DRIVERS.items():
                def call(key):
                    with contextlib.closing(new()) as conn:
                        return pay(conn, key, wait=wait).answer

                testing.check_two_at_once(connect, call, self.all_charges)
        for call, wrong in [
            (each_has_its_own, "3 effects, not 1"), (looks_first, "2 effects, not 1"), (another_answer, "different answers"),
            (fails, "both failed .ValueError: no stock; ValueError"),
        ]:
            self.assertRaisesRegex(AssertionError, wrong, testing.check_two_at_once, connect, call, self.all_charges)
        testing.check_two_at_once(connect, testing.behind_proxy(connect, self.service), self.all_charges)

    def service(self, lease):
        with contextlib.closing(connect()) as conn:
            retrysafe.hold(conn, lease)
            conn.execute("INSERT INTO charges VALUES ('x')")
            retrysafe.complete(conn, lease, "paid", 201)
            conn.commit()
        return 201

    # Seen to fail with each comparison taken out.
    def test_a_completed_key(self):
        def call(key, request, change=lambda answer: answer):
            with contextlib.closing(connect()) as conn:
                return change(pay(conn, key, request).answer)

        def rows():
            return self.admin.execute("SELECT * FROM charges ORDER BY id").fetchall()

        for driver, new in DRIVERS.items():
            testing.check_completed(new, "payments", driver, lambda: call(driver, 1), rows, request=1)
        for key, work, wrong in [
            ("used before", lambda: call("other", 1), "the work ran again"),
            ("another request", lambda: call("another request", 2), "the call failed .Mismatch"),
            ("another answer", lambda: call("another answer", 1, len), "returned 23, not the stored answer"),
        ]:
            self.assertRaisesRegex(
                AssertionError, wrong, testing.check_completed, connect, "payments", key, work, rows, request=1)
        self.assertRaisesRegex(
            AssertionError, "completed before", testing.check_completed, connect, "payments", "other", None, rows, request=1)

    def test_an_operation_that_is_to_fail(self):
        def call(key):
            raise ValueError("no stock")

        testing.check(connect, call, self.all_charges, succeeds=False)
        self.assertRaisesRegex(AssertionError, "the retry failed .ValueError: no stock", testing.check, connect, call, self.all_charges)
