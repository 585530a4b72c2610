package acceptance

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/middleware"

	_ "github.com/fencedlock/locker/etcdbackend"
	_ "github.com/fencedlock/locker/filebackend"
	_ "github.com/fencedlock/locker/membackend"
	_ "github.com/fencedlock/locker/pgbackend"
	_ "github.com/fencedlock/locker/redisbackend"
	_ "github.com/fencedlock/locker/redlockbackend"
	_ "github.com/fencedlock/locker/zkbackend"
)

// service is a lock service, and a prefix of names that this test alone uses.
type service struct{ scheme, url, prefix string }

// onEach runs test in parallel on each service. Tests run one after the other, because some are about
// schedules that a busy machine disturbs.
func onEach(t *testing.T, test func(t *testing.T, s service)) {
	t.Helper()
	urls := []string{"mem://acceptance", (&url.URL{Scheme: "file", Path: t.TempDir()}).String()}
	for _, rawURL := range append(urls, strings.Fields(os.Getenv("LOCKER_URLS"))...) {
		scheme, _, _ := strings.Cut(rawURL, ":")
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			test(t, service{scheme, rawURL, "acceptance/" + rand.Text() + "/"})
		})
	}
}

// open opens a Locker, which the test closes.
func (s service) open(t *testing.T) locker.Locker {
	t.Helper()
	l, err := openURL(t.Context(), s.url, s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func openURL(ctx context.Context, rawURL, prefix string) (locker.Locker, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l, err := locker.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return middleware.Prefix(l, prefix)
}
