import hashlib
import json


def once(conn, caller, key, request, work):
    """Return the status and answer of work(conn), which runs once for each key of a caller."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()
    with conn.transaction():
        new = conn.execute(
            "INSERT INTO answers (caller, key, request) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING key",
            [caller, key, digest],
        ).fetchone()  # waits for another transaction that has inserted the same key
        if not new:
            first, answer = conn.execute(
                "SELECT request, answer FROM answers WHERE caller = %s AND key = %s", [caller, key]
            ).fetchone()
            return (200, answer) if first == digest else (422, "the key was used for another request")
        answer = json.dumps(work(conn))
        conn.execute("UPDATE answers SET answer = %s WHERE caller = %s AND key = %s", [answer, caller, key])
    return 200, answer
