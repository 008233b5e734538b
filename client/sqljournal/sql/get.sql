SELECT id, intent, key_sent, method, url, credential, header, body, begun_ms, given_up
FROM retrysafe_journal
WHERE client = ? AND id = ?
