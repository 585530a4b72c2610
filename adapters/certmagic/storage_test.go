package certmagiclocker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/fencedlock/locker"
	certmagiclocker "github.com/fencedlock/locker/adapters/certmagic"
	"github.com/fencedlock/locker/membackend"
	"github.com/fencedlock/locker/middleware"
)

const issue = "issue_cert_example.com"

var _ interface {
	certmagic.Storage
	certmagic.TryLocker
	certmagic.LockLeaseRenewer
} = (*certmagiclocker.Storage)(nil)

// newLocker opens a Locker on server, which the test closes.
func newLocker(t *testing.T, server *membackend.Server) locker.Locker {
	l := membackend.New(membackend.WithServer(server))
	t.Cleanup(func() { l.Close() })
	return l
}

func newStorage(t *testing.T, server *membackend.Server) *certmagiclocker.Storage {
	return certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, newLocker(t, server))
}

// Data goes to the storage that was wrapped, and locks don't.
func TestDataStaysInTheStorage(t *testing.T) {
	files := &certmagic.FileStorage{Path: t.TempDir()}
	s := certmagiclocker.Wrap(files, newLocker(t, membackend.NewServer()))
	if err := s.Lock(t.Context(), issue); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if value, err := files.Load(t.Context(), "a/b"); string(value) != "x" || err != nil {
		t.Errorf("the storage has %q, %v", value, err)
	}
	if _, err := files.List(t.Context(), "locks", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the storage has locks: %v", err)
	}
	if err := s.Unlock(t.Context(), issue); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprint(s); !strings.Contains(text, files.Path) || !strings.Contains(text, "locks on mem") {
		t.Errorf("String = %q", text)
	}
}

// One caller has the lock, of several storages as of one; other names are free.
func TestLockIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		first, second := newStorage(t, server), newStorage(t, server)
		if err := first.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]*certmagiclocker.Storage{"the same": first, "another": second} {
			if ok, err := s.TryLock(t.Context(), issue); ok || err != nil {
				t.Errorf("TryLock of %s storage = %v, %v, want false", what, ok, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := s.Lock(ctx, issue); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock of %s storage = %v, want a timeout", what, err)
			}
			if ok, err := s.TryLock(t.Context(), "other "+what); !ok || err != nil {
				t.Errorf("TryLock of another name = %v, %v, want true", ok, err)
			}
		}
		synctest.Wait() // for the removal of the place of the call that has timed out
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := first.Unlock(ended, issue); err != nil {
			t.Errorf("Unlock with an ended context = %v", err)
		}
		if ok, err := second.TryLock(t.Context(), issue); !ok || err != nil {
			t.Errorf("TryLock of the free lock = %v, %v, want true", ok, err)
		}
		if err := second.Unlock(t.Context(), issue); err != nil {
			t.Errorf("Unlock = %v", err)
		}
		for _, s := range []*certmagiclocker.Storage{first, second} {
			if n := s.Slots(); n != 1 { // the slot of the other name
				t.Errorf("the storage keeps %d names, want 1", n)
			}
		}
	})
}

// A Locker that the program has wrapped may have leases that can't be compared.
func TestLeaseThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		s := certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, taggedLocker{newLocker(t, server)})
		if err := s.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		server.Expire(issue)
		synctest.Wait()
		if err := s.RenewLockLease(t.Context(), issue, time.Hour); err != nil {
			t.Error(err)
		}
		if err := s.Unlock(t.Context(), issue); err != nil {
			t.Error(err)
		}
	})
}

type taggedLocker struct{ locker.Locker }

type taggedLease struct {
	locker.Lease
	tags []string
}

func (l taggedLocker) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	return taggedLease{lease, []string{"a"}}, nil
}

// hooked is a Locker that calls onAcquire before each acquisition.
type hooked struct {
	locker.Locker
	onAcquire func()
}

func (h *hooked) Acquire(ctx context.Context, name string, opts ...locker.Option) (locker.Lease, error) {
	h.onAcquire()
	return h.Locker.Acquire(ctx, name, opts...)
}

// A panic that CertMagic recovers from keeps nobody out.
func TestLockAfterAPanic(t *testing.T) {
	l := &hooked{newLocker(t, membackend.NewServer()), func() { panic("a defect of the locker") }}
	s := certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, l)
	func() {
		defer func() { _ = recover() }()
		_ = s.Lock(t.Context(), issue)
	}()
	if n := s.Slots(); n != 0 {
		t.Errorf("%d names are taken after a panic, want none", n)
	}
}

// A lock that RenewLockLease gets after an Unlock is given back.
func TestUnlockDuringRenewLockLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		l := &hooked{newLocker(t, server), func() {}}
		s := certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, l)
		if err := s.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		server.Expire(issue)
		synctest.Wait()
		l.onAcquire = func() {
			if err := s.Unlock(t.Context(), issue); !errors.Is(err, locker.ErrLost) {
				t.Errorf("Unlock = %v, want %v", err, locker.ErrLost)
			}
		}
		if err := s.RenewLockLease(t.Context(), issue, time.Hour); !errors.Is(err, certmagiclocker.ErrNotLocked) {
			t.Errorf("RenewLockLease = %v, want %v", err, certmagiclocker.ErrNotLocked)
		}
		if _, err := locker.TryAcquire(t.Context(), l.Locker, issue); err != nil {
			t.Errorf("after that: %v, want the lock to be free", err)
		}
	})
}

