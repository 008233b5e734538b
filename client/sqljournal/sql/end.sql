DELETE FROM retrysafe_journal WHERE client = ? AND id = ?
