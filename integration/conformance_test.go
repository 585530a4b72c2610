//go:build unix

package integration

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/fencedlock/locker/conformance"
)

// TestConformance runs the suite, and then the backend's own cases, on real servers. They are started when a chosen run needs
// them: -run 'TestConformance/redis$/B21' starts one Redis. Runs of different backends go on side by side, as they mostly wait.
func TestConformance(t *testing.T) {
	type backend struct {
		name    string
		harness func(*testing.T) conformance.Harness
	}
	backends := []backend{
		{"redis", redisHarness(redisStandalone)},
		{"redis-sentinel", redisHarness(redisSentinel)},
		{"redis-cluster", redisHarness(redisCluster)},
	}
	if os.Getenv("LOCKER_SOAK") != "" { // other versions
		backends = append(backends,
			backend{"redis7", redisHarness(lazily("redis7", startRedis))},
			backend{"redis7-cluster", redisHarness(lazily("redis7", startRedisCluster))},
			backend{"valkey", redisHarness(lazily("valkey", startRedis))},
			backend{"valkey-sentinel", redisHarness(lazily("valkey", startRedisSentinel))},
			backend{"valkey-cluster", redisHarness(lazily("valkey", startRedisCluster))},
		)
	}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			needServers(t)
			t.Parallel()
			conformance.Run(t, b.harness(t))
		})
	}
}

// turn is taken by every case; one that counts the goroutines of the whole process has it for itself.
var turn sync.RWMutex

var (
	isCase = regexp.MustCompile(`^[A-Z]+[0-9]`)
	alone  = regexp.MustCompile(`^G57-`)
)

// takeTurn is called by Harness.Setup, which comes before each case, and before the first with the test of the whole run.
func takeTurn(t conformance.T) {
	name := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
	switch {
	case alone.MatchString(name):
		turn.Lock()
		t.Cleanup(turn.Unlock)
	case isCase.MatchString(name):
		turn.RLock()
		t.Cleanup(turn.RUnlock)
	}
}
