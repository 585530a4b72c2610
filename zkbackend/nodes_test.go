package zkbackend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/zkbackend"
)

// Locks that are held while a program is updated must not change their nodes.
func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"orders":       "orders",
		"a/b":          "a%2Fb",
		"/":            "%2F",
		".":            "%2E",
		"..":           "%2E.",
		"...":          "...",
		"a..b":         "a..b",
		"%":            "%25",
		"%2F":          "%252F",
		"a b":          "a%20b",
		"A":            "A",
		"ä":            "%C3%A4",
		"日本":           "%E6%97%A5%E6%9C%AC",
		"😀":            "%F0%9F%98%80",
		"\u00a0":       "%C2%A0",
		"\uf000":       "%EF%80%80",
		`a\b"'{}~!*?&`: `a\b"'{}~!*?&`,
		"zookeeper":    "zookeeper",
	} {
		if got := zkbackend.Escape(name); got != want {
			t.Errorf("Escape(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNodesOfSlots(t *testing.T) {
	for _, tc := range []struct {
		name string
		slot int
		want string
	}{
		{"orders", 0, "/locks/orders"}, {"orders", 3, "/locks/orders%s3"}, {"a/b", 1000, "/locks/a%2Fb%s1000"},
		{".", locker.LineSlot, "/locks/%2E%sline"}, {"%s3", 0, "/locks/%25s3"},
	} {
		got := zkbackend.Dir("/locks", tc.name, tc.slot)
		if got != tc.want {
			t.Errorf("the node of slot %d of %q is %q, want %q", tc.slot, tc.name, got, tc.want)
		}
		if name, slot, ok := zkbackend.ParseDir(strings.TrimPrefix(got, "/locks/")); name != tc.name || slot != tc.slot || !ok {
			t.Errorf("ParseDir(%q) = %q, %d, %v, want slot %d of %q", got, name, slot, ok, tc.slot, tc.name)
		}
	}
	for _, node := range []string{"", "%s3", "a%s", "a%s0", "a%s03", "a%s3%s3", "a%2f", "a%sx"} {
		if name, slot, ok := zkbackend.ParseDir(node); ok {
			t.Errorf("ParseDir(%q) = %q, %d, want none", node, name, slot)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a/b", "a%2Fb")
	f.Add(".", "%2E")
	f.Add("..", "%2E.")
	f.Fuzz(func(t *testing.T, a, b string) {
		one, two := zkbackend.Escape(a), zkbackend.Escape(b)
		if (one == two) != (a == b) {
			t.Errorf("%q and %q are %q and %q", a, b, one, two)
		}
		if a != "" && (one == "." || one == ".." || strings.ContainsFunc(one, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' })) {
			t.Errorf("%q is %q, which is no name of a node", a, one)
		}
	})
}

func TestOrderOfNodes(t *testing.T) {
	owner := func(c string) string { return strings.Repeat(c, 32) + "-" }
	for _, tc := range []struct {
		names, want []string
		overflow    bool
	}{
		{nil, nil, false},
		{[]string{owner("a") + "0000000002", owner("b") + "0000000001"}, []string{owner("b") + "0000000001", owner("a") + "0000000002"}, false},
		{[]string{owner("b") + "0000000010", owner("a") + "9"}, []string{owner("a") + "9", owner("b") + "0000000010"}, false},
		{[]string{"lock-0000000001", owner("a"), owner("a") + "x", "0000000000", owner("a") + "0000000003"}, []string{owner("a") + "0000000003"}, false},
		{[]string{owner("a") + "2147483647", owner("b") + "-2147483648"}, []string{owner("b") + "-2147483648", owner("a") + "2147483647"}, true},
		{[]string{owner("a") + "2147483647", owner("b") + "0000000001"}, []string{owner("b") + "0000000001", owner("a") + "2147483647"}, true},
	} {
		got, overflow := zkbackend.Order(tc.names)
		if !slices.Equal(got, tc.want) || overflow != tc.overflow {
			t.Errorf("Order(%q) = %q, %v, want %q, %v", tc.names, got, overflow, tc.want, tc.overflow)
		}
	}
}

func TestChroot(t *testing.T) {
	for _, root := range []string{"/locker", "/a/b/c", "/a.b/…", "/zookeeper2", "/a/zookeeper"} {
		if err := zkbackend.CheckChroot(root); err != nil {
			t.Errorf("CheckChroot(%q) = %v, want nil", root, err)
		}
	}
	for _, root := range []string{"", "/", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/zookeeper", "/zookeeper/a", "/a\x00", "/a\n", "/\u0085", "/\ue000", "/😀", "/\xff"} {
		if err := zkbackend.CheckChroot(root); !errors.Is(err, locker.ErrOption) {
			t.Errorf("CheckChroot(%q) = %v, want ErrOption", root, err)
		}
	}
}
