package etcdbackend_test

import (
	"context"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/locker/etcdbackend"
)

// New uses a client that the program has anyway. The program closes the client after the Locker.
func ExampleNew() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"etcd1:2379", "etcd2:2379", "etcd3:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	l, err := etcdbackend.New(ctx, client, etcdbackend.WithPrefix("billing/"))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}
