package ui

import (
	_ "embed" // of the page
	"net/http"
)

var (
	//go:embed page/index.html
	pageHTML []byte
	//go:embed page/page.js
	pageJS []byte
	//go:embed page/words.js
	wordsJS []byte
	//go:embed page/break.js
	breakJS []byte
	//go:embed page/page.css
	pageCSS []byte
)

// pages are the files of the page, by their path. They hold no data, so that they need no token:
// the page asks for it.
var pages = map[string]http.Handler{
	"/{$}":      file{"text/html; charset=utf-8", pageHTML},
	"/page.js":  file{"text/javascript; charset=utf-8", pageJS},
	"/words.js": file{"text/javascript; charset=utf-8", wordsJS},
	"/break.js": file{"text/javascript; charset=utf-8", breakJS},
	"/page.css": file{"text/css; charset=utf-8", pageCSS},
}

type file struct {
	kind string
	text []byte
}

func (f file) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.text) // a browser that has gone
}
