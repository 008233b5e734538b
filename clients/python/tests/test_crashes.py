"""Processes that are killed and paused. Each key must be charged once, and each call must get the one answer."""

import contextlib
import os
import pickle
import random
import select
import signal
import time
import traceback
import unittest
import uuid

import psycopg
import psycopg2
import psycopg2.extensions

import retrysafe
from tests.kit import BOUNCER, DATABASE, Case, charge

EXPIRE = "UPDATE retrysafe.claims SET ends_at = retrysafe.clock() WHERE id = %s AND state = 1"
KILLS = int(os.environ["RETRYSAFE_TEST_KILLS"])


class Boundaries:
    """Boundaries sends this process a signal before its n-th message to the database, counted from 1. The end of the call
    counts as one more."""

    def __init__(self, n=0, number=signal.SIGKILL):
        self.left, self.number = n, number

    def pass_(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)

    def around(self, function):
        def call(*args, **kwargs):
            self.pass_()
            return function(*args, **kwargs)

        return call

    def connect(self, driver, autocommit, url=DATABASE):
        """Return a connection with boundaries around COMMIT. _call has them around all other messages."""
        base = {"psycopg": psycopg.Connection, "psycopg2": psycopg2.extensions.connection}[driver]
        kind = type("Connection", (base,), {"commit": lambda conn: self.around(super(kind, conn).commit)()})
        if driver == "psycopg":
            conn = kind.connect(url, prepare_threshold=None)
        else:
            conn = psycopg2.connect(url, connection_factory=kind)
        conn.autocommit = autocommit
        return conn


def order(conn, key, boundaries, **options):
    """Work with a step: each order has two charges."""
    with retrysafe.once(conn, "orders", key, key, **options) as op:
        if not op.done:
            op.step("reserve", lambda: charge(op, key) or "reserved")
            boundaries.around(charge)(op, key)
            op.complete(str(uuid.uuid4()))
    return op.answer


class Child:
    """Child is a process that calls a function. It ends without cleaning up what it has inherited."""

    def __init__(self, function):
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            with open(write, "wb", buffering=0) as out:
                try:
                    function(lambda value: out.write(pickle.dumps(value)))
                except BaseException:
                    out.write(pickle.dumps(traceback.format_exc()))
                os._exit(0)
        os.close(write)
        self.output = open(read, "rb")

    def wait(self, options=0):
        return os.waitpid(self.pid, options)[1]

    def said(self):
        """Return all that the process has sent, once it has ended."""
        values = []
        with self.output, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                values.append(pickle.load(self.output))
        return values


def each_boundary(*variants):
    def decorate(test):
        def run(self):
            for driver, autocommit in variants:
                n = 1
                while self.at(n, driver, autocommit, test):
                    n += 1
                self.assertGreater(n, 6)

        return run

    return decorate


