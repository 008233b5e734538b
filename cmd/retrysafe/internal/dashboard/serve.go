package dashboard

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server for a dashboard. settings may be nil: no TLS.
func NewServer(h http.Handler, settings *tls.Config, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         settings,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute, // more than decisionTime
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
