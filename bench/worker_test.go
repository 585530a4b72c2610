package main

import (
	"strings"
	"testing"
	"time"
)

func TestWorkerReportsItsErrors(t *testing.T) {
	h, err := startHelper(t.Context(), selfPath(), "worker")
	if err != nil {
		t.Fatal(err)
	}
	defer h.stop()
	if _, err := workerPeer("other", "sundial", []string{"127.0.0.1:1"}, nil, h).open(t.Context()); err == nil || !strings.Contains(err.Error(), "sundial") {
		t.Errorf("open = %v for an unknown backend, want an error that names it", err)
	}
	var s Sample
	if err := h.call(t.Context(), "Worker.Load", LoadArgs{1, time.Millisecond, time.Second}, &s); err == nil {
		t.Error("Load = nil without a client, want an error")
	}
}
