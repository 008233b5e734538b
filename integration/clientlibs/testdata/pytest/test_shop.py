"""The tests of docs/python.md, for this shop."""

import os
import uuid

import psycopg
import pytest

from retrysafe import testing

from shop import app, connect, pay

ORDER = {"amount": 4200}
client = app.test_client()


def connect_as_owner():
    return psycopg.connect(os.environ["DATABASE_URL"])


@pytest.fixture(scope="module", autouse=True)
def table():
    with connect_as_owner() as conn:
        conn.execute("CREATE TABLE charges (amount bigint NOT NULL)")


def count_charges():
    with connect_as_owner() as conn:
        return conn.execute("SELECT count(*) FROM charges").fetchone()[0]


def test_pay():
    testing.check(connect_as_owner, lambda key: pay(connect(), key, 4200), count_charges)

def test_a_service_behind_the_proxy():
    send = lambda lease: client.post("/charges", json=ORDER, headers={"Retrysafe-Lease": lease}).status_code
    testing.check(connect_as_owner, testing.behind_proxy(connect_as_owner, send), count_charges)

def test_two_at_once():
    testing.check_two_at_once(connect_as_owner, lambda key: pay(connect(), key, 4200), count_charges)

def test_a_completed_key():
    order = str(uuid.uuid4())
    testing.check_completed(connect_as_owner, "payments", order, lambda: pay(connect(), order, 4200), count_charges,
                            request={"order": order, "amount": 4200})
