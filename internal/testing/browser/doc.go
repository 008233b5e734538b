// Package browser drives a page of Chromium in tests.
package browser
