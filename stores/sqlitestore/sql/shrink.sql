PRAGMA incremental_vacuum(64)
