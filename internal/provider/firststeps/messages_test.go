package firststeps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// elsewhereSaid are texts that no literal has: those of other programs, and the plane of a failure, which is a value.
var elsewhereSaid = map[string]bool{
	"permission denied": true, "No space left on device": true, "control plane": true, "data plane": true,
}

// TestDocumentation_messagesAreThoseOfTheCode: what guides tell people to look for in a message is in one.
func TestDocumentation_messagesAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "templates/guides/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	texts, quotes := literals(t), 0
	for _, page := range pages {
		for _, quote := range quotedMessages(t, page) {
			quotes++
			for part := range strings.SplitSeq(quote, "...") {
				if part = strings.Trim(part, ` "`); !elsewhereSaid[part] && !strings.Contains(texts, part) {
					t.Errorf("%s: no message says %q", page, part)
				}
			}
		}
	}
	if quotes < 20 {
		t.Errorf("only %d messages found", quotes)
	}
}

// quotedMessages are the texts in the first column of the page's tables about messages.
func quotedMessages(t *testing.T, page string) (texts []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		switch head := strings.TrimPrefix(cells[0], "| "); {
		case head == "the message says", head == "the error says", head == "message":
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside:
			for _, quote := range quoted.FindAllStringSubmatch(cells[0], -1) {
				texts = append(texts, quote[1])
			}
		}
	}
	return texts
}

// literals are all texts in the code, one per line. Texts that are added to each other are one.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "lab" || entry.Name() == "tools") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, is := n.(ast.Expr)
			if !is {
				return true
			}
			if text := joined(e); text != "" {
				all.WriteString(text + "\n")
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// joined is the text of a literal, or of a sum with literals. Anything else in the sum is left out.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if left, right := joined(e.X), joined(e.Y); e.Op == token.ADD && left+right != "" {
			return left + right
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	}
	return ""
}
