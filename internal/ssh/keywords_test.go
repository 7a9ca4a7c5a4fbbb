package ssh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The guide Hosts has a table of the keywords of ssh_config that count. It is that of the code: each keyword is there,
// and no other is.
func TestConfig_guideListsKeywords(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../templates/guides/hosts.md")
	noError(t, err)
	_, table, _ := strings.Cut(string(guide), "| keywords | effect |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for row := range strings.Lines(table) {
		words := strings.SplitN(row, "|", 3)[1]
		for _, keyword := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(words, -1) {
			documented[strings.ToLower(keyword[1])] = true
		}
	}
	read := keywordsRead(t)
	if len(read) < 25 {
		t.Fatalf("only %d keywords were found in the code: %q", len(read), slices.Sorted(maps.Keys(read)))
	}
	for keyword := range read {
		if !documented[keyword] {
			t.Errorf("the table lacks %s, which is read", keyword)
		}
	}
	for keyword := range documented {
		if !read[keyword] {
			t.Errorf("the table has %s, which isn't read", keyword)
		}
	}
}

// keywordsRead are the keywords that the package's code asks the options for, and those that are instructions to the
// reader of the files.
func keywordsRead(t *testing.T) map[string]bool {
	t.Helper()
	read := map[string]bool{"host": true, "match": true, "include": true}
	note := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			keyword, err := strconv.Unquote(literal.Value)
			noError(t, err)
			read[keyword] = true
		}
	}
	files, err := filepath.Glob("*.go")
	noError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		noError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr: // o.firstArgument("port"), configInt(o, "port", defaultPort)
				switch called := n.Fun.(type) {
				case *ast.SelectorExpr:
					if called.Sel.Name == "firstArgument" {
						note(n.Args[0])
					}
				case *ast.Ident:
					if called.Name == "configInt" || called.Name == "configDuration" {
						note(n.Args[1])
					}
				}
			case *ast.IndexExpr: // o["identityfile"]
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "o" {
					note(n.Index)
				}
			case *ast.CompositeLit: // {"ciphers", &a.ciphers, ...}
				if len(n.Elts) > 1 {
					if _, pointer := n.Elts[1].(*ast.UnaryExpr); pointer {
						note(n.Elts[0])
					}
				}
			case *ast.KeyValueExpr: // methodKey: "pubkeyauthentication"
				if key, ok := n.Key.(*ast.Ident); ok && strings.HasPrefix(key.Name, "method") {
					note(n.Value)
				}
			}
			return true
		})
	}
	return read
}
