// Package zkconn is go-zookeeper as a lock needs it. It knows nothing of locks.
package zkconn
