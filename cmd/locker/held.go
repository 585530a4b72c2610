package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/fencedlock/locker"
)

// envHeld tells CMD, and what CMD starts, which locks are held around it: an entry for each locker
// run, with its process id and a digest of backend and name. A locker run that waited for one of
// them would wait for itself.
const envHeld = "LOCKER_HELD"

// heldAround returns an error if so many locker runs around this one hold subject: the lock called so,
// or permits.
func heldAround(rawURL, subject string, most int) error {
	own, held := digest(rawURL, subject), 0
	for entry := range strings.FieldsSeq(os.Getenv(envHeld)) {
		if pid, sum := cutEntry(entry); sum != "" && sum == own && isAround(pid) {
			if held++; held < most {
				continue
			}
			name, _, permits := strings.Cut(subject, "\x00")
			if permits {
				return fmt.Errorf("%q: %w: the locker runs around this one have all %d permits, and wait for CMD to end", name, locker.ErrHeldByCaller, most)
			}
			return fmt.Errorf("%q: %w: the locker run around this one has the lock, and waits for CMD to end "+
				"(to start a locker run that waits in the background, use env -u %s)", name, locker.ErrHeldByCaller, envHeld)
		}
	}
	return nil
}

// addHeld is the value of envHeld for a CMD that runs under subject.
func addHeld(rawURL, subject string) string {
	var entries []string
	for entry := range strings.FieldsSeq(os.Getenv(envHeld)) {
		if pid, _ := cutEntry(entry); isAround(pid) {
			entries = append(entries, entry)
		}
	}
	return strings.Join(append(entries, strconv.Itoa(os.Getpid())+":"+digest(rawURL, subject)), " ")
}

func cutEntry(entry string) (pid int, sum string) {
	number, sum, _ := strings.Cut(entry, ":")
	pid, _ = strconv.Atoi(number) // 0 is nobody
	return pid, sum
}

// digest identifies a lock or its permits, and contains no secret: neither the password nor a parameter that may
// hold one. Two URLs of one service may have two digests; then a locker run that waits for itself
// isn't recognised.
func digest(rawURL, subject string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "" // it is refused before a lock is asked for
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(key, "pass") {
			query.Del(key)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		strings.ToLower(u.Scheme), u.User.Username(), strings.ToLower(u.Host), strings.TrimRight(u.Path, "/"), query.Encode(), subject,
	}, "\x00")))
	return hex.EncodeToString(sum[:16])
}
