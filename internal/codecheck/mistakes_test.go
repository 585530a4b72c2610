package codecheck

import (
	"slices"
	"strings"
	"testing"
)

// A block that doesn't compile is found, at its line of the page, and only that.
func TestMistakes(t *testing.T) {
	cases := []struct{ name, code, want string }{
		{"right", "l, err := locker.Open(ctx, \"mem://\")\nif err != nil {\n\treturn err\n}\ndefer l.Close()\n", ""},
		{"left out", "if err := locker.ValidName(\"a\"); err != nil { … }\n…\nfunc f() int { … }\n", ""},
		{"alternatives", "l, err := membackend.New(), error(nil)\nl, err := pgbackend.New(ctx, nil)\nl.LockTx(ctx, nil, \"a\")\n", ""},
		{"whole file", "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(0) }\n", ""},
		{"function and statement", "import _ \"embed\"\n\nf()\n\nfunc f() {}\n", ""},
		{"option that is gone", "l, err := locker.Open(ctx, \"mem://\")\nl.Acquire(ctx, \"a\", locker.WithTimeout(0))\n", "11: undefined: locker.WithTimeout"},
		{"wrong type", "locker.Do(ctx, l, 42, nil)\n", "10: cannot use 42"},
		{"unknown name", "f(ctx, nobody)\n\nfunc f(context.Context, int) {}\n", "10: undefined: nobody (declare nobody in internal/codecheck/testdata/needs/unknown name.go)"},
		{"function", "func f() error {\n\treturn 1\n}\n", "11: cannot use 1"},
		{"mistake in a whole file", "package main\n\nfunc main() { os.Exitt(0) }\n", "12: undefined: os.Exitt"},
		{"syntax", "if err {\n", "13: expected"},
		{"ellipsis", "f(…)\n", "… may only be alone on its line"},
	}
	var blocks []block
	for _, tc := range cases {
		blocks = append(blocks, block{page: "docs/" + tc.name + ".md", line: 10, lang: "go", code: tc.code})
	}
	mistakes := check(t, "", blocks)
	for i, tc := range cases {
		var got []string
		for _, m := range mistakes {
			if rest, ok := strings.CutPrefix(m, blocks[i].page+":"); ok {
				got = append(got, rest)
			}
		}
		found := slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, tc.want) })
		if tc.want == "" && len(got) > 0 || tc.want != "" && !found {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
