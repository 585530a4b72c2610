package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/choice"
)

// The code for each backend compiles, and names each requirement as package locker does.
func TestOpenCodeCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the Go compiler")
	}
	var all []locker.Requirement
	for _, r := range requirements {
		all = append(all, r.req)
	}
	dir := t.TempDir()
	for backend := range goPackages {
		code := openCode(choice.Advice{Backend: backend, URL: backend + "://host/name?ttl=30s", Require: all})
		imports, body, _ := strings.Cut(code, ")\n")
		program := fmt.Sprintf("package main\n\nimport \"context\"\n%s)\n\nfunc main() {\nctx := context.Background()\n%s_, _ = l, err\n}\n", imports, body)
		file := filepath.Join(dir, backend+".go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", backend, err, out, program)
		}
	}
}

func TestChoosePrintsCode(t *testing.T) {
	code, stdout, stderr := runToEnd(t, environ(t), "choose", "--work", "other", "--among", "network", "--for", "correctness",
		"--have", "redis", "--data", "own", "--data", "sql", "--require", "order-fifo,silent-holder-expires,scope-network")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q, want 0 and nothing", code, stderr)
	}
	const want = `
  l, err := locker.Open(ctx, "redis://redis.example:6379/0?ttl=30s",
  	locker.FencingUntilDataLoss,
  	locker.ScopeNetwork,
  	locker.OrderFIFO,
  	locker.RequireTTL)
`
	if !strings.Contains(stdout, want) || !strings.Contains(stdout, `_ "github.com/fencedlock/locker/redisbackend" // makes redis:// known`) {
		t.Errorf("choose prints\n%swithout\n%s", stdout, want)
	}
}
