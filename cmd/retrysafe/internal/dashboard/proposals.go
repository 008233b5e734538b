package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// SecondPerson says which decisions need a second person, and where they are kept until that person has confirmed them.
type SecondPerson struct {
	kinds []string
	path  string
	mu    sync.Mutex // of the file
}

// kinds are the decisions that may need a second person, with their actions.
var kinds = map[string][]retrysafe.ResolveAction{
	"resolve": {retrysafe.ResolveComplete, retrysafe.ResolveFail, retrysafe.ResolveRelease},
	"purge":   {retrysafe.ResolvePurge},
	"reopen":  {retrysafe.ResolveReopen},
}

// Bounds of proposals.
const (
	proposalTime = 24 * time.Hour
	maxProposals = 100
	maxProposed  = 16 << 20 // bytes of the file: proposals have the answers that are to be stored
)

// NewSecondPerson returns an error if a kind of decision is unknown, or if the file of proposals can be neither read nor
// written. Without kinds no decision needs a second person, and the result is nil.
func NewSecondPerson(named []string, path string) (*SecondPerson, error) {
	if len(named) == 0 && path == "" {
		return nil, nil
	}
	for _, kind := range named {
		if kinds[kind] == nil {
			return nil, fmt.Errorf("%q is no kind of decision: write resolve, purge or reopen", kind)
		}
	}
	switch {
	case len(named) == 0:
		return nil, errors.New("a file of proposals is only for decisions that need a second person: say which, as in reopen,purge")
	case path == "":
		return nil, errors.New("decisions that need a second person are kept in a file until they are confirmed: name one")
	}
	s := &SecondPerson{kinds: named, path: path}
	all, err := s.read()
	if err == nil {
		err = s.write(all) // a folder that cannot be written is found at the start
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// needs reports whether a decision needs a second person.
func (s *SecondPerson) needs(a retrysafe.ResolveAction) bool {
	return s != nil && slices.ContainsFunc(s.kinds, func(kind string) bool { return slices.Contains(kinds[kind], a) })
}

// proposal is a decision that one person has made, and that another one must confirm.
type proposal struct {
	ID   string
	Path string // of its form
	Form decisionForm
	ByID string // the proposer's visitor.id
	At   time.Time
	// Pins are the keys that it is about, as they were.
	Pins map[string]pin
}

// pin is what a record must still be for a proposal to count.
type pin struct {
	Fence int64
	State string
}

// Until is when the proposal expires.
func (p proposal) Until() time.Time { return p.At.Add(proposalTime) }

func (p proposal) isOver(now time.Time) bool { return !now.Before(p.Until()) }

// text is the proposal as one text, for its MAC.
func (p proposal) text() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts, numbers and a time
	}
	return string(text)
}

// open returns the proposals that have not expired, and those that have since the last call.
func (s *SecondPerson) open() (open, expired []proposal, err error) {
	if s == nil {
		return nil, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	for _, p := range all {
		if p.isOver(now) {
			expired = append(expired, p)
		} else {
			open = append(open, p)
		}
	}
	if len(expired) > 0 && s.write(open) != nil {
		expired = nil // they are told again when the file can be written
	}
	return open, expired, nil
}

var (
	errTooMany = &fault{
		http.StatusConflict, "There are too many proposals",
		fmt.Sprintf("At most %d wait at once. Confirm, decline or withdraw some first. Nothing was done.", maxProposals),
	}
	errTooLarge = &fault{
		http.StatusConflict, "The proposals take too much space", "Confirm, decline or withdraw some first. Nothing was done.",
	}
)

// add saves a proposal, unless a key of it has one.
func (s *SecondPerson) add(p proposal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return err
	}
	for _, other := range all {
		for digest := range p.Pins {
			if _, ok := other.Pins[digest]; ok && !other.isOver(p.At) {
				return &fault{
					http.StatusConflict, "A decision about this key is proposed already",
					"It is about " + digest + ". Confirm, decline or withdraw it first, at /proposals/" + other.ID + ". Nothing was done.",
				}
			}
		}
	}
	if len(all) >= maxProposals {
		return errTooMany
	}
	return s.write(append(all, p))
}

// take removes a proposal, so that it is confirmed, declined or withdrawn once. It reports false if it is gone.
func (s *SecondPerson) take(id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return false, err
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(p proposal) bool { return p.ID == id })
	if len(rest) == len(all) {
		return false, nil
	}
	return true, s.write(rest)
}

// read returns what the file has; none if there is no file.
func (s *SecondPerson) read() (all []proposal, err error) {
	file, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the file of proposals: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProposed+1))
	if err != nil {
		return nil, fmt.Errorf("the file of proposals: %w", err)
	}
	if len(text) > maxProposed {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no file of proposals", s.path, maxProposed)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s is no file of proposals: %w", s.path, err)
	}
	return all, nil
}

// write replaces the file, so that a crash or a full disk leaves the one before. Only its user can read it.
func (s *SecondPerson) write(all []proposal) error {
	text, err := json.MarshalIndent(append([]proposal{}, all...), "", " ")
	if err != nil {
		return err
	}
	if len(text) > maxProposed {
		return errTooLarge
	}
	file, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return fmt.Errorf("the file of proposals: %w", err)
	}
	defer os.Remove(file.Name()) // it is gone if all went well
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err != nil {
		return fmt.Errorf("the file of proposals: %w", err)
	}
	return nil
}
