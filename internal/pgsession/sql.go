package pgsession

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Quoted is an identifier as SQL.
func Quoted(identifier string) string { return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"` }

// Literal is a text as SQL.
func Literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		quoted = " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// setting is SQL that changes a setting of the session, and is true.
func setting(name, value string) string {
	return fmt.Sprintf("set_config('%s', '%s', false) IS NOT NULL", name, value)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
