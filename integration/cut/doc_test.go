// Package cut tests what becomes of holders whose packets are lost below TCP, on all services.
package cut
