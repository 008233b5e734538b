"""What the tests share. The Go test in integration/clientlibs starts the servers and runs them."""

import contextlib
import functools
import itertools
import os
import socket
import threading
import unittest
import urllib.parse

import psycopg
import psycopg2

import retrysafe

DATABASE = os.environ["RETRYSAFE_TEST_DATABASE"]
BOUNCER = os.environ["RETRYSAFE_TEST_BOUNCER"]


def psycopg3(url=DATABASE, autocommit=False):
    # PgBouncer in transaction mode changes the server's connection, and with it the prepared statements.
    return psycopg.connect(url, autocommit=autocommit, prepare_threshold=None)


def psycopg2_(url=DATABASE, autocommit=False):
    conn = psycopg2.connect(url)
    conn.autocommit = autocommit
    return conn


DRIVERS = {"psycopg": psycopg3, "psycopg2": psycopg2_}


def each(test):
    """each runs a test with each driver, in autocommit and not, directly and through PgBouncer."""

    @functools.wraps(test)
    def run(self):
        for (driver, connect), autocommit, url in itertools.product(DRIVERS.items(), (False, True), (DATABASE, BOUNCER)):
            name = f"{self.id()}: {driver}, autocommit {autocommit}, {'directly' if url == DATABASE else 'PgBouncer'}"
            with self.subTest(name):
                conn = connect(url, autocommit)
                try:
                    test(self, name, conn)
                    self.assertEqual(conn.info.transaction_status, 0, "a transaction is open")
                    self.assertEqual(conn.autocommit, autocommit)
                finally:
                    conn.close()

    return run


class Case(unittest.TestCase):
    """Case has a table of charges."""

    def setUp(self):
        self.admin = self.opened(psycopg.connect(DATABASE, autocommit=True))
        self.admin.execute("DROP TABLE IF EXISTS charges; CREATE TABLE charges (id text NOT NULL)")

    def opened(self, conn):
        self.addCleanup(conn.close)
        return conn

    def expire(self, key):
        """End the lease of a key, as if its time had passed."""
        done = self.admin.execute("UPDATE retrysafe.claims SET ends_at = retrysafe.clock() WHERE id = %s", [key.encode()])
        self.assertEqual(done.rowcount, 1)

    def charges(self, key):
        return self.admin.execute("SELECT count(*) FROM charges WHERE id = %s", [key]).fetchone()[0]

    def records(self, key):
        return [state for (state,) in self.admin.execute("SELECT state FROM retrysafe.records WHERE id = %s", [key])]


def charge(op, key):
    with op.conn.cursor() as cursor:
        cursor.execute("INSERT INTO charges VALUES (%s)", [key])


def pay(conn, key, request=None, answer=b'{"paid": true}', **options):
    with retrysafe.once(conn, "payments", key, request, **options) as op:
        if not op.done:
            charge(op, key)
            op.complete(answer)
    return op


class Cut:
    """Cut is a network in front of the database. Once armed, it breaks the next connection that sends COMMIT: before the
    server gets it, or after, so that the client does not get the answer."""

    def __init__(self, case, before):
        target = urllib.parse.urlsplit(DATABASE)
        self.before, self.armed, self.cut = before, False, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = target._replace(
            netloc=f"{target.username}:{target.password or ''}@127.0.0.1:{self.listener.getsockname()[1]}").geturl()
        self.target, self.sockets = (target.hostname, target.port or 5432), []
        threading.Thread(target=self._accept, daemon=True).start()
        case.addCleanup(self.close)

    def close(self):
        for s in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.target)
                self.sockets += [client, server]
                state = {"lost": False}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(*pair, client, state), daemon=True).start()

    def _copy(self, source, to, client, state):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source is client and b"COMMIT" in data and self.armed:
                    self.armed, state["lost"] = False, True
                    self.cut += 1
                    if self.before:
                        break
                elif state["lost"]:  # the answer
                    break
                to.sendall(data)
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
