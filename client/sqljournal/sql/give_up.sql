UPDATE retrysafe_journal SET given_up = ? WHERE client = ? AND id = ?
