package filejournal

// OpenCompacting is Open with another size from which on the file is compacted.
func OpenCompacting(path string, at int64) (*Journal, error) { return open(path, at) }
