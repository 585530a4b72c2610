package pgbackend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/pgbackend"
)

// The mapping may never change: two versions that run side by side must agree. The numbers were
// computed by Postgres, with the statement of docs/postgres.md.
func TestKeysGolden(t *testing.T) {
	for name, want := range map[string]pgbackend.Key{
		"a":                      -7204596988099779344,
		"A":                      6737508709488989446,
		"a/b":                    -7661585248761697020,
		"invoices/2026-11":       -1617811478675518397,
		" ":                      -6179660936933939484,
		"é":                      -2519584648101869436,
		"'; --":                  -6259445257558417741,
		strings.Repeat("z", 200): 7377426109599302700,
	} {
		if got := pgbackend.KeyOf("locker", "locker:", name); got != want {
			t.Errorf("the key of %q is %d, want %d", name, got, want)
		}
	}
	if got, want := pgbackend.KeyOf("locker", "", "a"), pgbackend.Key(156053109382756266); got != want {
		t.Errorf("the key of a without a prefix is %d, want %d", got, want)
	}
	if got, want := pgbackend.KeyOf("other", "locker:", "a"), pgbackend.Key(3342164172929644459); got != want {
		t.Errorf("the key of a in the schema other is %d, want %d", got, want)
	}
}

// The statement of docs/postgres.md has these for E'a\n3' and E'a\nline' in place of a name.
func TestKeysOfSlotsGolden(t *testing.T) {
	for slot, want := range map[int]pgbackend.Key{0: -7204596988099779344, 3: 7620057105296885700, 1000: -5094190249306005681, locker.LineSlot: -3964229538374481486} {
		text := pgbackend.TextOf("a", slot)
		if got := pgbackend.KeyOf("locker", "locker:", text); got != want {
			t.Errorf("the key of slot %d of a is %d, want %d", slot, got, want)
		}
		if name, got, ok := pgbackend.ParseText(text); name != "a" || got != slot || !ok {
			t.Errorf("ParseText(%q) = %q, %d, %v, want slot %d of a", text, name, got, ok, slot)
		}
	}
	if got, want := pgbackend.KeyOf("3", "locker:", "a"), pgbackend.KeyOf("locker", "locker:", pgbackend.TextOf("a", 3)); got == want {
		t.Error("a in the schema 3 has the key of slot 3 of a")
	}
	for _, text := range []string{"", "\n3", "a\n", "a\n0", "a\n3\n", "a\n3\n3", "a\nx", "\x00"} {
		if name, slot, ok := pgbackend.ParseText(text); ok {
			t.Errorf("ParseText(%q) = %q, %d, want none", text, name, slot)
		}
	}
}

// A prefix and a name are not the same as another prefix and the rest of the name.
func TestPrefixIsApart(t *testing.T) {
	if pgbackend.KeyOf("locker", "a", "bc") == pgbackend.KeyOf("locker", "ab", "c") {
		t.Error("a + bc and ab + c have the same key")
	}
}

// The smallest numbers of their types can't be written as such without quotes: -9223372036854775808
// is a numeric for Postgres.
func TestKeysAsSQL(t *testing.T) {
	for key, want := range map[pgbackend.Key][2]string{
		0:                    {"'0'::bigint", "'0'::integer, '0'::integer"},
		1:                    {"'1'::bigint", "'0'::integer, '1'::integer"},
		-1:                   {"'-1'::bigint", "'-1'::integer, '-1'::integer"},
		1<<32 | 5:            {"'4294967301'::bigint", "'1'::integer, '5'::integer"},
		1 << 31:              {"'2147483648'::bigint", "'0'::integer, '-2147483648'::integer"},
		-1 << 63:             {"'-9223372036854775808'::bigint", "'-2147483648'::integer, '0'::integer"},
		1<<63 - 1:            {"'9223372036854775807'::bigint", "'2147483647'::integer, '-1'::integer"},
		-3105865958331491554: {"'-3105865958331491554'::bigint", "'-723140771'::integer, '-777233634'::integer"},
	} {
		if got := [2]string{key.Lock(), key.Gate()}; got != want {
			t.Errorf("the lock and the gate of %d are %q, want %q", key, got, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("locker", "locker:", "a", "locker", "locker:", "A")
	f.Add("locker", "a", "bc", "locker", "ab", "c")
	f.Add("locker", "", "a", "locker", "a", "")
	f.Add("one", "", "a", "two", "", "a")
	f.Fuzz(func(t *testing.T, schema, prefix, name, schema2, prefix2, name2 string) {
		if locker.ValidName(name) != nil || locker.ValidName(name2) != nil || pgbackend.CheckPrefix(prefix) != nil || pgbackend.CheckPrefix(prefix2) != nil ||
			pgbackend.CheckSchema(schema) != nil || pgbackend.CheckSchema(schema2) != nil {
			t.Skip()
		}
		same := schema == schema2 && prefix == prefix2 && name == name2
		if (pgbackend.KeyOf(schema, prefix, name) == pgbackend.KeyOf(schema2, prefix2, name2)) != same {
			t.Errorf("%q %q %q and %q %q %q: the same: %v", schema, prefix, name, schema2, prefix2, name2, same)
		}
	})
}

func TestPrefixesAndSchemasRefused(t *testing.T) {
	for _, prefix := range []string{"a\x00", "\n", "\xff", "\u0085"} {
		if err := pgbackend.CheckPrefix(prefix); !errors.Is(err, locker.ErrOption) {
			t.Errorf("prefix %q: %v, want ErrOption", prefix, err)
		}
	}
	for _, prefix := range []string{"", "locker:", "é/{}'\"%"} {
		if err := pgbackend.CheckPrefix(prefix); err != nil {
			t.Errorf("prefix %q: %v, want nil", prefix, err)
		}
	}
	for _, schema := range []string{"", strings.Repeat("x", 64), "a\x00", "\xff"} {
		if err := pgbackend.CheckSchema(schema); !errors.Is(err, locker.ErrOption) {
			t.Errorf("schema %q: %v, want ErrOption", schema, err)
		}
	}
	for _, schema := range []string{"locker", strings.Repeat("x", 63), `a"b'c\`, "Ä ö"} {
		if err := pgbackend.CheckSchema(schema); err != nil {
			t.Errorf("schema %q: %v, want nil", schema, err)
		}
	}
}

func TestQuoting(t *testing.T) {
	for text, want := range map[string][2]string{
		"locker": {`"locker"`, `'locker'`},
		`a"b`:    {`"a""b"`, `'a"b'`},
		`a'b`:    {`"a'b"`, `'a''b'`},
		`a\'b`:   {`"a\'b"`, ` E'a\\''b'`},
	} {
		if got := [2]string{pgbackend.Quoted(text), pgbackend.Literal(text)}; got != want {
			t.Errorf("%s as an identifier and as a text is %q, want %q", text, got, want)
		}
	}
}

func TestMigrationNamesTheSchema(t *testing.T) {
	if sql := pgbackend.Migration("locker"); !strings.Contains(sql, `CREATE SEQUENCE IF NOT EXISTS "locker".locker_token `) {
		t.Errorf("Migration(locker) makes no sequence:\n%s", sql)
	}
	sql := pgbackend.Migration(`ap"p`)
	if strings.Contains(sql, `"locker"`) || strings.Count(sql, `"ap""p"`) < 4 {
		t.Errorf("Migration(ap\"p) is about another schema:\n%s", sql)
	}
}
