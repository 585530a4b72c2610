package conformance_test

import (
	"context"
	"net"
	"net/rpc"
	"sync"
	"testing"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/conformance"
	"github.com/fencedlock/locker/conformance/proxy"
	"github.com/fencedlock/locker/driver"
)

// lockServer is a toy that is reached by TCP, with net/rpc.
type lockServer struct {
	toy  *toy
	addr string
}

// startLockServer serves until the process ends.
func startLockServer() (*lockServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &lockServer{newToy(flaws{}), listener.Addr().String()}
	r := rpc.NewServer()
	if err := r.RegisterName("Lock", &LockService{s.toy}); err != nil {
		return nil, err
	}
	go r.Accept(listener)
	return s, nil
}

// LockService is what the server exports.
type LockService struct{ toy *toy }

// LockArgs are the arguments of each method.
type LockArgs struct {
	Name, Owner string
	TTL         time.Duration
}

// LockReply is the result of each method.
type LockReply struct {
	OK    bool
	Token locker.Token
}

func (s *LockService) Acquire(a *LockArgs, r *LockReply) error {
	s.toy.locked(func() { r.Token, r.OK = s.toy.acquire(a.Name, a.Owner, nil, a.TTL, time.Now()) })
	return nil
}

func (s *LockService) Renew(a *LockArgs, r *LockReply) error {
	s.toy.locked(func() { r.OK = s.toy.renew(a.Name, a.Owner, a.TTL, time.Now()) == nil })
	return nil
}

func (s *LockService) Release(a *LockArgs, r *LockReply) error {
	s.toy.locked(func() { s.toy.release(a.Name, a.Owner, time.Now()) })
	r.OK = true
	return nil
}

// dialFunc is the type of [net.Dialer.DialContext] and of [proxy.Network.Dial].
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// mistake is what a driver does wrong, if anything.
type mistake int

const (
	noMistake  mistake = iota
	fromReply          // deadlines count from the replies
	trustsIdle         // idle connections are used though others have shown that they may be dead
)

// open opens a Locker whose connections are made by dial.
func (s *lockServer) open(dial dialFunc, wrong mistake) locker.Locker {
	d := &tcpDriver{dial: dial, addr: s.addr, wrong: wrong, guarantees: s.toy.guarantees()}
	d.guarantees.Break = locker.BreakNone
	return driver.New(d, driver.Config{TTL: 30 * time.Second, Features: locker.FeatureTTL})
}

// tcpDriver polls the server, with a connection for each request. With the mistake trustsIdle it keeps
// connections.
type tcpDriver struct {
	dial       dialFunc
	addr       string
	wrong      mistake
	guarantees locker.Guarantees

	mu   sync.Mutex
	idle []*rpc.Client
}

type tcpLock struct {
	d     *tcpDriver
	args  LockArgs
	clear bool // the server has nothing of this acquisition
}

func (d *tcpDriver) Guarantees() locker.Guarantees { return d.guarantees }

func (d *tcpDriver) Lock(req locker.Request, _ func(error)) (driver.Lock, error) {
	return &tcpLock{d: d, args: LockArgs{Name: req.Name, Owner: driver.NewOwner(), TTL: req.TTL}}, nil
}

func (d *tcpDriver) Renew(ctx context.Context, locks []driver.Lock, report func(int, driver.Instant, error)) {
	for i, lock := range locks {
		reply, base, err := d.call(ctx, "Lock.Renew", &lock.(*tcpLock).args)
		if err == nil && !reply.OK {
			err = locker.ErrLost
		}
		report(i, base, err)
	}
}

func (d *tcpDriver) Close(context.Context) error {
	for c := d.takeIdle(); c != nil; c = d.takeIdle() {
		_ = c.Close()
	}
	return nil
}

func (l *tcpLock) Acquire(ctx context.Context) (driver.Grant, error) {
	l.clear = false
	reply, base, err := l.d.call(ctx, "Lock.Acquire", &l.args)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case !reply.OK:
		l.clear = true
		return driver.Grant{}, &driver.HeldError{AskWithin: 50 * time.Millisecond}
	}
	return driver.Grant{Token: reply.Token, Base: base, TTL: l.args.TTL}, nil
}

