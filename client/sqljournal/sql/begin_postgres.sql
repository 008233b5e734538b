-- A role or database with synchronous_commit = off would lose the intent in a crash of the server, after its request was
-- sent. This transaction waits for the disk.
INSERT INTO retrysafe_journal (client, id, intent, key_sent, method, url, credential, header, body, begun_ms, given_up)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
