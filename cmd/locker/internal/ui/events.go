package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// writeLimit is how long a browser may take for an event before it is given up.
const writeLimit = 10 * time.Second

// look is what each event says of the look that it comes from.
type look struct {
	At     time.Time `json:"at"`
	TookMS int64     `json:"took_ms"`
	Note   string    `json:"note,omitempty"`  // which locks are left out
	Error  string    `json:"error,omitempty"` // the look has failed, and nothing is known to have changed
}

// view joins the viewers, or says that there are too many.
func (s *server) view(w http.ResponseWriter) bool {
	joined := s.hub.join()
	if !joined {
		http.Error(w, fmt.Sprintf("%d pages are open already", maxViewers), http.StatusServiceUnavailable)
	}
	return joined
}

// events sends all locks, and then what each look has found to be different, also if that is
// nothing: so the page knows that it is up to date. A viewer that is slow misses pictures, and gets
// the difference to the newest one.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if !s.view(w) { //nolint:contextcheck // the looks are for all viewers
		return
	}
	defer s.hub.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	var seen *picture
	for {
		p, err := s.hub.after(r.Context(), seen)
		if err != nil {
			return
		}
		kind, message := event(seen, p)
		text, err := json.Marshal(message)
		if err != nil {
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeLimit)) // without it, TCP's own limits end the write
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text); err != nil || out.Flush() != nil {
			return
		}
		_ = out.SetWriteDeadline(time.Time{}) // in HTTP/2 it would end the stream, also while nothing is written
		seen = p
	}
}

// event is what a viewer is sent who has seen one picture, or none, for a later one.
func event(seen, p *picture) (kind string, message any) {
	l := look{At: p.at, TookMS: p.took.Milliseconds(), Note: p.note}
	if p.err != nil {
		l.Error = p.err.Error()
	}
	if seen == nil {
		return "snapshot", struct {
			look
			Locks []json.RawMessage `json:"locks"`
		}{l, p.all()}
	}
	return "change", struct {
		look
		difference
	}{l, p.since(seen)}
}