// A lease that was lost is replaced by RenewLockLease if the lock is free, and what is unlocked then is
// the new one.
func TestRenewLockLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		first, second := newStorage(t, server), newStorage(t, server)
		if err := first.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour) // renewed without being asked
		if err := first.RenewLockLease(t.Context(), issue, time.Second); err != nil {
			t.Errorf("RenewLockLease of a lease that is held = %v", err)
		}
		server.Expire(issue)
		synctest.Wait()
		if ok, err := first.TryLock(t.Context(), issue); ok || err != nil {
			t.Errorf("TryLock of another caller before Unlock = %v, %v, want false", ok, err)
		}
		if err := second.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		if err := first.RenewLockLease(t.Context(), issue, time.Hour); !errors.Is(err, locker.ErrHeld) {
			t.Errorf("RenewLockLease while another machine has the lock = %v, want %v", err, locker.ErrHeld)
		}
		if err := second.Unlock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		if err := first.RenewLockLease(t.Context(), issue, time.Hour); err != nil {
			t.Errorf("RenewLockLease while the lock is free = %v", err)
		}
		if ok, err := second.TryLock(t.Context(), issue); ok || err != nil {
			t.Errorf("TryLock after that = %v, %v, want false", ok, err)
		}
		if err := first.Unlock(t.Context(), issue); err != nil {
			t.Errorf("Unlock of the new lease = %v", err)
		}
		if ok, err := second.TryLock(t.Context(), issue); !ok || err != nil {
			t.Errorf("TryLock after Unlock = %v, %v, want true", ok, err)
		}
	})
}

// Calls at the same time get one lock, and none of them finds the lock of another one.
func TestRenewLockLeaseAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		link := membackend.NewLink()
		l := membackend.New(membackend.WithServer(server), membackend.WithLink(link))
		defer l.Close()
		s := certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, l)
		if err := s.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		server.Expire(issue)
		synctest.Wait()
		link.Delay(10*time.Millisecond, 10*time.Millisecond)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if err := s.RenewLockLease(t.Context(), issue, time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if err := s.Unlock(t.Context(), issue); err != nil {
			t.Error(err)
		}
		if _, err := locker.TryAcquire(t.Context(), l, issue); err != nil {
			t.Errorf("after that: %v, want the lock to be free", err)
		}
	})
}

func TestUnlockTellsOfTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := membackend.NewServer()
		s := newStorage(t, server)
		if err := s.Lock(t.Context(), issue); err != nil {
			t.Fatal(err)
		}
		server.Expire(issue)
		synctest.Wait()
		if err := s.Unlock(t.Context(), issue); !errors.Is(err, locker.ErrLost) {
			t.Errorf("Unlock after a loss = %v, want %v", err, locker.ErrLost)
		}
		if err := s.Lock(t.Context(), issue); err != nil {
			t.Errorf("Lock after that = %v", err)
		}
	})
}

// A service that fails isn't a held lock, and leaves nothing behind.
func TestErrors(t *testing.T) {
	server := membackend.NewServer()
	s := newStorage(t, server)
	down := errors.New("down")
	server.Fail(down)
	if ok, err := s.TryLock(t.Context(), issue); ok || !errors.Is(err, down) {
		t.Errorf("TryLock = %v, %v, want %v", ok, err, down)
	}
	if err := s.Lock(t.Context(), issue); !errors.Is(err, down) {
		t.Errorf("Lock = %v, want %v", err, down)
	}
	server.Fail(nil)
	if err := s.Unlock(t.Context(), issue); !errors.Is(err, certmagiclocker.ErrNotLocked) {
		t.Errorf("Unlock without a lock = %v, want %v", err, certmagiclocker.ErrNotLocked)
	}
	if err := s.RenewLockLease(t.Context(), issue, time.Hour); !errors.Is(err, certmagiclocker.ErrNotLocked) {
		t.Errorf("RenewLockLease without a lock = %v, want %v", err, certmagiclocker.ErrNotLocked)
	}
}

// Any name has a lock of its own, also below a prefix.
func TestNames(t *testing.T) {
	server := membackend.NewServer()
	l, err := middleware.Prefix(newLocker(t, server), strings.Repeat("p", 47))
	if err != nil {
		t.Fatal(err)
	}
	s := certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, l)
	domain := "issue_cert_" + strings.Repeat("long.", 48) + "example.com"
	for _, name := range []string{ // pairwise different
		domain, domain[1:], domain + "x", strings.Repeat("a", 153), strings.Repeat("a", 154), strings.Repeat("a", 155),
		"", "new\nline", "new_line", "\xff", "\xfe", strings.Repeat("ä", 200), strings.Repeat("ä", 201), "ü" + strings.Repeat("ä", 200),
	} {
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("TryLock(%q) = %v, %v, want true", name, ok, err)
		}
	}
	status, err := locker.Inspect(t.Context(), l, strings.Repeat("a", 153), locker.Look{})
	if err != nil || status.Holder == nil {
		t.Errorf("a name of 153 bytes isn't the lock's: %v, %v", status, err)
	}
}
