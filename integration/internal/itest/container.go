//go:build unix

package itest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mobycontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/fencedlock/locker/integration/images"
)

// Container is a server of the tests. It keeps its files when it is stopped or killed. Main removes
// it, and [Started] does so earlier.
type Container struct{ ID string }

// Spec says what to run in a container.
type Spec struct {
	Image  string            // one of images.All
	Args   []string          // the whole command line
	Files  map[string]string // path and text of each
	Ports  []int             // published on 127.0.0.1 of the host, under the same number
	Inside *Container        // whose network is shared, with all that it publishes
}

// owner is the label of each container that a run of the tests has started. It names the host and
// the process of the run.
const owner = "locker.integration.owner"

func me() string {
	host, _ := os.Hostname()
	return host + "/" + strconv.Itoa(os.Getpid())
}

// engine is nil if there is a Docker engine.
var engine = sync.OnceValue(func() error { return images.Engine(context.Background()) })

// reported is set when a test has reported what is wrong with the engine. The other tests need not
// repeat that.
var reported atomic.Bool

// NeedServers skips a test that needs servers if the run wants none. If the run wants servers and
// the engine is missing, one test fails with the reason.
func NeedServers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs servers in containers")
	}
	err := engine()
	if err != nil && reported.Swap(true) {
		err = errors.New("no Docker engine")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Start starts a container. It returns when the process runs, which may be before it serves
// requests.
func Start(ctx context.Context, r Spec) (*Container, error) {
	image, err := images.Find(ctx, r.Image, func(step string) { fmt.Fprintln(os.Stderr, "images:", step) })
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, image); err != nil {
		return nil, err
	}
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithEntrypoint(r.Args[0]),
		testcontainers.WithCmd(r.Args[1:]...),
		testcontainers.WithLabels(map[string]string{owner: me()}),
		testcontainers.WithLogger(log.NewNoopLogger()),
	}
	for path, text := range r.Files {
		file := testcontainers.ContainerFile{Reader: strings.NewReader(text), ContainerFilePath: path, FileMode: 0o644}
		options = append(options, testcontainers.WithFiles(file))
	}
	bindings := make(network.PortMap)
	for _, port := range r.Ports {
		p, err := network.ParsePort(strconv.Itoa(port) + "/tcp")
		if err != nil {
			return nil, err
		}
		bindings[p] = []network.PortBinding{{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(port)}}
		options = append(options, testcontainers.WithExposedPorts(p.String()))
	}
	options = append(options, testcontainers.WithHostConfigModifier(func(config *mobycontainer.HostConfig) {
		config.PortBindings = bindings
		if r.Inside != nil {
			config.NetworkMode = mobycontainer.NetworkMode("container:" + r.Inside.ID)
		}
	}))
	c, err := testcontainers.Run(ctx, image.Ref, options...)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", r.Image, err)
	}
	if started, ok := ctx.Value(containersKey{}).(*containers); ok {
		started.add(c.GetContainerID())
	}
	return &Container{c.GetContainerID()}, nil
}

// containersKey is the key of a context's containers, to which Start adds what it starts.
type containersKey struct{}

type containers struct {
	mu  sync.Mutex
	ids []string
}

func (c *containers) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, id)
}

func (c *containers) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ids)
}

// remove removes containers with all their data. One that doesn't exist any more is no error.
func remove(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := images.Docker(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...)
	return err
}

var prepared struct {
	sync.Mutex
	done bool
}

// prepare configures testcontainers for this machine, once, and removes the containers that an
// earlier run has left.
func prepare(ctx context.Context, image images.Found) error {
	prepared.Lock()
	defer prepared.Unlock()
	if prepared.done {
		return nil
	}
	defaults := make(map[string]string)
	if image.Built { // then its reaper can't be pulled either
		defaults["TESTCONTAINERS_RYUK_DISABLED"] = "true"
	}
	// Inside a container testcontainers would look for ports at the gateway's address, and wait
	// without end if the engine is on this machine.
	host := os.Getenv("DOCKER_HOST")
	if _, err := os.Stat("/.dockerenv"); err == nil && (host == "" || strings.HasPrefix(host, "unix:")) {
		defaults["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1"
	}
	for name, value := range defaults {
		if _, set := os.LookupEnv(name); !set {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	prepared.done = true
	return removeLeftovers(ctx)
}

// removeLeftovers removes the containers of runs that were killed.
func removeLeftovers(ctx context.Context) error {
	return removeIf(ctx, func(owner string) bool { return !alive(owner) })
}

// alive reports whether the run that started a container may still be running. Containers that
// other hosts have started on this engine are left alone.
func alive(owner string) bool {
	host, text, _ := strings.Cut(owner, "/")
	pid, err := strconv.Atoi(text)
	if here, _ := os.Hostname(); host != here || err != nil {
		return true
	}
	err = syscall.Kill(pid, 0)
	return err == nil || !errors.Is(err, syscall.ESRCH)
}

// removeContainers removes the containers of this run.
func removeContainers() error {
	if !prepared.done {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return removeIf(ctx, func(owner string) bool { return owner == me() })
}

// removeIf removes containers by their owner, with all their data, and then networks. Another run
// may do the same: a container that is already being removed can't be removed again, and is gone
// soon.
func removeIf(ctx context.Context, cond func(owner string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := errors.Join(removeContainersIf(ctx, cond), removeNetworksIf(ctx, cond))
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func removeContainersIf(ctx context.Context, cond func(owner string) bool) error {
	list, err := images.Docker(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+owner, "--format", `{{.ID}} {{.Label "`+owner+`"}}`)
	if err != nil {
		return err
	}
	var ids []string
	for line := range strings.Lines(list) {
		id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		if cond(owner) {
			ids = append(ids, id)
		}
	}
	return remove(ctx, ids)
}
