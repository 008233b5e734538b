import contextlib
import unittest
import urllib.parse

import django
from django.conf import settings

import sqlalchemy
import sqlalchemy.orm

import retrysafe
from tests.kit import DATABASE, Case, Cut

url = urllib.parse.urlsplit(DATABASE)
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username, "PASSWORD": url.password or "",
    "HOST": url.hostname, "PORT": url.port or 5432}}, DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=True)
django.setup()

from django.db import connection, models, transaction  # noqa: E402


class DjangoCharge(models.Model):
    id = models.TextField(primary_key=True)

    class Meta:
        app_label, db_table, managed = "shop", "charges", False


class Django(Case):
    def setUp(self):
        super().setUp()
        connection.close()  # as in the first request of a process
        self.addCleanup(connection.close)

    def pay(self, key, **options):
        with retrysafe.once(connection, "payments", key, transaction=transaction.atomic, **options) as op:
            if not op.done:
                DjangoCharge.objects.bulk_create([DjangoCharge(id=key)])  # in an atomic block of Django's own
                transaction.on_commit(lambda: self.committed.append(key))
                self.assertEqual((self.charges(key), self.committed), (0, []))
                op.complete({"paid": key})
        return op

    # Seen to fail without the argument transaction: Django does not know of the transaction, and commits the charge by
    # itself.
    def test_once(self):
        self.committed = []
        for replayed in False, True:
            op = self.pay("order")
            self.assertEqual((op.json(), op.replayed, self.charges("order")), ({"paid": "order"}, replayed, 1))
        self.assertEqual((self.committed, connection.get_autocommit()), (["order"], True))
        with self.assertRaises(django.db.utils.IntegrityError):
            with retrysafe.once(connection, "payments", "2", transaction=transaction.atomic) as op:
                op.complete("")
                DjangoCharge.objects.create(id="2")
                connection.cursor().execute("INSERT INTO charges VALUES (NULL)")
        self.assertEqual((self.charges("2"), self.records("2")), (0, []))

    # Seen to fail with the check behind the transaction taken out: the call returns an answer that may be rolled back.
    def test_inside_of_atomic(self):
        self.committed = []
        with self.assertRaisesRegex(retrysafe.Misuse, "call it outside"), transaction.atomic():
            self.pay("3")
        self.assertEqual((self.charges("3"), self.committed), (0, []))
        with self.assertRaisesRegex(retrysafe.Misuse, "is in a transaction"), transaction.atomic():
            DjangoCharge.objects.create(id="3")
            self.pay("3")

    def test_final_failure(self):
        for replayed in False, True:
            with retrysafe.once(connection, "payments", "4", transaction=transaction.atomic) as op:
                if not op.done:
                    DjangoCharge.objects.create(id="4")
                    raise retrysafe.Failed("no")
            self.assertEqual((op.answer, op.replayed, self.charges("4")), (b"no", replayed, 0))

    # Django rolls back, without an error, if code of the block has asked for that, such as an inner atomic block without
    # a savepoint whose exception was caught. Seen to fail without the question about the transaction's end: once
    # returned an answer, and neither that nor the charge was committed.
    def test_a_rollback_of_the_framework(self):
        def asked(op):
            transaction.set_rollback(True)
            op.complete("")

        def inner(op):
            op.complete("")
            with contextlib.suppress(ValueError), transaction.atomic(savepoint=False):
                raise ValueError

        for n, work in enumerate([asked, inner]):
            key = f"rolled back {n}"
            with self.assertRaisesRegex(retrysafe.Misuse, "was rolled back"):
                with retrysafe.once(connection, "payments", key, transaction=transaction.atomic) as op:
                    DjangoCharge.objects.create(id=key)
                    work(op)
            self.assertEqual((op.done, self.charges(key), self.records(key)), (False, 0, []))
        self.committed = []
        self.assertEqual((self.pay(key).json(), self.charges(key)), ({"paid": key}, 1))

    def test_behind_the_proxy(self):
        for n, conn in enumerate([connection, connection.cursor()]):
            lease = retrysafe.claim(self.admin, "payments", f"5 {n}").lease
            self.assertRaises(retrysafe.NoTransaction, retrysafe.complete, conn, lease, "")
            # A view with "ATOMIC_REQUESTS" that returns an error commits. Seen to fail without hold.
            with self.assertRaisesRegex(django.db.Error, "has not completed the key"), transaction.atomic():
                retrysafe.hold(conn, lease)
                DjangoCharge.objects.create(id="5")
            with transaction.atomic():
                DjangoCharge.objects.create(id="5")
                self.assertEqual(retrysafe.complete(conn, lease, {"paid": 5}), b'{"paid":5}')
            self.assertEqual((self.records(f"5 {n}"), self.charges("5")), (["succeeded"], n + 1))


