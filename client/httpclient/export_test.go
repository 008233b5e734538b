package httpclient

// SignalNames returns the names of all signals.
func SignalNames() (names []string) {
	for _, s := range signals {
		names = append(names, s.name)
	}
	return names
}
