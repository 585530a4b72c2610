// Counter adds to a number in a storage, under a lock. You choose the lock service and the storage:
//
//	go run ./examples/counter --lock etcd://127.0.0.1:2379 --data postgres://me@127.0.0.1/test --updates 10
//
// Start it several times at once. Each update is a read and a write, so one of two simultaneous
// updates would be lost; the lock keeps updates apart. With --stop the program stops itself between
// the read and the write of the first update, as a machine does that is migrated. Continue it with
// kill -CONT when other processes have had the lock: its late write is refused, because its token
// is old. With --no-fence the storage doesn't check the token, and the updates of the other
// processes are lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/etcdbackend" // etcd://
	"github.com/fencedlock/locker/fence"
	_ "github.com/fencedlock/locker/filebackend"    // file://
	_ "github.com/fencedlock/locker/pgbackend"      // postgres://
	_ "github.com/fencedlock/locker/redisbackend"   // redis://
	_ "github.com/fencedlock/locker/redlockbackend" // redlock://
	_ "github.com/fencedlock/locker/zkbackend"      // zk://
)

func main() {
	log.SetFlags(0)
	var c counter
	lockURL := flag.String("lock", "", "URL of the lock service")
	dataURL := flag.String("data", "", "URL of the storage: postgres://, redis:// or etcd://")
	unfenced := flag.Bool("no-fence", false, "let the storage take every write, whatever its token")
	flag.StringVar(&c.name, "name", "counter", "of the lock and of the number")
	flag.DurationVar(&c.ttl, "ttl", 0, "of the leases")
	flag.IntVar(&c.updates, "updates", 1, "how often to add 1")
	flag.BoolVar(&c.stop, "stop", false, "stop this process between read and write of the first update")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var err error
	if c.locker, err = locker.Open(ctx, *lockURL, locker.FencingUntilDataLoss); err != nil {
		log.Fatal(err)
	}
	defer c.locker.Close()
	if c.data, err = openStore(ctx, *dataURL, c.name, !*unfenced); err != nil {
		log.Fatal(err)
	}
	defer c.data.Close()
	if err := c.run(ctx); err != nil {
		log.Fatal(err)
	}
}

type counter struct {
	locker  locker.Locker
	data    store
	name    string
	ttl     time.Duration
	updates int
	stop    bool
}

func (c *counter) run(ctx context.Context) error {
	for range c.updates {
		if err := c.update(ctx); err != nil {
			return err
		}
		c.stop = false
	}
	n, err := c.data.Look(ctx)
	if err == nil {
		fmt.Println("the number is", n)
	}
	return err
}

// update adds 1, and tries again if the storage refuses the write as too late.
func (c *counter) update(ctx context.Context) error {
	for {
		var opts []locker.Option
		if c.ttl > 0 {
			opts = append(opts, locker.WithTTL(c.ttl))
		}
		lease, err := c.locker.Acquire(ctx, c.name, opts...)
		if err != nil {
			return err
		}
		err = c.add(ctx, lease.Token())
		// It doesn't matter whether the lease was lost in the meantime: the storage has decided.
		if e := lease.Release(ctx); e != nil && !errors.Is(e, locker.ErrLost) {
			log.Println(e)
		}
		if !errors.Is(err, fence.ErrStale) {
			return err
		}
		fmt.Println("refused:", err)
	}
}

// add is the critical section.
func (c *counter) add(ctx context.Context, token locker.Token) error {
	n, err := c.data.Read(ctx, token)
	if err != nil {
		return err
	}
	if c.stop {
		c.stop = false
		fmt.Println("stopped with token", token)
		stopProcess()
	}
	if err := c.data.Write(ctx, token, n+1); err != nil {
		return err
	}
	fmt.Println("written with token", token)
	return nil
}
