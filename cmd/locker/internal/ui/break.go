package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
)

// Request is to take a lock away from the lease with this token, and from no other one.
type Request struct {
	Name   string `json:"name"`
	Slot   int    `json:"slot"`  // of a permit; 0: the lock itself
	Token  string `json:"token"` // a text because JavaScript's numbers don't hold all tokens
	Reason string `json:"reason"`
	AtOnce bool   `json:"at_once"`
}

// Breaker takes locks away from their holders. Its methods are called by several goroutines. An
// error is a *Refusal where nothing has changed.
type Breaker interface {
	// Question says in words who has the lock and what Break will do. It changes nothing.
	Question(ctx context.Context, r Request) (string, error)
	// Break says in words what it has done.
	Break(ctx context.Context, r Request) (string, error)
}

// Refusal is the error of a request that has changed nothing.
type Refusal struct {
	Code int // of HTTP
	Err  error
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// maxRequest is the longest body of a request: a name and a reason, each byte of which JSON may write
// as six.
const maxRequest = 16 << 10

// breaks reports whether locks can be taken away. A page without a token is open to all users of the
// machine, and changes nothing.
func (s *server) breaks() bool { return s.Breaker != nil && s.Token != "" }

// question answers what the page asks its reader.
func (s *server) question(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	slot, err := slotIn(query.Get("slot"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := s.Breaker.Question(r.Context(), Request{
		Name: query.Get("name"), Slot: slot, Token: query.Get("token"), AtOnce: query.Get("at_once") == "true",
	})
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, struct {
		Question string `json:"question"`
	}{text})
}

// take takes a lock away. It goes on when the browser has gone, so that the audit has its end.
func (s *server) take(w http.ResponseWriter, r *http.Request) {
	request, err := readRequest(w, r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	done, err := s.Breaker.Break(context.WithoutCancel(r.Context()), request)
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, struct {
		Done string `json:"done"`
	}{done})
}

// readRequest refuses all but JSON: a form of another site can't send it.
func readRequest(w http.ResponseWriter, r *http.Request) (Request, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Request{}, &Refusal{http.StatusUnsupportedMediaType, errors.New("want a body of the type application/json")}
	}
	var request Request
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields() // a word that isn't known may have been meant to hold something back
	if err := decoder.Decode(&request); err != nil {
		return Request{}, &Refusal{http.StatusBadRequest, fmt.Errorf("the body is invalid: %w", err)}
	}
	return request, nil
}

// refuse is for pages that only show locks.
func refuse(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this page takes no locks away: locker ui was started without --allow-break", http.StatusForbidden)
}

func writeFailure(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway
	var refusal *Refusal
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	http.Error(w, err.Error(), code)
}
