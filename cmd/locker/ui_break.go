package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/ui"
)

// uiBreaker takes locks away for the page.
type uiBreaker struct {
	l      locker.Locker
	prefix string // how the names begin that the page shows
	by     string
	audit  *auditLog
}

var _ ui.Breaker = uiBreaker{}

// operator is who the audit says takes locks away: the one that has the token, by its file's name,
// and who has started the page.
func (o *uiOptions) operator() string {
	by := filepath.Base(o.tokenFile) + ", locker ui of " + operator()
	if _, wrong := locker.Resolve("name", locker.WithHolder(by)); wrong != nil {
		return operator()
	}
	return by
}

// Question says who has the lock, as break does.
func (b uiBreaker) Question(ctx context.Context, r ui.Request) (string, error) {
	v, _, err := b.victim(ctx, r, "-")
	if err != nil {
		return "", err
	}
	return v.question(b.l.Guarantees(), locker.Breach{AtOnce: r.AtOnce}), nil
}

// Break looks once more: if the lock has passed on since it was shown, nothing changes.
func (b uiBreaker) Break(ctx context.Context, r ui.Request) (string, error) {
	v, breach, err := b.victim(ctx, r, r.Reason)
	if err != nil {
		return "", err
	}
	effect, err := v.take(ctx, b.l, breach, b.audit)
	if err != nil {
		return "", uiRefusal(err)
	}
	return taken(effect, r.AtOnce), nil
}

// victim is the lease that a request is about.
func (b uiBreaker) victim(ctx context.Context, r ui.Request, reason string) (victim, locker.Breach, error) {
	token, err := strconv.ParseInt(r.Token, 10, 64)
	switch {
	case err != nil || token <= 0:
		err = errors.New("token is invalid: want the text that the list shows, such as \"1795221171926053\"")
	case strings.TrimSpace(reason) == "":
		err = errors.New("a reason is required: it is shown to the holder and written to the audit line")
	case !strings.HasPrefix(r.Name, b.prefix):
		err = errNotShown
	}
	if err != nil {
		return victim{}, locker.Breach{}, &ui.Refusal{Code: http.StatusBadRequest, Err: err}
	}
	breach, err := locker.ResolveBreach(r.Name, locker.Token(token), locker.Breach{By: b.by, Reason: reason, AtOnce: r.AtOnce, Slot: r.Slot})
	if err != nil {
		return victim{}, breach, uiRefusal(lockFailure(err))
	}
	v, err := findVictim(ctx, b.l, r.Name, r.Slot, locker.Token(token))
	return v, breach, uiRefusal(err)
}

// uiRefusal gives an error that says that nothing has changed its code of HTTP.
func uiRefusal(err error) error {
	var exit *exitError
	if !errors.As(err, &exit) {
		return err
	}
	switch exit.code {
	case exitChecked:
		return &ui.Refusal{Code: http.StatusConflict, Err: err}
	case exitUsage:
		return &ui.Refusal{Code: http.StatusBadRequest, Err: err}
	}
	return err
}
