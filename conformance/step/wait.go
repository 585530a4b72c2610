package step

import "time"

// Limit is when a call is given up that should have returned long ago. It measures nothing.
const Limit = time.Minute

// MustReturn returns the error of f, and fails the case unless f returns within d. If f doesn't
// return, nobody cleans up after it.
func MustReturn(t T, d time.Duration, what string, f func() error) error {
	t.Helper()
	err, returned := returns(d, f)
	if !returned {
		t.Fatalf("%s has not returned after %v", what, d)
	}
	return err
}

// returns waits for f, for up to d.
func returns(d time.Duration, f func() error) (err error, returned bool) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-result:
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// WaitClosed waits until c is closed, for up to d, and reports whether c is closed.
func WaitClosed(c <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return IsClosed(c)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return IsClosed(c)
	}
}

// IsClosed reports whether c is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Pass lets time pass, where a case is about time. It synchronises nothing. A comment at the call
// says what must happen in that time.
func Pass(t T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatalf("the run was ended while %v passed", d)
	}
}

// Eventually calls check until it returns nil, for up to d. It pauses for a few milliseconds
// between two calls: cases compare moments that it finds, and the difference may be a fraction of a
// TTL.
func Eventually(t T, d time.Duration, check func() error) {
	t.Helper()
	end := time.Now().Add(d)
	pause := time.Millisecond
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", d, err)
		}
		Pass(t, pause)
		pause = min(2*pause, 5*time.Millisecond)
	}
}
