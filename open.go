package locker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	packages "github.com/fencedlock/locker/internal/schemes"
)

// Opener makes a locker from a URL with the scheme that it was registered for. It must refuse parameters that it
// doesn't know. Its errors must not contain the URL, which may hold a password. ctx covers the opening alone.
type Opener func(ctx context.Context, u *url.URL) (Locker, error)

var schemes = struct {
	sync.RWMutex
	open map[string]Opener
}{open: make(map[string]Opener)}

// Register makes a backend known to [Open] under a URL scheme in lower case. Backends call it when
// they are imported. It panics when the scheme is registered already, empty or not in lower case,
// or open is nil: these are mistakes of the program, not of its input.
func Register(scheme string, open Opener) {
	if scheme == "" || scheme != strings.ToLower(scheme) || open == nil {
		panic("locker: Register needs a scheme in lower case and an Opener")
	}
	schemes.Lock()
	defer schemes.Unlock()
	if _, dup := schemes.open[scheme]; dup {
		panic("locker: Register called twice for scheme " + scheme)
	}
	schemes.open[scheme] = open
}

// Schemes lists the URL schemes that [Open] understands in this program, in order.
func Schemes() []string {
	schemes.RLock()
	defer schemes.RUnlock()
	list := make([]string, 0, len(schemes.open))
	for s := range schemes.open {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// Open makes a locker from a URL, whose scheme names the backend. The package of that backend must be imported,
// often for nothing else. The documentation of each backend says what else its URL may contain; a parameter that
// a backend doesn't know is an error. Two parameters are the same on all of them: token_base, see [TokenBase], and
// holder, which is a [WithHolder] for each acquisition that has none of its own.
//
// The locker's [Guarantees] must meet each requirement. Otherwise Open closes the locker and returns an error
// that names the missing guarantee and matches [ErrGuarantee]. A program that needs [Correctness] says so here;
// then a configuration that can't give it fails at the start. [AsLocker] finds a backend's own type in the result.
//
// White space around the URL is ignored. For an invalid URL, and for a scheme without a backend,
// the error matches [ErrOption] and names the mistake. No error contains the URL.
//
// ctx covers the opening, not the life of the locker. The caller closes the locker.
func Open(ctx context.Context, rawURL string, reqs ...Requirement) (Locker, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	schemes.RLock()
	open := schemes.open[u.Scheme]
	schemes.RUnlock()
	if open == nil {
		return nil, &Error{Op: "open", Err: unknownScheme(strings.TrimSpace(rawURL), u.Scheme)}
	}
	if slices.Contains(reqs, nil) {
		return nil, &Error{Op: "open", Backend: u.Scheme, Err: fmt.Errorf("%w: a requirement is nil", ErrOption)}
	}
	u, common, err := takeCommon(u)
	if err != nil {
		return nil, &Error{Op: "open", Backend: u.Scheme, Err: err}
	}
	l, err := open(ctx, u)
	if err != nil {
		var wrapped *Error
		if errors.As(err, &wrapped) {
			return nil, err
		}
		return nil, &Error{Op: "open", Backend: u.Scheme, Err: err}
	}
	if err := Require(l.Guarantees(), reqs...); err != nil {
		return nil, &Error{Op: "open", Backend: l.Guarantees().Backend, Err: join(err, l.Close())}
	}
	decorated, err := common.apply(l)
	if err != nil {
		return nil, join(err, l.Close())
	}
	return decorated, nil
}

func unknownScheme(rawURL, scheme string) error {
	known := strings.Join(Schemes(), ", ")
	if known == "" {
		known = "none; import the package of a backend"
	}
	// Without "//" the text before the first colon may be anything, even a part of a password: don't repeat it.
	if scheme == "" || !strings.HasPrefix(strings.ToLower(rawURL), scheme+"://") {
		return fmt.Errorf("%w: URL without a scheme (known here: %s)", ErrOption, known)
	}
	if pkg := packages.Package(scheme); pkg != "" {
		return fmt.Errorf("%w: no backend for scheme %q (known here: %s): import _ %q", ErrOption, scheme, known, pkg)
	}
	return fmt.Errorf("%w: no backend for scheme %q (known here: %s)", ErrOption, scheme, known)
}
