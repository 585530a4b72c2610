// Package cut tests, on all services, holders whose packets are lost below TCP.
package cut
