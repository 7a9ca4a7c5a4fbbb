package tfdiag_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// terraformsWords are words of Terraform's users. "planned" is none: a drain is planned, and so are a pool's directory
// and a VM's power.
var terraformsWords = regexp.MustCompile(`(?i)\b(terraform|apply|applies|applied|plans?|provider|configurations?|` +
	`imports?|imported|create_before_destroy|taint|data source|resource's|in the state|from the state)\b`)

// otherMeanings are literals below the provider in which such a word has another meaning.
var otherMeanings = []string{
	"provider", "the provider", // Where an eviction strategy comes from, a value that users see.
	"invalid SSH configuration", "reading the configuration", // ssh_config.
	"%w configuration: the URI asks for SSH and there is nothing to dial with",
	"its configuration for Ignition is ", "the Ignition configuration",
	"%q is the configuration for Ignition: declare ignition.",
	"QEMU reads the configuration for Ignition when the VM starts.",
	"it must be a JSON object. If this is a Butane configuration, translate it first (butane --strict)",
	"raw commands taint the domain", // libvirt's word.
	"applied-sources",               // An element of a VM's metadata.
}

// TestEngine_speaksNoTerraform: the packages below the provider can be used without Terraform, so they don't tell users
// to apply or to import: fleet.Next and the kinds of errors say what to do, and this package says it in Terraform's
// words. Descriptions of attributes, which domain has in its rows, are texts of the schema.
func TestEngine_speaksNoTerraform(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, dir := range []string{
		"domain", "firstboot", "fleet", "guest", "hostset", "libvirt", "network", "ssh", "stats", "storage",
	} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, literal := range textsOf(file) {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					return err
				}
				if word := terraformsWords.FindString(text); word != "" {
					found[text] = true
					if !slices.Contains(otherMeanings, text) {
						t.Errorf("%s: %q is a word of Terraform: %s", files.Position(literal.Pos()), word, text)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range otherMeanings {
		if !found[text] {
			t.Errorf("no literal is %q any more", text)
		}
	}
}

// textsOf returns the string literals of a file, without imports and without descriptions of attributes.
func textsOf(file *ast.File) (texts []*ast.BasicLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			return !ok || key.Name != "Doc"
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				texts = append(texts, n)
			}
		}
		return true
	})
	return texts
}
