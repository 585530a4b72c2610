// Observed is a program whose locks can be watched: it has a log, metrics for Prometheus and a page
// for operators. It works on invoices under locks until it is interrupted.
//
//	LOCKER_URL=redis://localhost:6379 go run .
//	curl localhost:9464/metrics
//	curl localhost:9464/debug/locks
//
// Without LOCKER_URL the locks are in memory. It is a module of its own, because the exporter for
// Prometheus has dependencies that users of package locker don't need.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/etcdbackend"    // etcd://
	_ "github.com/fencedlock/locker/filebackend"    // file:///directory
	_ "github.com/fencedlock/locker/membackend"     // mem://
	_ "github.com/fencedlock/locker/pgbackend"      // postgres://
	_ "github.com/fencedlock/locker/redisbackend"   // redis://
	_ "github.com/fencedlock/locker/redlockbackend" // redlock://
	_ "github.com/fencedlock/locker/zkbackend"      // zk://
)

func main() {
	listen := flag.String("listen", "localhost:9464", "`address` of the metrics and of the page for operators")
	workers := flag.Int("workers", 4, "`number` of workers")
	verbose := flag.Bool("verbose", false, "log each event")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *workers, *verbose)
	stop()
	if err != nil {
		slog.Error("observed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, workers int, verbose bool) error {
	url := os.Getenv("LOCKER_URL")
	if url == "" {
		url = "mem://"
	}
	l, err := locker.Open(ctx, url)
	if err != nil {
		return err
	}
	defer l.Close()

	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	handler, stop, err := observed(l, log) //nolint:contextcheck // spans and metrics outlive each context
	if err != nil {
		return err
	}
	defer stop()

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.Info("watch it", "metrics", "http://"+listener.Addr().String()+"/metrics", "locks", "http://"+listener.Addr().String()+"/debug/locks")

	work(ctx, l, workers, log)
	err = server.Close()
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		return ended
	}
	return err
}