Base = sqlalchemy.orm.declarative_base()


class Charge(Base):
    __tablename__ = "charges"
    id = sqlalchemy.Column(sqlalchemy.Text, primary_key=True)


class SQLAlchemy(Case):
    def engine(self, database=DATABASE):
        engine = sqlalchemy.create_engine("postgresql+psycopg2" + database[database.index(":"):], future=True)
        self.addCleanup(engine.dispose)
        return engine

    def pay(self, engine, key, at_end=lambda: None):
        with engine.connect() as conn, sqlalchemy.orm.Session(conn, future=True) as session:
            with retrysafe.once(conn, "payments", key, transaction=session.begin) as op:
                if not op.done:
                    session.add(Charge(id=key))  # flushed by the COMMIT
                    op.complete({"paid": key})
                    at_end()
        return op

    # Seen to fail without the argument transaction: the charge is not flushed.
    def test_once_with_a_session(self):
        engine = self.engine()
        for replayed in False, True:
            op = self.pay(engine, "6")
            self.assertEqual((op.json(), op.replayed, self.charges("6")), ({"paid": "6"}, replayed, 1))

    def test_a_lost_commit(self):
        for before in False, True:
            key = f"lost {before}"
            network = Cut(self, before)
            engine = self.engine(network.url)
            try:
                op = self.pay(engine, key, lambda: setattr(network, "armed", True))
                self.assertEqual((op.json(), before), ({"paid": key}, False))
            except sqlalchemy.exc.OperationalError:
                self.assertTrue(before)
            self.assertEqual((network.cut, self.charges(key)), (1, 0 if before else 1))
            self.assertEqual((self.pay(engine, key).json(), self.charges(key)), ({"paid": key}, 1))

    def test_work_runs_again_after_a_serialization_failure(self):
        runs = []
        with self.engine().connect() as conn:
            def work(op):
                runs.append(1)
                conn.execute(sqlalchemy.text("INSERT INTO charges VALUES ('7')"))
                if len(runs) < 3:
                    conn.execute(sqlalchemy.text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"))
                return runs

            self.assertEqual(retrysafe.run(conn, "payments", "7", None, work, transaction=conn.begin), b"[1,1,1]")
        self.assertEqual(self.charges("7"), 1)

    def test_behind_the_proxy(self):
        lease = retrysafe.claim(self.admin, "payments", "8").lease
        engine = self.engine()
        with self.assertRaisesRegex(sqlalchemy.exc.DBAPIError, "has not completed the key"):
            with sqlalchemy.orm.Session(engine, future=True) as session, session.begin():
                retrysafe.hold(session, lease)
                session.add(Charge(id="8"))
        with sqlalchemy.orm.Session(engine, future=True) as session, session.begin():
            retrysafe.hold(session, lease)
            session.add(Charge(id="8"))
            retrysafe.complete(session, lease, "")
            retrysafe.complete(session.connection(), lease, "")
        self.assertEqual((self.records("8"), self.charges("8")), (["succeeded"], 1))


if __name__ == "__main__":
    unittest.main()
