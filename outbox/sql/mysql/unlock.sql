DO RELEASE_LOCK('retrysafe outbox migrate')
