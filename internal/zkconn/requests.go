package zkconn

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fencedlock/locker/driver"
)

// The requests of a session. go-zookeeper knows no contexts: a request ends with an answer or with
// its connection, which the wire bounds. [Within] lets a caller leave earlier.

// Within calls ask, and returns Unanswered if ctx is over earlier. ask goes on until its request
// ends.
func Within[T any](ctx context.Context, s *Session, ask func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	go func() {
		value, err := ask()
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), s.Unanswered()
	}
}

// Exists returns what the server knows of a node; nil if there is no such node.
func (s *Session) Exists(path string) (*zk.Stat, error) {
	there, stat, err := s.client.Exists(path)
	if err != nil || !there {
		return nil, err
	}
	return stat, nil
}

// Children lists a node's children, in no order.
func (s *Session) Children(path string) ([]string, *zk.Stat, error) { return s.client.Children(path) }

// GetAndWatch reads a node's data and watches the node: Events.NodeDeleted or NodeChanged is called
// once. If there is no such node the error is zk.ErrNoNode, and nothing is watched. It also returns
// when it was sent.
//
// The wire makes a watch of the plain read (see wire.Write), because go-zookeeper's GetW keeps each
// watch until it fires, and sets it again after a connect by a request whose failure it only logs.
func (s *Session) GetAndWatch(path string) (data []byte, stat *zk.Stat, sent driver.Instant, err error) {
	sent, err = s.read(func() (err error) {
		data, stat, err = s.client.Get(path)
		return err
	})
	return data, stat, sent, err
}

// Get reads a node's data and what the server knows of the node, and watches nothing.
func (s *Session) Get(path string) ([]byte, *zk.Stat, error) { return s.client.Get(unwatched + path) }

// Create creates a persistent node.
func (s *Session) Create(path string, acl []zk.ACL) error {
	_, err := s.client.Create(path, nil, zk.FlagPersistent, acl)
	return err
}

// CreateContainer creates a node that the servers remove some time after its last child has gone.
func (s *Session) CreateContainer(path string, acl []zk.ACL) error {
	_, err := s.client.CreateContainer(path, nil, zk.FlagContainer, acl)
	return err
}

// Delete deletes a node, whatever its version.
func (s *Session) Delete(path string) error {
	_, err := s.write(func() error { return s.client.Delete(path, -1) })
	return err
}

// SetData replaces a node's data, if the node has that version.
func (s *Session) SetData(path string, data []byte, version int32) error {
	_, err := s.write(func() error {
		_, err := s.client.Set(path, data, version)
		return err
	})
	return err
}

// Transaction executes all operations or none, and returns when it was sent.
func (s *Session) Transaction(ops ...any) (results []zk.MultiResponse, sent driver.Instant, err error) {
	sent, err = s.write(func() (err error) {
		results, err = s.client.Multi(ops...)
		return err
	})
	return results, sent, err
}

// Version is a node, and how often its data was written since it was created.
type Version struct {
	Path    string
	Version int32
}

// AnyVersion is every version.
const AnyVersion = -1

// Check has the quorum check, in one transaction, that nodes exist, have these versions and may be
// read. bad is the index of the first one for which that isn't so, -1 if the request failed for another
// reason. It returns when it was sent.
func (s *Session) Check(nodes []Version) (sent driver.Instant, bad int, err error) {
	ops := make([]any, len(nodes))
	for i, n := range nodes {
		ops[i] = &zk.CheckVersionRequest{Path: n.Path, Version: n.Version}
	}
	sent = driver.Stamp()
	results, err := s.client.Multi(ops...)
	if Broken(err) { // nothing was created or deleted, whether it arrived or not
		return sent, -1, err
	}
	s.noteWrite(sent, true)
	if err != nil { // results before the bad one have no error, results after it have another one
		return sent, slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil }), err
	}
	return sent, -1, nil
}

// ReadRoot reads something that always exists, and returns when it was sent: a sign of life.
func (s *Session) ReadRoot() (sent driver.Instant, err error) {
	return s.read(func() error {
		_, _, err := s.client.Exists("/")
		return err
	})
}
