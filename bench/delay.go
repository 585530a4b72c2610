package main

import (
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Delay is the helper that adds a round trip to the way to servers: half of it in each direction.
// It keeps the order, and doesn't limit how much is under way. The exported methods are calls.
type Delay struct {
	oneWay time.Duration
	queue  delayQueue
}

// DelayArgs say what Delay.Start should do.
type DelayArgs struct {
	Added   time.Duration // to a round trip
	Servers []string
	CPU     int // on which it runs; -1: on any
}

// Start starts to listen, and returns an address for each server.
func (d *Delay) Start(args DelayArgs, addrs *[]string) error {
	if args.CPU >= 0 {
		if err := pinSelf(args.CPU); err != nil {
			return err
		}
	}
	// The thread that waits keeps its right to execute Go code for a moment. The others need theirs.
	runtime.GOMAXPROCS(4)
	d.oneWay = args.Added / 2
	d.queue.arrived = sync.NewCond(&d.queue.mu)
	go d.queue.run()
	for _, server := range args.Servers {
		addr, err := d.listen(server)
		if err != nil {
			return err
		}
		*addrs = append(*addrs, addr)
	}
	return nil
}

func (d *Delay) listen(server string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go d.relay(near.(*net.TCPConn), server)
		}
	}()
	return l.Addr().String(), nil
}

func (d *Delay) relay(near *net.TCPConn, server string) {
	far, err := net.Dial("tcp", server)
	if err != nil {
		_ = near.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { d.read(near, far.(*net.TCPConn)) })
	both.Go(func() { d.read(far.(*net.TCPConn), near) })
	both.Wait()
	d.queue.close(near, far, d.oneWay)
}

// read queues what comes from one end for the other, until the stream ends.
func (d *Delay) read(from, to *net.TCPConn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			d.queue.add(slices.Clone(buf[:n]), to, d.oneWay)
		}
		if err != nil {
			d.queue.add(nil, to, d.oneWay)
			return
		}
	}
}

// delayQueue is all data that is under way, in the order in which it arrives: the delay is the same
// for all.
type delayQueue struct {
	mu       sync.Mutex
	arrived  *sync.Cond
	underWay []delayed
	late     []float64 // ms, of the last messages
	next     int       // of late, to be written over
}

// delayed is what happens at a later time.
type delayed struct {
	due    time.Time
	happen func()
}

// add queues data. No data is the end of the stream.
func (q *delayQueue) add(data []byte, to *net.TCPConn, delay time.Duration) {
	q.append(delay, func() {
		if data == nil {
			_ = to.CloseWrite()
		} else if _, err := to.Write(data); err != nil {
			_ = to.Close() // its reader ends, and then the other end's stream
		}
	})
}

// close closes both ends of a connection when everything that is under way has arrived.
func (q *delayQueue) close(near, far net.Conn, delay time.Duration) {
	q.append(delay, func() {
		_ = near.Close()
		_ = far.Close()
	})
}

func (q *delayQueue) append(delay time.Duration, happen func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.underWay = append(q.underWay, delayed{time.Now().Add(delay), happen})
	if len(q.underWay) == 1 {
		q.arrived.Signal()
	}
}

// run passes on what is due. One thread does it for all connections, because only a thread that
// waits in the system wakes exactly: Go's timers are late by up to a millisecond in an idle process.
// What is written is small, so that it fits into the buffers of a socket.
func (q *delayQueue) run() {
	runtime.LockOSThread()
	exactSleeps()
	for {
		next := q.first()
		if wait := time.Until(next.due); wait > 0 {
			exactSleep(wait)
		}
		late := time.Since(next.due)
		next.happen()
		q.happened(late)
	}
}

func (q *delayQueue) first() delayed {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.underWay) == 0 {
		q.arrived.Wait()
	}
	return q.underWay[0]
}

// keptLateness is how many messages count in the lateness.
const keptLateness = 1 << 16

func (q *delayQueue) happened(late time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.underWay = q.underWay[1:]
	if len(q.late) < keptLateness {
		q.late = append(q.late, milliseconds(late))
		return
	}
	q.late[q.next%keptLateness] = milliseconds(late)
	q.next++
}

// Lateness is how exact the delay is, in ms.
type Lateness struct{ P50, P99 float64 }

// Lateness returns how late the last messages were passed on.
func (d *Delay) Lateness(_ int, reply *Lateness) error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	reply.P50, reply.P99 = quantiles(slices.Clone(d.queue.late))
	return nil
}

// Echo returns how much longer an echo takes through the proxy than on the direct way.
func (d *Delay) Echo(count int, reply *Lateness) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	distant, err := d.listen(l.Addr().String())
	if err != nil {
		return err
	}
	direct, err := echoTimes(l.Addr().String(), count)
	if err != nil {
		return err
	}
	through, err := echoTimes(distant, count)
	if err != nil {
		return err
	}
	usual, _ := quantiles(direct)
	reply.P50, reply.P99 = quantiles(through)
	reply.P50 -= usual
	reply.P99 -= usual
	return nil
}

// echoTimes returns how long each of count echoes took, in ms.
func echoTimes(addr string, count int) (times []float64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	buf := make([]byte, 16)
	for range count {
		began := time.Now()
		if _, err := conn.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			return nil, err
		}
		times = append(times, milliseconds(time.Since(began)))
	}
	return times, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