func (l *tcpLock) Release(ctx context.Context) error {
	if l.clear {
		return nil
	}
	_, _, err := l.d.call(ctx, "Lock.Release", &l.args)
	return err
}

// call sends one request. base is when it was sent, or, as the mistake has it, when the reply came.
func (d *tcpDriver) call(ctx context.Context, method string, args *LockArgs) (r LockReply, base driver.Instant, err error) {
	ctx, cancel := context.WithTimeout(ctx, args.TTL/4)
	defer cancel()
	client, err := d.client(ctx)
	if err != nil {
		return r, 0, err
	}
	reply := new(LockReply) // not r: the reply may come when this call has returned
	base = driver.Stamp()
	select {
	case call := <-client.Go(method, args, reply, make(chan *rpc.Call, 1)).Done:
		d.put(client)
		if d.wrong == fromReply {
			base = driver.Stamp()
		}
		return *reply, base, call.Error
	case <-ctx.Done():
		_ = client.Close()
		return r, 0, context.Cause(ctx)
	}
}

// client returns an idle connection, or a new one.
func (d *tcpDriver) client(ctx context.Context) (*rpc.Client, error) {
	if c := d.takeIdle(); c != nil {
		return c, nil
	}
	conn, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	return rpc.NewClient(conn), nil
}

func (d *tcpDriver) takeIdle() (c *rpc.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.idle) - 1; last >= 0 {
		c, d.idle = d.idle[last], d.idle[:last]
	}
	return c
}

// put ends a connection on which there was an answer, or keeps it.
func (d *tcpDriver) put(c *rpc.Client) {
	if d.wrong != trustsIdle {
		_ = c.Close()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, c)
}

// tcpHarness is the harness of a third party that has a proxy and no other hook.
func tcpHarness(s *lockServer, wrong mistake) conformance.Harness {
	linked := func(t conformance.T) (locker.Locker, *proxy.Network) {
		network := proxy.Start(t)
		return s.open(network.Dial, wrong), network
	}
	return conformance.Harness{
		TTL: 1500 * time.Millisecond,
		Open: func(conformance.T) locker.Locker {
			return s.open(new(net.Dialer).DialContext, wrong)
		},
		Hooks: conformance.Hooks{
			Linked: func(t conformance.T) (locker.Locker, conformance.Link) { return linked(t) },
		},
	}
}

// TestProxy shows that a proxy makes a link of a service that is reached by TCP, and what it is
// for: a deadline that counts from the reply fails the case that is named for it, and passes all
// that can be asked without a proxy.
func TestProxy(t *testing.T) {
	t.Parallel()
	s, err := startLockServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("deadline counts from the request", func(t *testing.T) {
		t.Parallel()
		ids := failing(t, tcpHarness(s, noMistake), "C25", "C27", "C28", "C29.2", "D35", "D36", "F47", "F48.1",
			"F52", "F52.1", "F52.2", "F52.3", "F52.4", "F52.5", "F52.6")
		if len(ids) > 0 {
			t.Errorf("%v fail, want none", ids)
		}
	})
	t.Run("deadline counts from the reply", func(t *testing.T) {
		t.Parallel()
		h := tcpHarness(s, fromReply)
		// With a long TTL the holder believes in its lease for long enough to be seen.
		h.TTL = 4 * time.Second
		for range 3 { // on a busy machine the other Locker may come too late
			if len(failed(t, h, "F48.1")) > 0 {
				return
			}
		}
		t.Error("F48.1 passes, and should fail")
	})
	t.Run("connections that were forgotten are tried one by one", func(t *testing.T) {
		t.Parallel()
		if ids := failed(t, tcpHarness(s, trustsIdle), "F52.1", "F52.2"); len(ids) < 2 {
			t.Errorf("%v fail, want F52.1 and F52.2", ids)
		}
	})
	t.Run("deadline counts from the reply, without a proxy", func(t *testing.T) {
		t.Parallel()
		h := tcpHarness(s, fromReply)
		h.Linked = nil
		if ids := failing(t, h, "C25", "C30", "C31", "C32", "F48.1"); len(ids) > 0 {
			t.Errorf("%v fail; nothing was known to show the mistake without a proxy", ids)
		}
	})
}
