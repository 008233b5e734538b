//go:build unix && !languages

package exactlyonce

func moreLanguages() []language { return nil }