class Crashes(Case):
    def at(self, n, driver, autocommit, test):
        """Run test for a process that gets a signal at the n-th boundary. It returns False if there are fewer."""
        key = f"{self.id()} {driver} {autocommit} {n}"
        with self.subTest(key):
            conn = self.opened(psycopg.connect(DATABASE))
            reached = test(self, key, n, driver, autocommit, conn)
            answer = order(conn, key, Boundaries(), wait=60)
            self.assertEqual(order(conn, key, Boundaries()), answer)
            self.assertEqual(self.charges(key), 2)
            conn.close()
            return reached
        return False

    def child(self, key, driver, autocommit, boundaries):
        def function(say):
            retrysafe._call = boundaries.around(retrysafe._call)
            conn = boundaries.connect(driver, autocommit)
            answer = order(conn, key, boundaries)
            boundaries.pass_()
            say(answer)

        return Child(function)

    # Seen to fail with the charge committed before complete (an order has three), and with complete committed before the
    # block has ended.
    @each_boundary(("psycopg", False), ("psycopg", True), ("psycopg2", False), ("psycopg2", True))
    def test_killed_at_each_boundary(self, key, n, driver, autocommit, conn):
        child = self.child(key, driver, autocommit, Boundaries(n))
        killed = os.WIFSIGNALED(child.wait())
        said = child.said()
        self.admin.execute(EXPIRE, [key.encode()])  # this waits until the server has noticed
        self.assertEqual([order(conn, key, Boundaries(), wait=60)] if not killed else [], said)
        return killed

    # A process that is paused at a boundary, until another one has taken over. Seen to fail with LeaseLost suppressed in
    # complete, and with the charge committed before complete.
    @each_boundary(("psycopg", True), ("psycopg2", False))
    def test_paused_at_each_boundary(self, key, n, driver, autocommit, conn):
        child = self.child(key, driver, autocommit, Boundaries(n, signal.SIGSTOP))
        stopped = os.WIFSTOPPED(child.wait(os.WUNTRACED))
        if stopped:
            with contextlib.suppress(psycopg.errors.LockNotAvailable), self.admin.transaction():
                self.admin.execute("SET LOCAL lock_timeout = '20ms'")  # it may hold the row
                self.admin.execute(EXPIRE, [key.encode()])
            with contextlib.suppress(retrysafe.InFlight):
                order(conn, key, Boundaries())
            os.kill(child.pid, signal.SIGCONT)
            child.wait()
        (said,) = child.said()
        if isinstance(said, str):
            self.assertRegex(said, "LeaseLost|InFlight")
        else:
            self.assertEqual(said, order(conn, key, Boundaries(), wait=60))
        return stopped

    # Processes that work on the same orders, killed and paused at any moment. Seen to fail with the charge committed
    # before complete: two of 30 orders had three.
    def test_killed_and_paused_at_random(self):
        keys = [f"{self.id()} {n}" for n in range(KILLS // 2)]
        children, answers, kills, pauses = [], [], 0, 0

        def work(say):
            random.seed()
            while True:
                boundaries = Boundaries()
                conn = boundaries.connect(
                    random.choice(["psycopg", "psycopg2"]), random.random() < 0.5, random.choice([DATABASE, BOUNCER]))
                if type(conn).__mro__[1].__module__ == "psycopg":
                    conn.isolation_level = random.choice([None, 2, 3, 4])
                with contextlib.closing(conn):
                    for key in random.sample(keys, 10):
                        try:
                            say((key, order(conn, key, boundaries, lease=0.2, wait=1)))
                        except (retrysafe.InFlight, retrysafe.LeaseLost):
                            pass
                        except (psycopg.Error, psycopg2.Error) as e:
                            if retrysafe._sqlstate(e) not in retrysafe._RETRYABLE:
                                raise

        def reap(child):
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            answers.extend(child.said())

        for n in range(4):
            children.append(Child(work))
        while kills < KILLS:
            select.select([], [], [], random.uniform(0, 0.04))
            child = children.pop(random.randrange(len(children)))
            if random.random() < 0.1:
                pauses += 1
                os.kill(child.pid, signal.SIGSTOP)
                select.select([], [], [], 0.25)  # longer than a lease
                os.kill(child.pid, signal.SIGCONT)
                children.append(child)
                continue
            kills += 1
            reap(child)
            children.append(Child(work))
        for child in children:
            reap(child)
        conn = self.opened(psycopg.connect(DATABASE))
        for key in keys:
            answers.append((key, order(conn, key, Boundaries(), wait=60)))
        failures = [a for a in answers if isinstance(a, str)]
        self.assertEqual(failures, [])
        self.assertEqual(len(set(answers)), len(keys), "each order has one answer")
        self.assertEqual(
            self.admin.execute("SELECT n, count(*) FROM (SELECT count(*) AS n FROM charges GROUP BY id) x GROUP BY n").fetchall(),
            [(2, len(keys))])
        print(f"{len(keys)} orders, {len(answers)} answers, {kills} kills, {pauses} pauses")


if __name__ == "__main__":
    unittest.main()
