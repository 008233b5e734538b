package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// Bounds of sessions.
const (
	sessionTime     = 12 * time.Hour
	sessionIdle     = time.Hour
	sessionsPerUser = 20
	cookieName      = "retrysafe_dashboard"
)

// visitor is who sends a request. Without a login a visitor may do everything, and has no name.
type visitor struct {
	Name    string
	Role    Role   // 0: not logged in
	id      string // the same for all sessions of a person, whatever the name for people is
	session string
}

// sessions are the logins of users, by the hash of what is in the cookie.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

type session struct {
	id, name    string
	role        Role      // 0: that of the file as it is now
	until       time.Time // zero: only sessionTime bounds it
	began, used time.Time
}

func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.began) >= sessionTime || now.Sub(s.used) >= sessionIdle || !s.until.IsZero() && !now.Before(s.until)
}

// begin returns the secret of a new session. Of a user with too many sessions, the oldest one ends.
func (s *sessions) begin(of session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := time.Now(), 0
	var oldest [sha256.Size]byte
	for id, other := range s.all {
		switch {
		case other.isOver(now):
			delete(s.all, id)
		case other.id == of.id:
			if n++; n == 1 || other.began.Before(s.all[oldest].began) {
				oldest = id
			}
		}
	}
	if n >= sessionsPerUser {
		delete(s.all, oldest)
	}
	secret := rand.Text() + rand.Text()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*session{}
	}
	of.began, of.used = now, now
	s.all[sha256.Sum256([]byte(secret))] = &of
	return secret
}

// find returns a session. A request that a person has made keeps it alive; those that a page makes by itself do not.
func (s *sessions) find(secret string, byPerson bool) (of session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, now := sha256.Sum256([]byte(secret)), time.Now()
	found := s.all[id]
	switch {
	case found == nil:
		return session{}, false
	case found.isOver(now):
		delete(s.all, id)
		return session{}, false
	case byPerson:
		found.used = now
	}
	return *found, true
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(secret)))
}

// identify finds out who sends the request. The role of a user of the file is that of the file as it is now, the role of
// others the one that they had at their login.
func (q *request) identify(byPerson bool) error {
	if !q.options.hasLogin() {
		q.who = visitor{Role: Purge}
		return nil
	}
	cookie, err := q.r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	of, ok := q.sessions.find(cookie.Value, byPerson)
	switch {
	case !ok:
		return nil
	case of.role != 0:
		q.who = visitor{of.name, of.role, of.id, cookie.Value}
		return nil
	}
	users, err := q.users()
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.name == of.name {
			q.who = visitor{u.name, u.role, of.id, cookie.Value}
		}
	}
	return nil
}

// users reads the file of users.
func (q *request) users() ([]user, error) {
	users, err := readUsers(q.options.Users)
	if err != nil {
		q.options.Log.Error("dashboard: no user can log in", "error", err)
		return nil, &fault{
			http.StatusServiceUnavailable, "The file of users cannot be read", "No user with a token can log in until it can. The log says why.",
		}
	}
	return users, nil
}

// cookie returns the cookie of a session; an empty secret ends it.
func (q *request) cookie(secret string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: q.r.TLS != nil || q.r.Header.Get("X-Forwarded-Proto") == "https" || q.provider.isSecure(),
		MaxAge: int(sessionTime / time.Second),
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}
