//go:build unix

package redis

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// take calls break, or break_one, for the lease of a with a token.
func (a *acquisition) take(script string, token int64, mode, breach string) []any {
	a.t.Helper()
	k := key(a.name)
	keys := []string{k, k + ":token", k + ":queue", k + ":waiters", k + ":tomb:" + a.owner}
	if script == "break_one" {
		keys = keys[:1]
	}
	answer, err := a.admin.Eval(a.t.Context(), scriptText(a.t, script+".lua"), keys, a.owner, itest.LongTTL.Milliseconds(), token, mode, breach).Slice()
	if err != nil {
		a.t.Fatalf("%s of %s: %v", script, a.owner, err)
	}
	return answer
}

// isBroken is the first number of an answer about a lease that is marked.
const isBroken = int64(4)

func (a *acquisition) wantBreach(what string, answer []any, first int64, breach string) {
	a.t.Helper()
	if len(answer) != 2 || answer[0] != first || answer[1] != breach {
		a.t.Errorf("%s = %v, want %d %q", what, answer, first, breach)
	}
}

// A marked lease is held as it was: no request of its owner prolongs it, and the owner's release hands
// the lock on.
func TestRedisMarkedLease(t *testing.T) {
	for _, script := range []string{"break", "break_one"} {
		b := NewBench(t)
		heard := b.listen("one")
		holder, waiter, other := b.acquisition("one"), b.acquisition("one"), b.acquisition("")
		token := want(t, holder.acquire(), isGranted)
		want(t, waiter.acquire(), isQueued)
		b.Admin.PExpire(t.Context(), key(b.Name), itest.LongTTL/2)
		want(t, holder.take(script, token+1, "", "nobody"), isGone)
		want(t, other.take(script, token, "now", "nobody"), isGone)
		want(t, holder.renew(), isGranted)
		b.Admin.PExpire(t.Context(), key(b.Name), itest.LongTTL/2)
		want(t, holder.take(script, token, "", "bob"), isRefused)
		want(t, holder.take(script, token, "", "eve"), isRefused)
		for range 2 {
			holder.wantBreach("renew", holder.renew(), isBroken, "bob")
			holder.wantBreach("renew_one", holder.call("renew_one", "", ""), isBroken, "bob")
			holder.wantBreach("acquire", holder.acquire(), isBroken, "bob")
			holder.wantBreach("acquire", holder.askNoWait(), isBroken, "bob")
		}
		want(t, other.askNoWait(), isRefused)
		want(t, waiter.renew(), isQueued)
		if left := b.left(""); left > itest.LongTTL/2 || left < itest.LongTTL/2-itest.ShortWait {
			t.Errorf("%s: the lease has %v, want what it had", script, left)
		}
		if got, wanted := b.Admin.Get(t.Context(), key(b.Name)).Val(), "!"+holder.owner+" "; len(got) < len(wanted) || got[:len(wanted)] != wanted {
			t.Errorf("%s: the lease is %q", script, got)
		}
		other.release()
		holder.release()
		b.hears(heard, waiter.owner)
		want(t, waiter.renew(), isGranted)
		waiter.release()
		if script == "break" {
			holder.wantBreach("renew", holder.renew(), isGone, "bob")
		}
	}
}

// A marked lease is released by one key as well.
func TestRedisMarkedLeaseInACluster(t *testing.T) {
	b := NewBench(t)
	holder := b.acquisition("")
	token := want(t, holder.acquire(), isGranted)
	want(t, holder.take("break_one", token, "", "bob"), isRefused)
	holder.one("release", isGone)
	if left := b.left(""); left != -2 {
		t.Errorf("the lock is held for %v after its release", left)
	}
	token = want(t, holder.acquire(), isGranted)
	want(t, holder.take("break_one", token, "", "bob"), isRefused)
	if got := want(t, holder.take("break_one", token, "now", "bob"), isGranted); got != token {
		t.Errorf("the lease %d was ended, want %d", got, token)
	}
	want(t, holder.take("break_one", token, "now", "bob"), isGone)
}

// A lease that is ended at once passes to the first waiter that is alive, and doesn't come back.
func TestRedisLeaseEndedAtOnce(t *testing.T) {
	for _, marked := range []bool{false, true} {
		b := NewBench(t)
		heard := b.listen("one")
		holder, dead, waiter := b.acquisition("one"), b.acquisition("one"), b.acquisition("one")
		token := want(t, holder.acquire(), isGranted)
		want(t, dead.acquire(), isQueued)
		want(t, waiter.acquire(), isQueued)
		b.age(dead, itest.LongTTL)
		if marked {
			want(t, holder.take("break", token, "", "eve"), isRefused)
		}
		want(t, holder.take("break", token, "now", "bob"), isGranted)
		b.hears(heard, waiter.owner)
		if next := want(t, waiter.renew(), isGranted); next <= token {
			t.Errorf("the next token is %d, after %d", next, token)
		}
		want(t, holder.take("break", token, "now", "bob"), isGone)
		holder.wantBreach("renew", holder.renew(), isGone, "bob")
		holder.wantBreach("acquire", holder.acquire(), isGone, "bob")
		holder.release()
		want(t, holder.acquire(), isGone)
		want(t, waiter.renew(), isGranted)
		waiter.release()
	}
}
