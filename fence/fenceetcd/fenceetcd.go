// Package fenceetcd checks fencing tokens in etcd, and so guards the data that is stored there. The
// lock may come from any backend.
//
//	mark := fenceetcd.Mark{KV: client, Key: "fences/invoices/42"}
//	if err := mark.Claim(ctx, lease.Token()); err != nil {
//		return err // matches fence.ErrStale: a newer holder was here
//	}
//	got, err := client.Get(ctx, "invoices/42")
//	…
//	_, err = mark.Commit(ctx, lease.Token(), nil, clientv3.OpPut("invoices/42", total))
//
// A mark is a key that never expires. Keep the marks apart from the data, as here below "fences/":
// a program that removes an object usually deletes all keys that begin with the object's
// (clientv3.WithPrefix), and a mark that is deleted with them lets a stale holder in with any
// token, which creates the object again. So a mark must outlive its object. Delete a mark only when
// no holder with a token smaller than the mark can still be at work.
//
// Read without clientv3.WithSerializable: that may be data from before the predecessor's last write.
//
// KV must be the client itself, or the same wrapper in all programs that write the data: a
// namespace (clientv3/namespace) changes the keys of the marks as well.
package fenceetcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/fence"
)

// Mark is the highest token that one resource has seen. Its methods are safe for concurrent use.
type Mark struct {
	KV  clientv3.KV // of the cluster that has the data
	Key string      // of the mark
}

// ErrCompare says that one of the caller's comparisons failed, and the token was not stale. Nothing
// was written.
var ErrCompare = errors.New("a comparison has failed")

// Claim raises the mark to token, or fails with an error that matches [fence.ErrStale]; see
// [fence.Guard]. It takes one round trip to read the mark, and one more to raise it. An error of the
// cluster leaves open whether the mark was raised. Claim may be called again with the same token.
func (m Mark) Claim(ctx context.Context, token locker.Token) error {
	if err := m.check(token); err != nil {
		return err
	}
	got, err := m.KV.Get(ctx, m.Key)
	if err != nil {
		return m.failed(err)
	}
	return m.raise(ctx, token, got)
}

// ClaimFrom is [Mark.Claim] with the token of the lease in ctx, which comes from [locker.Do] or
// [locker.WithLease]. It returns that token, for Commit. Where locks are nested, the lease is the
// one whose name is the mark's Key. If lock and mark have different names, find the token by the
// lock's name with [fence.TokenFrom], which has the rule and the errors, and use Claim.
func (m Mark) ClaimFrom(ctx context.Context) (locker.Token, error) {
	token, err := fence.TokenFrom(ctx, m.Key)
	if err == nil {
		err = m.Claim(ctx, token)
	}
	if err != nil {
		return 0, err
	}
	return token, nil
}

// raise raises the mark from the value that was read. If another claim was faster, it tries again
// from that claim's.
func (m Mark) raise(ctx context.Context, token locker.Token, got *clientv3.GetResponse) error {
	for {
		highest, revision, err := m.parse(got)
		switch {
		case err != nil:
			return err
		case highest > token:
			return &fence.StaleError{Resource: m.Key, Token: token, Highest: highest}
		case highest == token:
			return nil
		}
		r, err := m.KV.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(m.Key), "=", revision)).
			Then(clientv3.OpPut(m.Key, text(token))).
			Else(clientv3.OpGet(m.Key)).
			Commit()
		if err != nil {
			return m.failed(err)
		}
		if r.Succeeded {
			return nil
		}
		got = (*clientv3.GetResponse)(r.Responses[0].GetResponseRange())
	}
}

// Held is the comparison that the mark equals token, for a transaction of the caller's. It succeeds
// after Claim, until a larger token claims. A transaction that fails because of it is stale.
func (m Mark) Held(token locker.Token) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(m.Key), "=", text(token))
}

// Commit executes then, in one step, if the mark equals token and the comparisons ifs succeed; ifs
// and then may be empty. It needs a Claim before. When a larger token has claimed since, the error
// matches [fence.ErrStale]; when one of ifs fails, it matches [ErrCompare]. Then nothing was written. An
// error of the cluster leaves open whether then was executed, also where it says that there is no space:
// etcd executes the transaction that uses up the quota, and returns that error.
//
// After an error of the connection it may also be executed later, and undo what this lease has written
// since. So acquire the lock again after such an error, and claim with the new token, which shuts it out; or
// compare the revisions of the keys in ifs.
func (m Mark) Commit(
	ctx context.Context, token locker.Token, ifs []clientv3.Cmp, then ...clientv3.Op,
) (*clientv3.TxnResponse, error) {
	if err := m.check(token); err != nil {
		return nil, err
	}
	r, err := m.KV.Txn(ctx).
		If(append([]clientv3.Cmp{m.Held(token)}, ifs...)...).
		Then(then...).
		Else(clientv3.OpGet(m.Key)).
		Commit()
	if err != nil {
		return nil, m.failed(err)
	}
	if r.Succeeded {
		return r, nil
	}
	highest, _, err := m.parse((*clientv3.GetResponse)(r.Responses[0].GetResponseRange()))
	switch {
	case err != nil:
		return nil, err
	case highest > token:
		return nil, &fence.StaleError{Resource: m.Key, Token: token, Highest: highest}
	case highest < token:
		return nil, fmt.Errorf("fence: %q was not claimed with token %d", m.Key, token)
	}
	return nil, ErrCompare
}

func (m Mark) check(token locker.Token) error {
	if m.Key == "" {
		return errors.New("fence: the mark has no key")
	}
	if c, ok := m.KV.(*clientv3.Client); m.KV == nil || ok && c == nil {
		return fmt.Errorf("fence: %q: the mark has no client", m.Key)
	}
	return fence.CheckToken(token)
}

func (m Mark) failed(err error) error { return fmt.Errorf("fence: %q: %w", m.Key, err) }

// parse reads the mark and its revision; both are 0 where there is none.
func (m Mark) parse(got *clientv3.GetResponse) (locker.Token, int64, error) {
	if len(got.Kvs) == 0 {
		return 0, 0, nil
	}
	kv := got.Kvs[0]
	n, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil || n <= 0 || text(locker.Token(n)) != string(kv.Value) {
		return 0, 0, fmt.Errorf("fence: %q has the value %q, which is not a mark", m.Key, kv.Value)
	}
	return locker.Token(n), kv.ModRevision, nil
}

func text(token locker.Token) string { return strconv.FormatInt(int64(token), 10) }
