// Package ui serves a page that shows the locks of a service while they change.
//
//	GET /               the page
//	GET /events         server-sent events: "snapshot" with all locks, then a "change" for each look
//	GET /api/info       the backend, and how the names of the locks begin
//	GET /api/locks      all locks, as a JSON array; if locks are left out, the header Locker-Note says so
//	GET /api/lock?name= one lock, with those who wait for it; with &slot= a permit of that name
//	GET /api/break?...  what taking a lock away will do, in words
//	POST /api/break     takes a lock away from its holder
//
// However many look at the page, and ask for all locks, the service is asked once for all of them, and not at all
// while nobody looks. What the page of another site makes a browser send is refused. Only POST changes anything on
// the service, where a Breaker is given.
package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Config is what the page shows and who may see it.
type Config struct {
	Backend string        // the name of the backend, for the title
	Prefix  string        // how the names of the locks begin that List returns
	Every   time.Duration // from one look to the next, at least
	Token   string        // a request for locks must have it as its bearer token; empty: none is needed
	Hosts   []string      // the host names, without a port, that a request may be for; nil: any

	// List returns all locks, or those that are known: then note says which ones are left out. Inspect
	// returns one lock by its name, or the permit on a slot of that name if slot isn't 0; ok is false if
	// there can't be one. Both are called by several goroutines.
	List    func(ctx context.Context) (locks []Lock, note string, err error)
	Inspect func(ctx context.Context, name string, slot int) (lock json.RawMessage, ok bool, err error)

	Breaker Breaker // takes locks away, for those who know Token; nil, or without a Token: nobody does
}

type server struct {
	Config
	hub *hub
}

// Handler returns the page and all that it asks for.
func Handler(c Config) http.Handler {
	s := &server{Config: c, hub: newHub(c.Every, c.List)}
	mux := http.NewServeMux()
	for path, file := range pages {
		mux.Handle("GET "+path, file)
	}
	answers := map[string]http.HandlerFunc{
		"GET /events":     s.events,
		"GET /api/info":   s.info,
		"GET /api/locks":  s.locks,
		"GET /api/lock":   s.lock,
		"GET /api/break":  refuse,
		"POST /api/break": refuse,
	}
	if s.breaks() {
		answers["GET /api/break"], answers["POST /api/break"] = s.question, s.take
	}
	for path, answer := range answers {
		mux.Handle(path, own(s.authorized(answer)))
	}
	return s.guarded(http.NewCrossOriginProtection().Handler(mux))
}

// info is what the page shows around the locks.
func (s *server) info(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, struct {
		Backend string `json:"backend"`
		Prefix  string `json:"prefix"`
		Breaks  bool   `json:"breaks"` // locks can be taken away
	}{s.Backend, s.Prefix, s.breaks()})
}

// noteHeader says which locks an answer leaves out.
const noteHeader = "Locker-Note"

// locks answers with the last picture, as an event would have it.
func (s *server) locks(w http.ResponseWriter, r *http.Request) {
	if !s.view(w) { //nolint:contextcheck // the looks are for all viewers
		return
	}
	defer s.hub.leave()
	p, err := s.hub.after(r.Context(), nil)
	switch {
	case err != nil: // the client has gone
	case p.err != nil:
		http.Error(w, p.err.Error(), http.StatusBadGateway)
	default:
		if p.note != "" {
			w.Header().Set(noteHeader, p.note)
		}
		writeJSON(w, append([]json.RawMessage{}, p.list...)) // no list is []
	}
}

func (s *server) lock(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	slot, err := slotIn(cmp.Or(query.Get("slot"), "0"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lock, ok, err := s.Inspect(r.Context(), query.Get("name"), slot)
	switch {
	case err != nil && !ok:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		writeJSON(w, lock)
	}
}

// slotIn reads the slot of a request.
func slotIn(text string) (int, error) {
	slot, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("slot is invalid: want a number, and 0 for a lock")
	}
	return slot, nil
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil { // a JSON of the caller's that is none
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a browser that has gone
}
