package httpclient

// SignalNames returns the names of all signals.
func SignalNames() (names []string) {
	for _, s := range signals() {
		names = append(names, s.name)
	}
	return names
}

// Budgets returns how many origins have a budget.
func Budgets(t *Transport) int {
	t.budgets.mu.Lock()
	defer t.budgets.mu.Unlock()
	return len(t.budgets.all)
}
