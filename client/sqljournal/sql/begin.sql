INSERT INTO retrysafe_journal (client, id, intent, key_sent, method, url, credential, header, body, begun_ms, given_up)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
