"""Sends with urllib3: python3 clients.py URL SITUATION..."""
import sys
import threading

import urllib3

url, situations = sys.argv[1], sys.argv[2:]
setups = {
    "urllib3": None,  # Retry(3)
    "urllib3-set": urllib3.Retry(
        3, allowed_methods=None, status_forcelist=[409, 429, 502, 503, 504], backoff_factor=0.2
    ),
}


def send(setup, situation, retries):
    options = {} if retries is None else {"retries": retries}
    key = {"Idempotency-Key": f"{setup}|{situation}"}
    try:
        urllib3.PoolManager().request("POST", url + "/v1/charges", fields={"amount": "1700"}, headers=key, **options)
    except urllib3.exceptions.HTTPError:
        pass  # what it did is seen by the server


threads = [
    threading.Thread(target=send, args=(setup, situation, retries))
    for setup, retries in setups.items()
    for situation in situations
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
